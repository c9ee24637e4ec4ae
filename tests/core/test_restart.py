"""A core that is restarted and given a snapshot goes on as the one before it would have.

What only the old core knew and the cluster does not show may differ: decisions in flight, the time
for which a job waits after failed binds, and gangs that are known to be bound in part. A walk
restarts the core at moments at which there is nothing of the kind.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable
from typing import Any

from hypothesis import settings
from hypothesis.stateful import precondition, rule

from pumice.core.decisions import (
    Decision,
    PodConditionChanged,
    PodGroupStatusChanged,
    SessionResult,
    StatusChange,
)
from pumice.core.deltas import ClusterObject, Delta, OutcomeReported, Upserted
from pumice.core.engine import Engine, Rejection
from pumice.core.model.group import PodGroup, PodGroupCondition, PodGroupPhase, PodGroupStatus
from pumice.core.model.pod import Pod, PodCondition
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, queue
from tests.core.test_random_walk import Walk, seeds

SECOND_NS = 10**9


class Restarted(Engine):
    """The core that lived on, and beside it one that was started later from a snapshot."""

    def __init__(self, lived: Engine, new: Engine) -> None:
        self.__dict__ = lived.__dict__
        self.__dict__.update(lived=lived, new=new, ids={})

    def apply(self, deltas: Iterable[Delta], now_ns: int = 0) -> tuple[Rejection, ...]:
        taken = list(deltas)
        rejected = self.__dict__["new"].apply([self._of_new(d) for d in taken], now_ns)
        assert Engine.apply(self.__dict__["lived"], taken, now_ns) == rejected == ()
        return ()

    def _of_new(self, delta: Delta) -> Delta:
        if isinstance(delta, OutcomeReported):
            return dataclasses.replace(delta, decision_id=self.__dict__["ids"][delta.decision_id])
        return delta

    def schedule(self, now_ns: int) -> SessionResult:
        lived = Engine.schedule(self.__dict__["lived"], now_ns)
        new = self.__dict__["new"].schedule(now_ns)
        for mine, other in zip(lived.decisions, new.decisions, strict=True):
            self.__dict__["ids"][mine.id] = other.id
        assert without_ids(lived) == without_ids(new)
        return lived


def without_ids(result: SessionResult) -> tuple[object, ...]:
    decisions = [_decision(d) for d in result.decisions]
    return decisions, [_status(s) for s in result.statuses], result.events, result.waits


def _decision(decision: Decision) -> Decision:
    gang = None if decision.gang is None else dataclasses.replace(decision.gang, id="")
    return dataclasses.replace(decision, id="", gang=gang)


def _status(change: StatusChange) -> StatusChange:
    if not isinstance(change, PodGroupStatusChanged):
        return change
    conditions = [dataclasses.replace(c, transition_id="") for c in change.status.conditions]
    return dataclasses.replace(
        change, status=dataclasses.replace(change.status, conditions=tuple(conditions))
    )


class RestartWalk(Walk):
    """A walk in which the core is thrown away now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.restarts = 0

    def made(self, actions: str, tiers: list[list[Any]]) -> Engine:
        engine = super().made(actions, tiers)
        engine._id_prefix = "first-"
        return engine

    @rule(seed=seeds)
    @precondition(lambda self: self.cluster.objects and self._shows_all())
    def core_restarts(self, seed: int) -> None:
        self.restarts += 1
        lived: Engine = self.cluster.engine.__dict__.get("lived", self.cluster.engine)
        new = Engine(lived.configuration, id_prefix=f"{self.restarts}-")
        objects = list(self.cluster.objects.values())
        random.Random(seed).shuffle(objects)
        assert new.apply([Upserted(item) for item in objects]) == ()
        self.cluster.engine = Restarted(lived, new)

    def _shows_all(self) -> bool:
        cache = self.cluster.engine.cache
        assumptions, suspects = cache.assumptions, cache.broken.since
        return not (self.unseen or len(assumptions) or suspects or cache.cool_downs)

    def _objects_say_all(self) -> bool:
        return False

    def _written(self, result: SessionResult) -> None:
        super()._written(result)
        for change in result.statuses:
            pod_ = self.cluster.objects.get((Pod, change.uid))
            if isinstance(change, PodConditionChanged) and isinstance(pod_, Pod):
                shown = PodCondition("PodScheduled", "False", change.reason, change.message)
                self.put(dataclasses.replace(pod_, conditions=(shown,)))


TestRestarts = RestartWalk.TestCase
TestRestarts.settings = settings(max_examples=60, stateful_step_count=30)


def test_a_restart_leaves_a_running_job_with_an_old_condition_running() -> None:
    old = PodGroupCondition("Unschedulable", "True", "NotEnoughResources", "3/3", "session-1", 7)
    group = dataclasses.replace(
        pod_group("g", 1), status=PodGroupStatus(PodGroupPhase.RUNNING, 1, conditions=(old,))
    )
    engine = fill(Engine(), node("n1"), queue(), group, pod("a", "g", on="n1"))
    for second in range(3):
        engine.schedule(NOW_NS + second * SECOND_NS)
        assert engine.cache.jobs["ns/g"].phase is PodGroupPhase.RUNNING


def test_ids_of_sessions_differ_between_cores() -> None:
    ids = set()
    for prefix in ("core-a-", "core-b-"):
        engine = fill(
            Engine(id_prefix=prefix), node("n1"), queue(), pod_group("g", 1), pod("a", "g", 9)
        )
        engine.schedule(NOW_NS)
        ids |= {c.transition_id for c in engine.cache.jobs["ns/g"].status.conditions}
    assert ids == {"core-a-session-1", "core-b-session-1"}


def test_a_restarted_core_repeats_no_event_about_what_the_cluster_shows() -> None:
    objects: list[ClusterObject] = [node("n1"), queue(), pod_group("g", 1), pod("a", "g", 9)]
    waiting = pod_group("h", phase=PodGroupPhase.PENDING, min_resources=(("cpu", 90_000),))
    engine = fill(Engine(), *objects, waiting)
    first = engine.schedule(NOW_NS)
    assert {(e.kind, e.name, e.reason) for e in first.events} == {
        ("Pod", "a", "FailedScheduling"),
        ("PodGroup", "g", "Unschedulable"),
        ("PodGroup", "h", "Unschedulable"),
    }
    shown = [item for item in engine.cache.objects() if not isinstance(item, Pod)]
    condition = next(s for s in first.statuses if isinstance(s, PodConditionChanged))
    told = PodCondition("PodScheduled", "False", condition.reason, condition.message)
    again = fill(Engine(), *shown, dataclasses.replace(pod("a", "g", 9), conditions=(told,)))
    second = again.schedule(NOW_NS + SECOND_NS)
    assert second.events == ()
    assert second.statuses == ()


def test_a_group_that_is_created_again_while_its_pods_live_is_told_again() -> None:
    group = pod_group("g", 1)
    engine = fill(Engine(), node("n1"), queue(), group, pod("a", "g", 9))
    assert _told(engine, 0) == ["g"]
    assert _told(engine, 1) == []
    engine.cache.delete(PodGroup, group.uid)
    fill(engine, dataclasses.replace(group, uid="another"))
    assert _told(engine, 2) == ["g"]


def _told(engine: Engine, second: int) -> list[str]:
    result = engine.schedule(NOW_NS + second * SECOND_NS)
    return [e.name for e in result.events if e.kind == "PodGroup"]
