"""Random walks in kube-batch's mode: the same invariants, with jobs of controllers and budgets."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from pumice.core.cache.tasks import Task
from pumice.core.decisions import Bind
from pumice.core.deltas import Upserted
from pumice.core.engine import Engine
from pumice.core.kubebatch.jobs import MIN_MEMBER_ANNOTATION
from pumice.core.kubebatch.tolerance import counts
from pumice.core.model.group import PodDisruptionBudget, PodGroup
from pumice.core.model.pod import Pod, PodPhase
from tests.core import builders, recount
from tests.core.kubebatch.older import ALL_ACTIONS, DEFAULT_TIERS, budget, engine, lone
from tests.core.test_random_walk import Walk, cores
from tests.world import Cluster

CONFIGURATIONS: dict[str, tuple[Any, ...]] = {
    "default": ("allocate backfill", DEFAULT_TIERS),
    "evicting": (ALL_ACTIONS, DEFAULT_TIERS),
    "one tier": (ALL_ACTIONS, ("gang priority drf predicates proportion nodeorder",)),
    "backoff": (ALL_ACTIONS, DEFAULT_TIERS, "backoff"),
    "no shares": ("allocate preempt backfill", ("gang conformance", "predicates")),
}


class OlderWalk(Walk):
    """The same cluster, of which an engine in kube-batch's mode is told."""

    @initialize(
        name=st.sampled_from(sorted(CONFIGURATIONS)),
        count=st.integers(1, 4),
        sizes=st.lists(st.integers(1, 4), max_size=4),
    )
    def begin(self, name: str, count: int, sizes: list[int]) -> None:
        self.name = name
        self.cluster = Cluster(engine(*CONFIGURATIONS[name]))
        self.put(
            *(builders.queue(name) for name in ("default", "q0", "q1")),
            *(builders.priority_class(f"p{value}", value) for value in (1, 2)),
            *(builders.node(f"n{i}") for i in range(count)),
        )
        for number, size in enumerate(sizes):
            self.job_appears(20 + number, size, size - 1, 1, "q0", "p1", wants=False)
        for _ in range(3):
            self.session(0, "at once")

    def _fresh(self, seed: int) -> Engine:
        fresh = engine(*CONFIGURATIONS[self.name])
        objects = list(self.cluster.objects.values())
        random.Random(seed).shuffle(objects)
        assert fresh.apply([Upserted(item) for item in objects]) == ()
        return fresh

    # Jobs without a PodGroup.

    @rule(number=st.integers(0, 3), cpu=cores, minimum=st.integers(0, 3))
    def lone_pod_appears(self, number: int, cpu: float, minimum: int) -> None:
        annotations = {MIN_MEMBER_ANNOTATION: str(minimum)} if minimum else {}
        name, born = f"lone-{self.age}", self.born()
        controller = f"rs{number}" if number else ""
        self.put(lone(name, cpu, controller, annotations=annotations, creation_time_ns=born))

    @rule(number=st.integers(0, 3), minimum=st.integers(0, 3), controller=st.integers(0, 3))
    def budget_appears(self, number: int, minimum: int, controller: int) -> None:
        born = self.born()
        self.put(budget(f"b{number}", f"rs{controller}", minimum, creation_time_ns=born))

    @rule(number=st.integers(0, 3))
    def budget_goes(self, number: int) -> None:
        if (PodDisruptionBudget, f"uid-b{number}") in self.cluster.objects:
            self.cluster.take(PodDisruptionBudget, f"uid-b{number}")

    # What always holds.

    def _gangs_are_whole(self, binds: list[Bind]) -> None:
        places = {**self._places(), **{bind.uid: bind.node for bind in binds}}
        jobs: dict[str, list[Pod]] = {}
        for pod in self.cluster.pods():
            jobs.setdefault(_job(pod), []).append(pod)
        for members in jobs.values():
            if any(bind.uid == pod.uid for bind in binds for pod in members):
                there = [pod for pod in members if _is_there(pod, places[pod.uid])]
                assert len(there) >= self._minimum(members), members

    def _minimum(self, members: list[Pod]) -> int:
        founder = min(members, key=lambda pod: (pod.creation_time_ns, pod.key))
        if founder.group_name:
            group = self.cluster.objects[PodGroup, f"uid-{founder.group_name}"]
            assert isinstance(group, PodGroup)
            return group.min_member
        budgets = [
            item
            for item in self.cluster.objects.values()
            if isinstance(item, PodDisruptionBudget)
            and item.controller_uid == founder.controller_uid
        ]
        if budgets:
            return max(budgets, key=lambda item: item.creation_time_ns).min_available
        return int(founder.annotations.get(MIN_MEMBER_ANNOTATION, "1"))

    @invariant()
    def counters_are_what_a_recount_finds(self) -> None:
        with patch.object(recount, "of", _counted):
            recount.check(self.cluster.engine.cache)


def _job(pod: Pod) -> str:
    return pod.group_name or pod.controller_uid or pod.uid


def _is_there(pod: Pod, place: str) -> bool:
    """A gang counts on pods with a node or done; on those that need nothing it does not."""
    if pod.phase is PodPhase.SUCCEEDED:
        return True
    return bool(place) and not pod.terminating and pod.phase is not PodPhase.FAILED


def _counted(task: Task) -> recount.Amounts:
    return {name: amount for name, amount in task.pod.spec.requests if counts(name)}


TestOlderWalk = OlderWalk.TestCase
TestOlderWalk.settings = settings(max_examples=60, stateful_step_count=40)
