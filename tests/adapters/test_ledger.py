"""The ledger: gangs whole or absent, duplicates no-ops, and what is still owed."""

from pumice.adapters.runtime.buffer import HeldGroup
from pumice.adapters.runtime.ledger import Ledger, Order, Refusal
from tests.adapters.fake_world import bind, evict, gang

HELD = HeldGroup("uid-job", "h1")


def ledger(held: HeldGroup | None = HELD) -> Ledger:
    return Ledger(lambda job: held if job == "ns/job" else None)


def test_a_decision_by_itself_is_ready_at_once() -> None:
    book = ledger()
    assert book.add([], [bind("a")]) == [Order(None, (bind("a"),))]
    assert book.held_ids() == ["d-a"]


def test_a_gang_is_ready_when_its_last_part_has_come() -> None:
    book = ledger()
    parts = [bind("a", gang_id="g1"), evict("v", gang_id="g1"), bind("b", gang_id="g1")]
    assert book.add([gang(3)], parts[:1]) == []
    assert book.add([gang(3)], parts[1:2]) == []
    assert book.held_ids() == []
    assert book.add([gang(3)], parts[2:]) == [Order(gang(3), tuple(parts))]
    assert book.held_ids() == ["d-a", "e-v", "d-b"]


def test_parts_of_a_gang_are_forgotten_with_their_stream() -> None:
    book = ledger()
    book.add([gang(2)], [bind("a", gang_id="g1")])
    assert book.forget_incomplete() == [bind("a", gang_id="g1")]
    assert book.add([gang(2)], [bind("b", gang_id="g1")]) == []
    assert book.held_ids() == []


def test_a_part_that_comes_twice_counts_once() -> None:
    book = ledger()
    part = bind("a", gang_id="g1")
    assert book.add([gang(2)], [part, part]) == []
    assert book.duplicates == 1


def test_a_gang_is_refused_when_the_uid_the_hash_or_the_group_is_gone() -> None:
    parts = [bind("a", gang_id="g1")]
    for held in (HeldGroup("other", "h1"), HeldGroup("uid-job", "h2"), None):
        book = ledger(held)
        (answer,) = book.add([gang(1)], parts)
        assert isinstance(answer, Refusal)
        assert answer.decisions == tuple(parts)
        assert "gang refused: pod group ns/job" in answer.reason
        # Held until the core has heard of the refusal.
        assert book.held_ids() == ["d-a"]


def test_a_gang_without_a_pod_group_has_nothing_to_be_compared_with() -> None:
    lone = gang(2)
    lone.job, lone.pod_group_uid, lone.spec_hash = "controller-uid", "", ""
    parts = (bind("a", gang_id="g1"), bind("b", gang_id="g1"))
    book = ledger(None)
    assert book.add([lone], parts[:1]) == []
    assert book.add([lone], parts[1:]) == [Order(lone, parts)]


def test_a_gang_that_is_not_described_is_refused() -> None:
    (answer,) = ledger().add([], [bind("a", gang_id="g1")])
    assert isinstance(answer, Refusal)


def test_a_duplicate_of_what_is_held_or_settled_is_nothing() -> None:
    book = ledger()
    book.add([], [bind("a")])
    assert book.add([], [bind("a")]) == []
    book.close(["d-a"])
    assert book.held_ids() == []
    assert book.add([], [bind("a")]) == []
    assert book.duplicates == 2
