"""Random walks over the real engine: whatever happens to a cluster, some things always hold."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from pumice.core.cache.assumptions import is_broken
from pumice.core.decisions import (
    Bind,
    Decision,
    Evict,
    PodConditionChanged,
    PodGroupStatusChanged,
    QueueStatusChanged,
    SessionResult,
)
from pumice.core.deltas import ClusterObject, OutcomeCode, OutcomeReported, Upserted
from pumice.core.engine import Engine
from pumice.core.model.group import PodGroup, PodGroupPhase, Queue
from pumice.core.model.node import Node
from pumice.core.model.pod import Pod, PodPhase
from pumice.core.model.selectors import Taint, TaintEffect
from tests.core import builders, recount
from tests.world import SECOND_NS, START_NS, Cluster, make_engine

EVICTING = {"preempt", "reclaim", "gangpreempt", "gangreclaim"}
CONFIGURATIONS: dict[str, tuple[str, list[list[Any]]]] = {
    "default": (
        "enqueue, allocate, backfill",
        [
            ["priority", "gang", "conformance"],
            ["overcommit", "drf", "predicates", "proportion", "nodeorder"],
        ],
    ),
    "evicting": (
        "enqueue, allocate, preempt, reclaim, backfill",
        [["priority", "gang", "conformance"], ["drf", "predicates", "proportion", "nodeorder"]],
    ),
    "capacity": (
        "enqueue, reclaim, allocate, preempt, backfill",
        [["priority", "gang", "conformance"], ["predicates", "capacity", "binpack", "sla"]],
    ),
    "gangs": (
        "enqueue, gangreclaim, allocate, gangpreempt, backfill",
        [["priority", "gang", "conformance"], ["predicates", "capacity", "binpack"]],
    ),
    "every action": (
        "enqueue, allocate, gangpreempt, preempt, gangreclaim, reclaim, backfill",
        [
            ["priority", "gang", "conformance"],
            ["overcommit", "drf", "predicates", "proportion", "resourcequota", "nodeorder"],
        ],
    ),
    "packing": (
        "enqueue, allocate, backfill",
        [["priority", "gang", "sla"], ["predicates", "resourcequota", "binpack"]],
    ),
    "no gangs": ("allocate, backfill", [["drf"], ["predicates"]]),
}

seeds = st.integers(0, 2**16)
names = st.integers(0, 5)
cores = st.sampled_from([0, 1, 2, 3])
fates = st.sampled_from(["at once", "at once", "at once", "not seen", "refused", "failed"])


class Walk(RuleBasedStateMachine):
    """A cluster to which things happen in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(make_engine("allocate"))
        self.now_ns = START_NS
        self.age = 0
        # Decisions that the cluster has not shown yet.
        self.unseen: list[Decision] = []
        # Since a decision was refused, the engine knows more than the objects say.
        self.remembers = False

    @initialize(
        name=st.sampled_from(sorted(CONFIGURATIONS)),
        count=st.integers(1, 4),
        sizes=st.lists(st.integers(1, 4), max_size=4),
    )
    def begin(self, name: str, count: int, sizes: list[int]) -> None:
        self.cluster = Cluster(self.made(*CONFIGURATIONS[name]))
        self.put(
            *(builders.queue(name) for name in ("default", "q0", "q1")),
            *(builders.priority_class(f"p{value}", value) for value in (1, 2)),
            *(builders.node(f"n{i}") for i in range(count)),
        )
        # Jobs of low priority run already.
        for number, size in enumerate(sizes):
            self.job_appears(20 + number, size, size - 1, 1, "q0", "p1", wants=False)
        for _ in range(3):
            self.session(0, "at once")

    def made(self, actions: str, tiers: list[list[Any]]) -> Engine:
        return make_engine(actions, tiers)

    def put(self, *objects: ClusterObject) -> None:
        assert self.cluster.put(*objects) == ()

    def born(self) -> int:
        self.age += 1
        return START_NS - 10**15 + self.age * SECOND_NS

    # Nodes and queues.

    @rule(number=names, cpu=st.integers(0, 8), pods=st.integers(1, 6), odd=st.integers(0, 9))
    def node_appears_or_changes(self, number: int, cpu: int, pods: int, odd: int) -> None:
        taints = (Taint("odd", "", TaintEffect.NO_SCHEDULE),) if odd == 0 else ()
        self.put(builders.node(f"n{number}", cpu, 16, pods, taints=taints, unschedulable=odd == 1))

    @rule(number=names)
    def node_goes(self, number: int) -> None:
        if (Node, f"uid-n{number}") in self.cluster.objects:
            self.cluster.take(Node, f"uid-n{number}")

    @rule(number=st.integers(0, 2), weight=st.integers(1, 4), cpu=st.none() | st.integers(1, 6))
    def queue_appears_or_changes(self, number: int, weight: int, cpu: int | None) -> None:
        limit = None if cpu is None else (("cpu", cpu * 1000),)
        self.put(builders.queue(f"q{number}", weight=weight, capability=limit))

    @rule(value=st.integers(1, 3))
    def class_appears(self, value: int) -> None:
        self.put(builders.priority_class(f"p{value}", value))

    # Jobs and pods.

    @rule(
        number=st.integers(0, 9),
        size=st.integers(1, 4),
        spare=st.integers(0, 2),
        cpu=cores,
        queue=st.sampled_from(["default", "q0", "q1", "q2"]),
        priority=st.sampled_from(["", "p1", "p2", "p3"]),
        wants=st.booleans(),
    )
    def job_appears(
        self, number: int, size: int, spare: int, cpu: float, queue: str, priority: str, wants: bool
    ) -> None:
        name = f"j{number}"
        if any(group.name == name for group in self.cluster.groups()):
            return
        minimum = max(size - spare, 1)
        least = (("cpu", int(cpu * 1000) * minimum),) if wants else None
        self.put(
            builders.pod_group(
                name,
                minimum,
                queue_name=queue,
                phase=PodGroupPhase.PENDING,
                priority_class_name=priority,
                min_resources=least,
                creation_time_ns=self.born(),
            ),
            *(self._pod(name, cpu) for _ in range(size)),
        )

    def _pod(self, job: str, cpu: float) -> Pod:
        """Now and then with the name of another one, which may still be there."""
        born = self.born()
        name = f"{job}-{self.age - self.age // 5 % 2}"
        pod = builders.pod(name, job, cpu, min(cpu, 1), creation_time_ns=born)
        return dataclasses.replace(pod, uid=f"uid-{self.age}")

    @rule(number=st.integers(0, 9), cpu=cores)
    def pod_appears(self, number: int, cpu: float) -> None:
        self.put(self._pod(f"j{number}", cpu))

    @rule(seed=seeds, how=st.sampled_from(["gone", "leaving", "succeeded", "failed"]))
    @precondition(lambda self: self.cluster.pods())
    def pod_ends(self, seed: int, how: str) -> None:
        pods = sorted(self.cluster.pods(), key=lambda pod: pod.uid)
        pod = pods[seed % len(pods)]
        if how == "gone":
            self.cluster.take(Pod, pod.uid)
        elif how == "leaving":
            self.put(dataclasses.replace(pod, terminating=True))
        elif pod.node_name:
            phase = PodPhase.SUCCEEDED if how == "succeeded" else PodPhase.FAILED
            self.put(dataclasses.replace(pod, phase=phase))

    @rule(number=st.integers(0, 9))
    def job_goes(self, number: int) -> None:
        if (PodGroup, f"uid-j{number}") in self.cluster.objects:
            self.cluster.take(PodGroup, f"uid-j{number}")

    # Sessions.

    @rule(seed=seeds, fate=fates, number=st.integers(0, 9), size=st.integers(1, 3), cpu=cores)
    def job_of_high_priority_comes(
        self, seed: int, fate: str, number: int, size: int, cpu: float
    ) -> None:
        self.job_appears(number, size, 0, cpu, "q0" if seed % 2 else "q1", "p2", wants=False)
        self.session(seed, "at once")
        self.session(seed, fate)

    @rule(seed=seeds, fate=fates)
    def session(self, seed: int, fate: str) -> None:
        self.now_ns += SECOND_NS
        fresh = self._fresh(seed) if self._objects_say_all() else None
        result = self.cluster.engine.schedule(self.now_ns)
        assert result.faults == ()
        self._decisions_are_sound(result)
        if fresh is not None:
            again = fresh.schedule(self.now_ns)
            assert [str(d) for d in result.decisions] == [str(d) for d in again.decisions]
            assert result.waits == again.waits
        self._written(result)
        for decision in result.decisions:
            self._meets(decision, fate)

    def _objects_say_all(self) -> bool:
        """Whether an engine that starts now knows as much as this one.

        It cannot know what was refused or not seen yet, and takes a gang that was begun and is
        short for one that a former core left half done.
        """
        cache = self.cluster.engine.cache
        jobs = cache.jobs.members(cache.session_queues())
        half_done = any(is_broken(job) for job in jobs.values())
        return not (self.unseen or self.remembers or half_done)

    def _fresh(self, seed: int) -> Engine:
        """Another engine, told of the same objects in another order."""
        engine = Engine(self.cluster.engine.configuration)
        objects = list(self.cluster.objects.values())
        random.Random(seed).shuffle(objects)
        assert engine.apply([Upserted(item) for item in objects]) == ()
        return engine

    def _meets(self, decision: Decision, fate: str) -> None:
        if fate == "at once":
            self._comes_true(decision)
        elif fate == "not seen":
            self.unseen.append(decision)
        else:
            code = OutcomeCode.CONFLICT if fate == "refused" else OutcomeCode.FAILED
            report = OutcomeReported(decision.id, code)
            assert self.cluster.engine.apply([report], self.now_ns) == ()
            self.remembers = True

    def _comes_true(self, decision: Decision) -> None:
        pod = self.cluster.objects.get((Pod, decision.uid))
        if not isinstance(pod, Pod):
            return
        if isinstance(decision, Evict):
            self.cluster.take(Pod, pod.uid)
        elif pod.terminating and not pod.node_name:
            # An API server binds no pod that is being deleted.
            self._meets(decision, "refused")
        elif not pod.node_name:
            self.put(dataclasses.replace(pod, node_name=decision.node, phase=PodPhase.RUNNING))

    @rule()
    def everything_is_seen(self) -> None:
        for decision in self.unseen:
            self._comes_true(decision)
        self.unseen = []

    def _written(self, result: SessionResult) -> None:
        for change in result.statuses:
            kinds = {PodGroupStatusChanged: PodGroup, QueueStatusChanged: Queue}
            item = self.cluster.objects.get((kinds.get(type(change), Pod), change.uid))
            match change, item:
                case PodGroupStatusChanged(), PodGroup():
                    self.put(dataclasses.replace(item, status=change.status))
                case QueueStatusChanged(), Queue():
                    self.put(dataclasses.replace(item, allocated=change.allocated))
                case PodConditionChanged(), Pod() if change.nominated_node_name:
                    node = change.nominated_node_name
                    self.put(dataclasses.replace(item, nominated_node_name=node))

    # What always holds.

    def _decisions_are_sound(self, result: SessionResult) -> None:
        binds = [d for d in result.decisions if isinstance(d, Bind)]
        evicts = [d for d in result.decisions if isinstance(d, Evict)]
        actions = set(self.cluster.engine.configuration.actions)
        assert actions & EVICTING or not evicts, "evicted without an action that evicts"
        assert max(Counter(d.uid for d in result.decisions).values(), default=1) == 1
        for bind in binds:
            pod = self.cluster.objects[Pod, bind.uid]
            node = self.cluster.objects[Node, f"uid-{bind.node}"]
            assert isinstance(pod, Pod)
            assert isinstance(node, Node)
            assert (pod.phase, pod.node_name, pod.terminating) == (PodPhase.PENDING, "", False)
            assert not node.unschedulable
            assert not node.taints
        for evict in evicts:
            pod = self.cluster.objects[Pod, evict.uid]
            assert isinstance(pod, Pod)
            assert pod.node_name == evict.node or evict.uid in {d.uid for d in self.unseen}
            assert not pod.terminating
        self._no_node_is_overcommitted(binds)
        if "gang" in {p.name for tier in self.cluster.engine.configuration.tiers for p in tier}:
            self._gangs_are_whole(binds)

    def _places(self) -> dict[str, str]:
        """Pods and their nodes, those included that the cluster has not shown yet."""
        coming = {d.uid: d.node for d in self.unseen if isinstance(d, Bind)}
        return {
            pod.uid: pod.node_name or ("" if pod.terminating else coming.get(pod.uid, ""))
            for pod in self.cluster.pods()
        }

    def _no_node_is_overcommitted(self, binds: list[Bind]) -> None:
        places = {**self._places(), **{bind.uid: bind.node for bind in binds}}
        specs = {pod.uid: pod for pod in self.cluster.pods()}
        for name in {b.node for b in binds if dict(specs[b.uid].spec.requests)["cpu"]}:
            used: Counter[str] = Counter()
            for uid, place in places.items():
                if place == name and specs[uid].phase in (PodPhase.PENDING, PodPhase.RUNNING):
                    used.update(dict(specs[uid].spec.requests))
            node = self.cluster.objects[Node, f"uid-{name}"]
            assert isinstance(node, Node)
            offered = dict(node.allocatable)
            assert all(used[resource] <= offered[resource] for resource in offered), (name, used)

    def _gangs_are_whole(self, binds: list[Bind]) -> None:
        places = {**self._places(), **{bind.uid: bind.node for bind in binds}}
        pods = {pod.uid: pod for pod in self.cluster.pods()}
        for job in {pods[bind.uid].group_name for bind in binds}:
            group = self.cluster.objects[PodGroup, f"uid-{job}"]
            assert isinstance(group, PodGroup)
            members = [pod for pod in pods.values() if pod.group_name == job]
            there = [pod for pod in members if _counts(pod, places[pod.uid])]
            assert len(there) >= group.min_member, (job, group.min_member)

    @invariant()
    def counters_are_what_a_recount_finds(self) -> None:
        recount.check(self.cluster.engine.cache)


def _counts(pod: Pod, place: str) -> bool:
    """Whether a gang may count on a pod: placed or done, or in need of nothing but a place."""
    if pod.phase is PodPhase.SUCCEEDED:
        return True
    if pod.terminating or pod.phase is PodPhase.FAILED:
        return False
    return bool(place) or not dict(pod.spec.requests)["cpu"]


TestWalk = Walk.TestCase
TestWalk.settings = settings(max_examples=60, stateful_step_count=30)
