"""drf: the job with the smallest dominant share comes first."""

from __future__ import annotations

from pumice.core.deltas import ClusterObject
from pumice.core.session.hooks import PERMIT
from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, names


def opened(*objects: ClusterObject) -> Opened:
    """Ten cores and 40 GiB; A holds 2 and 4, B holds 1 and 12."""
    return Opened(
        node("n1", 10, 40, pods=1000),
        queue(),
        pod_group("a"),
        pod_group("b"),
        pod("a-0", "a", 2, 4, on="n1"),
        pod("b-0", "b", 0.5, 8, on="n1"),
        *objects,
        plugins=["drf"],
    )


def victims(session: Opened, preemptor: str, *candidates: str) -> list[str]:
    tasks, vote = session.hooks.preemptable["drf"](
        session.task(preemptor), session.tasks(*candidates)
    )
    assert vote == PERMIT
    return names(tasks)


def test_the_smaller_dominant_share_comes_first() -> None:
    session = opened(pod("b-1", "b", 0.5, 4, on="n1"))
    order = session.hooks.job_order["drf"]
    assert order(session.job("a"), session.job("b")) == -1
    assert order(session.job("b"), session.job("a")) == 1
    assert order(session.job("a"), session.job("a")) == 0


def test_the_worked_example_of_preemption() -> None:
    preemptor = pod("a-1", "a", 1, 2)
    # Without its 4 GiB, B is down to a fifth: less than A would have.
    assert victims(opened(preemptor, pod("b-1", "b", 0.5, 4, on="n1")), "a-1", "b-1") == []
    # B keeps 12 GiB, three tenths: as much as A would have.
    session = opened(preemptor, pod("b-1", "b", 0, 4, on="n1"), pod("b-2", "b", 0.5, 0, on="n1"))
    assert victims(session, "a-1", "b-2") == ["b-2"]


def test_a_candidate_counts_as_gone_for_the_next_even_when_it_was_not_chosen() -> None:
    preemptor = pod("a-1", "a", 1, 2)
    session = opened(preemptor, pod("b-1", "b", 0, 4, on="n1"), pod("b-2", "b", 0.5, 0, on="n1"))
    assert victims(session, "a-1", "b-2", "b-1") == ["b-2"]
    assert victims(session, "a-1", "b-1", "b-2") == []


def test_an_unknown_preemptor_gets_nobody_and_unknown_candidates_are_skipped() -> None:
    session = opened(pod("stray", "nowhere", 1, 1), pod("far", "nowhere", 1, 1, on="n1"))
    assert victims(session, "stray", "b-0") == []
    assert victims(session, "a-0", "far") == []


def test_shares_follow_placements_and_their_undoing() -> None:
    session = opened(pod("a-1", "a", 1, 20))
    order = session.hooks.job_order["drf"]
    a, b = session.job("a"), session.job("b")
    assert order(a, b) == 0
    statement = session.session.statement()
    statement.allocate(session.task("a-1"), "n1")
    assert order(a, b) == 1
    statement.discard()
    assert order(a, b) == 0
    statement.pipeline(session.task("a-1"), "n1", eviction_occurred=False)
    assert order(a, b) == 1
    statement.discard()
    statement.evict(session.task("a-0"), "test")
    assert order(a, b) == -1
    statement.discard()
    assert order(a, b) == 0


def test_places_among_pods_are_a_dimension() -> None:
    session = Opened(
        node("n1", 100, 100, pods=2),
        queue(),
        pod_group("a"),
        pod_group("b"),
        pod("a-0", "a", 1, 1, on="n1"),
        pod("b-0", "b", 20, 1, on="n1"),
        plugins=["drf"],
    )
    # Half of the places is more than a fifth of the cores, and both have it.
    assert session.hooks.job_order["drf"](session.job("a"), session.job("b")) == 0


def test_without_hierarchy_queues_are_not_compared() -> None:
    session = opened()
    assert session.hooks.queue_order == {}
    assert session.hooks.reclaimable == {}
