"""capacity: room is kept for tasks that passed the gate of their queue."""

from __future__ import annotations

from pumice.core.cache.settings import CacheSettings
from pumice.core.configuration import Configuration, PluginOptions
from pumice.core.decisions import PodGateLifted
from pumice.core.engine import Engine
from pumice.core.model.pod import Pod
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, asking
from tests.core.plugins.queues import allocatable, capacity, holding, with_cores

GATE = "scheduling.volcano.sh/queue-allocation-gate"


def gated_cluster(*, on: bool) -> Opened:
    passed = asking(pod("passed", "red", 3, 0, annotations={GATE: "true"}), (("cpu", 3000),))
    return capacity(
        with_cores("red", capability=10),
        *holding("red", 5),
        passed,
        pod("other", "red", 3, 0),
        pod("small", "red", 2, 0),
        settings=CacheSettings(feature_gates=("SchedulingGatesQueueAdmission",) if on else ()),
    )


def test_tasks_that_passed_the_gate_keep_their_room() -> None:
    session = gated_cluster(on=True)
    assert not allocatable(session, "red", "other")
    assert allocatable(session, "red", "small")
    # Its own reservation does not count against a task.
    assert allocatable(session, "red", "passed")


def test_without_the_feature_nothing_is_kept() -> None:
    assert allocatable(gated_cluster(on=False), "red", "other")


def test_a_reservation_ends_with_the_placement_and_returns_with_its_undoing() -> None:
    session = gated_cluster(on=True)
    statement = session.session.statement()
    statement.allocate(session.task("passed"), "n1")
    assert not allocatable(session, "red", "other")
    assert allocatable(session, "red", "small")
    statement.discard()
    assert not allocatable(session, "red", "other")


def test_a_task_with_the_gate_reserves_once_it_is_allowed() -> None:
    marked = pod(
        "gated", "red", 3, 0, annotations={GATE: "true"}, spec={"scheduling_gates": (GATE,)}
    )
    session = capacity(
        with_cores("red", capability=10),
        *holding("red", 5),
        marked,
        pod("other", "red", 3, 0),
        settings=CacheSettings(feature_gates=("SchedulingGatesQueueAdmission",)),
    )
    assert allocatable(session, "red", "other")
    assert allocatable(session, "red", "gated")
    assert not allocatable(session, "red", "other")


# Lifting the gate.


def lifted(*pods: Pod, on: bool = True, capability: int = 4) -> list[str]:
    made = Engine(
        Configuration(
            actions=("allocate",),
            tiers=(tuple(PluginOptions(name) for name in ("gang", "predicates", "capacity")),),
        ),
        settings=CacheSettings(feature_gates=("SchedulingGatesQueueAdmission",) if on else ()),
    )
    group = pod_group("red", 1, queue_name="red")
    queues = (with_cores("red", capability=capability), queue("root"), queue())
    fill(made, node("n1", 100), *queues, group, *pods)
    result = made.schedule(NOW_NS)
    assert not result.decisions
    return [s.name for s in result.statuses if isinstance(s, PodGateLifted)]


def gated(name: str, cpu: int = 2, *, wants: str = "true", gates: tuple[str, ...] = (GATE,)) -> Pod:
    return pod(name, "red", cpu, annotations={GATE: wants}, spec={"scheduling_gates": gates})


def test_gates_are_lifted_while_the_queue_has_room() -> None:
    assert lifted(gated("a"), gated("b"), gated("c")) == ["a", "b"]
    assert lifted(gated("a", 5)) == []


def test_a_gate_stays_without_the_feature_or_the_wish_or_beside_another_gate() -> None:
    assert lifted(gated("a"), on=False) == []
    assert lifted(gated("a", wants="false")) == []
    assert lifted(gated("a", gates=(GATE, "example.com/other"))) == []
