"""What sessions remember changes nothing: an engine that forgets all of it decides the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from hypothesis import settings

from pumice.core import kernel
from pumice.core.actions import allocate
from pumice.core.decisions import Bind, SessionResult
from pumice.core.deltas import Deleted, Delta, Upserted
from pumice.core.engine import Engine, Rejection
from pumice.core.model.pod import Pod, PodPhase
from pumice.core.session.hooks import Chains
from pumice.core.session.placing import placement
from pumice.core.session.placing.statement import Statement
from tests.core.builders import NOW_NS, fill, job, node, queue
from tests.core.test_random_walk import Walk
from tests.world import make_engine

SECOND_NS = 10**9


@contextmanager
def slowly() -> Iterator[None]:
    """Nothing is compiled, sorted by keys, told at once or placed together."""
    with (
        patch.object(kernel, "rows", None),
        patch.object(Chains, "all_of", return_value=None),
        patch.object(allocate._AllocateRun, "_is_unschedulable", return_value=False),
        patch.object(placement.Placement, "_place_alike", return_value=False),
        patch.object(placement.Placement, "place_at_once", return_value=None),
    ):
        yield


def forget(engine: Engine) -> None:
    """Every class is computed anew, and every job looked at and closed again."""
    engine._views.clear()
    for one in engine.cache.jobs.values():
        one.to_place = None
        one.closed_version = -1
        engine.cache.jobs.changed.add(one.id)


def told(result: SessionResult) -> tuple[object, ...]:
    return (result.decisions, result.statuses, result.events, result.waits)


class Twins(Engine):
    """An engine, and beside it one that forgets everything before each session."""

    def __init__(self, quick: Engine, careful: Engine) -> None:
        self.__dict__ = quick.__dict__
        self.__dict__["careful"] = careful

    def apply(self, deltas: Iterable[Delta], now_ns: int = 0) -> tuple[Rejection, ...]:
        deltas = list(deltas)
        careful: Engine = self.__dict__["careful"]
        rejected = careful.apply(deltas, now_ns)
        assert [r.delta for r in super().apply(deltas, now_ns)] == [r.delta for r in rejected]
        return rejected

    def schedule(self, now_ns: int) -> SessionResult:
        careful: Engine = self.__dict__["careful"]
        could_be_skipped, waits = self.can_skip(now_ns), self.waits
        result = super().schedule(now_ns)
        if could_be_skipped:
            assert told(result) == ((), (), (), waits)
            WalkOfTwins.skippable += 1
        forget(careful)
        with slowly():
            assert told(result) == told(careful.schedule(now_ns))
        return result


class WalkOfTwins(Walk):
    """Whatever happens to a cluster, both decide and say the same.

    A session that could have been left out is run nevertheless, and does nothing.
    """

    # Sessions that could have been left out, over all walks.
    skippable = 0

    def made(self, actions: str, tiers: list[list[Any]]) -> Engine:
        return Twins(make_engine(actions, tiers), make_engine(actions, tiers))


TestWalkOfTwins = WalkOfTwins.TestCase
TestWalkOfTwins.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_some_sessions_of_the_walks_could_have_been_skipped() -> None:
    """Or else nothing would have been shown about them."""
    if not WalkOfTwins.skippable:
        TestWalkOfTwins("runTest").runTest()
    assert WalkOfTwins.skippable > 20


def crowded() -> Engine:
    """Two nodes that are full, one that is closed, and gangs of two kinds that wait."""
    engine = make_engine(
        "enqueue, allocate, backfill",
        [["priority", "gang"], ["drf", "predicates", "proportion", "nodeorder"]],
    )
    fill(engine, queue(), node("n1", 4), node("n2", 4), node("n3", 64, unschedulable=True))
    fill(engine, job("runs", 2, 4))
    for decision in engine.schedule(NOW_NS).decisions:
        pod = engine.cache.tasks[decision.uid].pod
        engine.apply([Upserted(replace(pod, node_name=decision.node, phase=PodPhase.RUNNING))])
    for number in range(20):
        fill(engine, job(f"small-{number:02}", 2, 1), job(f"large-{number:02}", 2, 6))
    engine.schedule(NOW_NS + SECOND_NS)
    return engine


def test_gangs_that_fit_nowhere_are_told_so_without_a_closer_look() -> None:
    engine = crowded()
    before = engine.waits
    result = engine.schedule(NOW_NS + 2 * SECOND_NS)
    assert (result.decisions, result.statuses, result.events) == ((), (), ())
    assert result.waits == before
    assert len(before) == 40
    assert "candidates_scored" not in result.work
    assert "jobs_closed" not in result.work


def test_a_node_that_changes_and_helps_nobody_is_no_news() -> None:
    engine = crowded()
    engine.apply([Upserted(node("n3", 65, unschedulable=True))])
    result = engine.schedule(NOW_NS + 2 * SECOND_NS)
    assert (result.decisions, result.statuses, result.events) == ((), (), ())
    assert "jobs_closed" not in result.work


def test_after_a_node_frees_up_only_the_gangs_it_can_help_are_tried() -> None:
    engine = crowded()
    gone = next(t for t in engine.cache.tasks.values() if t.node_name == "n1")
    engine.apply([Deleted(Pod, gone.uid)])
    place_class = Statement.place_class
    with patch.object(Statement, "place_class", autospec=True, side_effect=place_class) as tried:
        result = engine.schedule(NOW_NS + 2 * SECOND_NS)
    names = {call.args[2][0].job_id for call in tried.call_args_list}
    assert names == {"ns/small-00", "ns/small-01"}
    assert sum(isinstance(d, Bind) for d in result.decisions) == 4


def test_a_job_that_stood_for_its_group_is_explained_anew() -> None:
    """A node that changed has preempt say something else of the group; the job keeps its reason."""
    walk = WalkOfTwins()
    walk.begin(name="capacity", count=3, sizes=[])
    comes = walk.job_of_high_priority_comes
    comes(cpu=0, fate="at once", number=2, seed=0, size=1)
    comes(cpu=3, fate="at once", number=0, seed=0, size=3)
    comes(cpu=0, fate="at once", number=0, seed=0, size=1)
    comes(cpu=2, fate="at once", number=1, seed=1, size=1)
    for _ in range(3):
        walk.node_appears_or_changes(cpu=0, number=0, odd=0, pods=1)
    comes(cpu=0, fate="at once", number=0, seed=0, size=1)
    (wait,) = [wait for wait in walk.cluster.engine.waits if wait.job == "ns/j1"]
    assert [reason.author for reason in wait.reasons] == ["reclaim", "allocate", "gang", "preempt"]
