"""Gangs of which some were bound and others could not be: who counts as one, and what it gets."""

from __future__ import annotations

from pumice.core.decisions import Bind
from pumice.core.deltas import OutcomeCode, OutcomeReported, Upserted
from pumice.core.engine import Engine
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, priority_class, queue

SECOND_NS = 10**9


def half_done() -> Engine:
    """A gang of two whose second member waits, and a job of higher priority; room for one."""
    return fill(
        Engine(),
        node("n1", 2),
        queue(),
        priority_class("high", 9),
        pod_group("half", 2),
        pod("half-0", "half", on="n1"),
        pod("half-1", "half"),
        pod_group("rich", 1, priority_class_name="high"),
        pod("rich-0", "rich"),
    )


def bound(engine: Engine, now_ns: int = NOW_NS) -> list[str]:
    return [d.name for d in engine.schedule(now_ns).decisions if isinstance(d, Bind)]


def test_without_a_deadline_a_gang_found_half_done_has_no_precedence() -> None:
    assert bound(half_done()) == ["rich-0"]


def test_with_a_deadline_it_is_found_and_comes_first() -> None:
    engine = half_done()
    engine.gang_bind_deadline_ns = 60 * SECOND_NS
    assert bound(engine) == ["half-1"]


def begun() -> tuple[Engine, str]:
    """A gang of two was decided on, and its first member runs; the second decision's id."""
    engine = fill(Engine(), node("n1", 2), queue(), priority_class("high", 9), pod_group("half", 2))
    fill(engine, pod("half-0", "half"), pod("half-1", "half"))
    ids = {d.name: d.id for d in engine.schedule(NOW_NS).decisions}
    assert ids.keys() == {"half-0", "half-1"}
    engine.apply([Upserted(pod("half-0", "half", on="n1"))])
    fill(engine, pod_group("rich", 1, priority_class_name="high"), pod("rich-0", "rich"))
    return engine, ids["half-1"]


def test_a_gang_whose_members_bind_failed_for_good_comes_first_without_a_deadline() -> None:
    engine, decision = begun()
    engine.apply([OutcomeReported(decision, OutcomeCode.FAILED)], NOW_NS)
    assert bound(engine, NOW_NS + SECOND_NS) == ["half-1"]


def test_a_decision_that_got_lost_is_no_failure() -> None:
    engine, _ = begun()
    assert engine.forget_lost((), NOW_NS) == 1
    assert bound(engine, NOW_NS + SECOND_NS) == ["rich-0"]
