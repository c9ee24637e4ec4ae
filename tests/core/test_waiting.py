"""Jobs that wait for room are passed over, with the result of looking at each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.core.cache.job_index import WaitingGroups
from pumice.core.deltas import ClusterObject, Deleted, OutcomeCode, OutcomeReported, Upserted
from pumice.core.engine import Engine
from pumice.core.model.group import PodGroupPhase, QueueState, ResourceQuota, Workload
from pumice.core.model.pod import Pod, PodAffinityTerm, PodPhase
from pumice.core.model.selectors import LabelSelector, Operator, Requirement
from tests.core.builders import GIB, NOW_NS, fill, job, node, pod, priority_class, queue
from tests.core.test_remembering import SECOND_NS, Twins
from tests.world import make_engine

CONFIGURATIONS: dict[str, tuple[str, list[list[Any]]]] = {
    "default": (
        "enqueue, allocate, backfill",
        [["priority", "gang"], ["overcommit", "drf", "predicates", "proportion", "nodeorder"]],
    ),
    "capacity": (
        "enqueue, allocate, backfill",
        [["priority", "gang"], ["drf", "predicates", "capacity", "nodeorder"]],
    ),
    "evicting": (
        "enqueue, allocate, preempt, backfill",
        [["priority", "gang"], ["drf", "predicates", "proportion", "nodeorder"]],
    ),
    "reclaiming": (
        "enqueue, reclaim, allocate, preempt, backfill",
        [["priority", "gang", "conformance"], ["predicates", "capacity", "nodeorder"]],
    ),
    "gangs": (
        "enqueue, gangreclaim, allocate, gangpreempt, backfill",
        [["priority", "gang", "conformance"], ["predicates", "capacity", "nodeorder"]],
    ),
    "every action": (
        "enqueue, allocate, gangpreempt, preempt, gangreclaim, reclaim, backfill",
        [
            ["priority", "gang", "conformance"],
            ["overcommit", "drf", "predicates", "capacity", "resourcequota", "nodeorder"],
        ],
    ),
    "sla": (
        "enqueue, allocate, backfill",
        [
            [
                "priority",
                "gang",
                {"name": "sla", "arguments": {"sla-waiting-time": f"{NOW_NS // 10**9 + 20}s"}},
            ],
            ["overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"],
        ],
    ),
}


WEB = LabelSelector((Requirement("app", Operator.IN, ("web",)),))


def room_of(engine: Engine) -> WaitingGroups:
    return engine.cache.jobs.unschedulable


class Crowd:
    """A full cluster in which gangs of several classes and queues wait, and its sessions."""

    def __init__(self, engine: Engine, waiting: int = 4) -> None:
        self.engine = engine
        self.now_ns = NOW_NS
        self.number = 0
        queues = [queue(name) for name in ("default", "q0", "q1")]
        fill(engine, *queues, *(priority_class(f"p{v}", v) for v in (1, 2)))
        fill(engine, node("n1", 4), node("n2", 4), node("n3", 64, unschedulable=True))
        self.arrives(2, 4, "default")
        self.session()
        for number in range(waiting):
            for size, cpu in ((2, 3), (1, 4), (3, 6)):
                self.arrives(size, cpu, f"q{number % 2}")
        self.rests()

    def session(self) -> int:
        """One session, whose decisions come true; returns how many there were."""
        self.now_ns += SECOND_NS
        result = self.engine.schedule(self.now_ns)
        for decision in result.decisions:
            known = self.engine.cache.tasks.get(decision.uid)
            if known is not None:
                run = replace(known.pod, node_name=decision.node, phase=PodPhase.RUNNING)
                self.put(run)
        return len(result.decisions)

    def rests(self) -> None:
        for _ in range(4):
            self.session()

    def put(self, *objects: ClusterObject) -> None:
        assert self.engine.apply([Upserted(item) for item in objects], self.now_ns) == ()

    def arrives(
        self, size: int, cpu: float, queue_name: str, priority: str = "", born: int | None = None
    ) -> None:
        self.number += 1
        born = 10 * self.number if born is None else born
        more: dict[str, Any] = {"queue_name": queue_name, "priority_class_name": priority}
        self.put(*job(f"j{self.number:03}", size, cpu, creation_time_ns=born, **more))

    def running(self) -> list[Pod]:
        pods = [task.pod for task in self.engine.cache.tasks.values() if task.pod.node_name]
        return sorted(pods, key=lambda pod: pod.uid)

    def waiting(self) -> list[Pod]:
        pods = [task.pod for task in self.engine.cache.tasks.values() if not task.pod.node_name]
        return sorted(pods, key=lambda pod: pod.uid)

    # What may happen.

    def pod_ends(self, which: int) -> None:
        if pods := self.running():
            self.put(replace(pods[which % len(pods)], phase=PodPhase.SUCCEEDED))

    def pod_goes(self, which: int) -> None:
        if pods := self.waiting():
            self.engine.apply([Deleted(Pod, pods[which % len(pods)].uid)], self.now_ns)

    def job_comes(self, which: int) -> None:
        sizes = ((1, 1), (2, 3), (1, 4), (2, 0.5))
        size, cpu = sizes[which % len(sizes)]
        born = None if which % 5 else 10 * which + 5
        self.arrives(size, cpu, f"q{which % 2}", ("", "p1", "p2")[which % 3], born)

    def job_asks_to_be_admitted(self, which: int) -> None:
        """Some are too large for the cluster, for the quota of their namespace, or for their queue."""
        cpu = (1, 4, 20, 200)[which % 4]
        self.asks(1 + which % 2, cpu, f"q{which % 2}", "p2" if which % 5 else "")

    def asks(self, size: int, cpu: int, queue_name: str, priority: str = "") -> None:
        """A gang that is not admitted yet; of some there are no pods."""
        self.number += 1
        minimum = size * cpu * 1000
        group, *pods = job(
            f"j{self.number:03}",
            size,
            cpu,
            creation_time_ns=10 * self.number,
            queue_name=queue_name,
            priority_class_name=priority,
            phase=PodGroupPhase.PENDING,
            min_resources=(("cpu", minimum),),
            min_resources_milli=(("requests.cpu", minimum),),
        )
        self.put(group, *pods[: size * (self.number % 3)])

    def quota_changes(self, which: int) -> None:
        limit = (("requests.cpu", which % 7 * 1000),)
        self.put(ResourceQuota("uid-quota", "ns", "quota", hard_milli=limit))

    def node_comes(self, which: int) -> None:
        self.put(node(f"n{4 + which % 3}", which % 7))

    def node_changes(self, which: int) -> None:
        self.put(node("n3", 64 + which % 2, unschedulable=which % 6 != 0))

    def queue_changes(self, which: int) -> None:
        # Little of both, and the queue has all that it deserves.
        limit = (("cpu", which % 9 * 1000), ("memory", GIB), ("pods", 1)) if which % 4 else None
        state = QueueState.OPEN if which % 3 else QueueState.CLOSED
        self.put(queue(f"q{which % 2}", capability=limit, weight=1 + which % 3, state=state))

    def bind_fails(self, which: int) -> None:
        self.now_ns += SECOND_NS
        result = self.engine.schedule(self.now_ns)
        code = (OutcomeCode.FAILED, OutcomeCode.CONFLICT)[which % 2]
        reports = [OutcomeReported(decision.id, code) for decision in result.decisions]
        assert self.engine.apply(reports, self.now_ns) == ()

    def service_changes(self, which: int) -> None:
        """A Service whose pods are spread by default, or the selectorless one that all clusters have."""
        selector = (None, WEB, LabelSelector((Requirement("tier", Operator.EXISTS),)))[which % 3]
        service = Workload("uid-service", "Service", "ns", "service", selector)
        if which % 4:
            self.put(service)
        else:
            self.engine.apply([Deleted(Workload, service.uid)], self.now_ns)

    def objector_changes(self, which: int) -> None:
        """A running pod that wants no pods of an application near it comes, ends or goes."""
        terms = (PodAffinityTerm("kubernetes.io/hostname", WEB),)
        objector = pod("objector", "", 0.1, on="n2", spec={"required_anti_affinity": terms})
        self.put(replace(objector, phase=(PodPhase.RUNNING, PodPhase.SUCCEEDED)[which % 3 == 0]))
        hostname = {"kubernetes.io/hostname": "n2"}
        self.put(node("n2", 4 + which % 2, labels=hostname))

    def labels_change(self, which: int) -> None:
        if pods := self.waiting():
            labels = ({"app": "web"}, {"tier": "a"}, {})[which % 3]
            self.put(replace(pods[which % len(pods)], labels=labels))

    def class_changes(self, which: int) -> None:
        self.put(priority_class(f"p{1 + which % 2}", which % 5))


EVENTS: tuple[Callable[[Crowd, int], None], ...] = (
    Crowd.pod_ends,
    Crowd.pod_goes,
    Crowd.job_comes,
    Crowd.job_asks_to_be_admitted,
    Crowd.quota_changes,
    Crowd.node_comes,
    Crowd.node_changes,
    Crowd.queue_changes,
    Crowd.bind_fails,
    Crowd.class_changes,
    Crowd.service_changes,
    Crowd.objector_changes,
    Crowd.labels_change,
)
steps = st.lists(
    st.tuples(st.sampled_from(EVENTS), st.integers(0, 60), st.integers(1, 3)), max_size=10
)


@pytest.mark.parametrize("name", sorted(CONFIGURATIONS))
@given(what=steps)
@settings(max_examples=20, deadline=None)
def test_whatever_happens_each_is_told_what_a_look_at_it_would_tell(
    name: str, what: list[tuple[Callable[[Crowd, int], None], int, int]]
) -> None:
    configuration = CONFIGURATIONS[name]
    crowd = Crowd(Twins(make_engine(*configuration), make_engine(*configuration)))
    for happens, which, sessions in what:
        happens(crowd, which)
        for _ in range(sessions):
            crowd.session()


def crowd(name: str = "default", waiting: int = 4) -> Crowd:
    made = Crowd(make_engine(*CONFIGURATIONS[name]), waiting)
    assert len(room_of(made.engine)) == 3 * waiting
    return made


@pytest.mark.parametrize("name", sorted(CONFIGURATIONS))
def test_a_session_does_nothing_about_them_and_still_says_why_each_waits(name: str) -> None:
    made = crowd(name)
    waits = made.engine.waits
    assert len(waits) == 12
    result = made.engine.schedule(made.now_ns + SECOND_NS)
    assert result.waits == waits
    assert not {"tasks_tried", "jobs_visited", "jobs_closed"} & result.work.keys()


def test_those_after_a_job_that_is_placed_are_told_what_it_left_them() -> None:
    configuration = CONFIGURATIONS["capacity"]
    made = Crowd(Twins(make_engine(*configuration), make_engine(*configuration)))
    made.queue_changes(26)
    made.session()
    made.pod_ends(0)
    # One job of the queue is placed and uses up its quota. The twin looks at each job after it.
    assert made.session() == 1


def with_service(made: Crowd) -> None:
    made.put(Workload("uid-service", "Service", "ns", "service", WEB))


def with_objector(made: Crowd) -> None:
    made.put(node("n2", 5, labels={"kubernetes.io/hostname": "n2"}))
    terms = (PodAffinityTerm("kubernetes.io/hostname", WEB),)
    made.put(pod("objector", "", 1, on="n2", spec={"required_anti_affinity": terms}))


@pytest.mark.parametrize("with_others", [with_service, with_objector])
def test_services_and_anti_affinity_of_others_cost_no_look_at_each_job(
    with_others: Callable[[Crowd], None],
) -> None:
    made = crowd()
    with_others(made)
    made.rests()
    result = made.engine.schedule(made.now_ns + SECOND_NS)
    assert len(room_of(made.engine)) == 12
    assert len(result.waits) == 12
    assert not {"tasks_tried", "jobs_closed", "candidates_scored"} & result.work.keys()


def test_a_pod_that_changes_wakes_its_job_alone() -> None:
    made = crowd()
    first = made.waiting()[0]
    made.put(replace(first, labels={"new": "label"}))
    result = made.engine.schedule(made.now_ns + SECOND_NS)
    assert result.work["tasks_tried"] == 1
    assert len(room_of(made.engine)) == 12


def test_room_wakes_those_who_may_use_it() -> None:
    made = crowd()
    made.put(node("n4", 5))
    result = made.engine.schedule(made.now_ns + SECOND_NS)
    # One pod of four cores fits; gangs of two pods with three each were tried, and do not.
    assert [decision.name for decision in result.decisions] == ["j003-0"]
    assert {wait.job for wait in result.waits}.isdisjoint({"ns/j003"})
    assert len(result.waits) == 11


def test_what_stands_in_the_way_is_told_when_it_is_another_thing() -> None:
    made = crowd()
    made.put(queue("q0", state=QueueState.CLOSED))
    result = made.engine.schedule(made.now_ns + SECOND_NS)
    codes = {wait.job: [reason.code.name for reason in wait.reasons] for wait in result.waits}
    closed = sum("QUEUE_NOT_OPEN" in said for said in codes.values())
    assert closed == 6
    assert len(codes) == 12


def test_those_after_a_job_that_was_placed_are_told_what_is_so_then() -> None:
    made = crowd(waiting=0)
    made.put(queue("q0", capability=(("cpu", 7000),)), node("n4", 2))
    made.arrives(1, 6, "q0", born=1)
    made.arrives(1, 6, "q0", born=3)
    made.rests()
    assert len(room_of(made.engine)) == 2
    made.arrives(1, 2, "q0", born=2)
    result = made.engine.schedule(made.now_ns + SECOND_NS)
    assert len(result.decisions) == 1
    first, last = ([reason.code.name for reason in wait.reasons] for wait in result.waits)
    # The queue may have seven cores, and has two by then.
    assert (first[0], last[0]) == ("NO_NODE_FITS", "QUEUE_QUOTA")


def test_a_queue_that_has_what_it_deserves_says_so_to_all() -> None:
    made = crowd()
    made.put(node("n4", 1))
    made.arrives(1, 1, "q0")
    made.session()
    made.rests()
    made.put(queue("q0", capability=(("cpu", 1000), ("memory", GIB), ("pods", 1))))
    result = made.engine.schedule(made.now_ns + SECOND_NS)
    codes = [reason.code.name for wait in result.waits for reason in wait.reasons]
    assert codes.count("QUEUE_OVERUSED") == 6
    assert len(room_of(made.engine)) == 6


def test_another_configuration_wakes_them_all() -> None:
    made = crowd()
    other = make_engine(*CONFIGURATIONS["evicting"]).configuration
    made.engine.configure(other)
    assert len(room_of(made.engine)) == 0


def test_a_job_that_is_gone_is_no_longer_waited_with() -> None:
    made = crowd()
    for waiting in made.waiting():
        made.engine.apply([Deleted(Pod, waiting.uid)], made.now_ns)
    made.session()
    assert len(room_of(made.engine)) == 0
