"""preempt: room for starving jobs, from tasks of their own queue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumice.core.deltas import ClusterObject
from pumice.core.model.group import NetworkTopology, PodGroup, PodGroupPhase, QueueState
from pumice.core.model.pod import PodCondition, PodPhase
from pumice.core.model.selectors import Taint, TaintEffect
from tests.core.builders import node, pod, pod_group, priority_class, queue
from tests.core.evicting import PLAIN, STOCK, Tiers, engine, evicted, nominated, reasons, run

RUNNING = PodGroupPhase.RUNNING
CLASSES = (priority_class("low", 10), priority_class("high", 100))


def low(*names: str, minimum: int = 1, on: str = "n1", **fields: Any) -> list[ClusterObject]:
    """Job a, of low priority, with one-core pods running on a node."""
    group = pod_group("a", minimum, phase=RUNNING, priority_class_name="low")
    return [group, *(pod(name, "a", on=on, **fields) for name in names)]


def high(cpu: float = 2, minimum: int = 1, size: int = 1, **fields: Any) -> list[ClusterObject]:
    """Job b, of high priority, waiting."""
    group = pod_group("b", minimum, priority_class_name="high")
    return [group, *(pod(f"b-t-{i}", "b", cpu, **fields) for i in range(size))]


FOUR = ("a-t-0", "a-t-1", "a-t-2", "a-t-3")


# The worked example: four one-core pods fill the node, a two-core task of higher priority comes.


@pytest.mark.parametrize(
    ("tiers", "minimum", "taken"),
    [
        pytest.param(PLAIN, 1, ["a-t-3", "a-t-2"], id="without gang the last tasks go"),
        pytest.param(
            (("priority", "gang", "conformance"), ("predicates",)),
            1,
            ["a-t-2", "a-t-1"],
            id="gang offers only the first three",
        ),
        pytest.param(
            (("priority", "gang", "conformance"), ("predicates",)),
            4,
            [],
            id="a whole gang is not broken",
        ),
        pytest.param(STOCK, 4, ["a-t-1", "a-t-0"], id="where tier 1 is empty, tier 2 decides"),
    ],
)
def test_the_worked_example(tiers: Tiers, minimum: int, taken: list[str]) -> None:
    result = run(
        engine("preempt", tiers, node("n1"), queue(), *CLASSES, low(*FOUR, minimum=minimum), high())
    )
    assert evicted(result) == taken
    assert nominated(result) == ({"b-t-0": "n1"} if taken else {})


def test_equal_priorities_fall_through_to_the_next_tier() -> None:
    objects = [
        node("n1"),
        queue(),
        pod_group("a", 1, phase=RUNNING),
        *(pod(name, "a", on="n1") for name in FOUR),
        pod_group("b"),
        pod("b-t-0", "b", 2),
    ]
    assert evicted(run(engine("preempt", STOCK, *objects))) == ["a-t-1", "a-t-0"]
    assert evicted(run(engine("preempt", PLAIN, *objects))) == []


# Who may preempt.


def test_a_job_at_its_minimum_does_not_starve() -> None:
    objects = [
        node("n1", 3),
        queue(),
        *CLASSES,
        low("a-t-0", "a-t-1"),
        pod_group("b", 1, phase=RUNNING, priority_class_name="high"),
        pod("b-t-0", "b", on="n1"),
        pod("b-t-1", "b"),
    ]
    assert evicted(run(engine("preempt", PLAIN, *objects))) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"phase": PodGroupPhase.PENDING},
        {"network_topology": NetworkTopology(hard=True, highest_tier=1)},
        {"minimum": 2},
    ],
    ids=["not let in", "with a network topology", "not valid"],
)
def test_jobs_that_take_no_part(fields: dict[str, Any]) -> None:
    group = pod_group("b", **{"priority_class_name": "high", **fields})
    objects = [node("n1"), queue(), *CLASSES, low(*FOUR), group, pod("b-t-0", "b", 2)]
    assert evicted(run(engine("preempt", PLAIN, *objects))) == []


def test_gated_tasks_take_no_part() -> None:
    gated = high(spec={"scheduling_gates": ("wait",)})
    assert (
        evicted(run(engine("preempt", PLAIN, node("n1"), queue(), *CLASSES, low(*FOUR), gated)))
        == []
    )


def test_a_policy_of_never_preempts_nobody_and_says_so() -> None:
    never = high(spec={"never_preempts": True})
    result = run(engine("preempt", PLAIN, node("n1"), queue(), *CLASSES, low(*FOUR), never))
    assert evicted(result) == []
    assert reasons(result, "b", "preempt") == [("no-victims", "b-t-0")]


def test_evictions_of_a_gang_that_stays_short_are_undone() -> None:
    made = engine("preempt", PLAIN, node("n1"), queue(), *CLASSES, low(*FOUR), high(2, 3, 3))
    before = made.cache.table.amounts.copy()
    result = run(made)
    assert evicted(result) == []
    assert (made.cache.table.amounts == before).all()
    assert reasons(result, "b", "preempt") == [("no-victims", "b-t-2")]


def test_a_gang_is_made_room_for_as_a_whole() -> None:
    result = run(engine("preempt", PLAIN, node("n1"), queue(), *CLASSES, low(*FOUR), high(2, 2, 2)))
    assert evicted(result) == ["a-t-3", "a-t-2", "a-t-1", "a-t-0"]
    assert nominated(result) == {"b-t-0": "n1", "b-t-1": "n1"}


# Whom they may take.


@pytest.mark.parametrize(
    ("fields", "taken"),
    [
        ({}, ["a-t-0"]),
        ({"phase": PodPhase.PENDING}, ["a-t-0"]),
        ({"preemptable": False}, []),
        ({"terminating": True}, []),
        ({"phase": PodPhase.UNKNOWN}, []),
    ],
    ids=["running", "bound", "not preemptable", "already leaving", "unknown"],
)
def test_who_can_be_a_victim(fields: dict[str, Any], taken: list[str]) -> None:
    victim = replace(pod("a-t-0", "a", 4, on="n1"), **fields)
    group = pod_group("a", phase=RUNNING, priority_class_name="low")
    objects = [node("n1"), queue(), *CLASSES, group, victim, *high(4)]
    assert evicted(run(engine("preempt", PLAIN, *objects))) == taken


def test_other_queues_and_strangers_are_left_alone() -> None:
    objects = [
        node("n1", 2),
        queue(),
        queue("other"),
        *CLASSES,
        pod_group("a", phase=RUNNING, queue_name="other", priority_class_name="low"),
        pod("a-t-0", "a", on="n1"),
        pod("stray-0", "nobody", on="n1"),
        *high(),
    ]
    assert evicted(run(engine("preempt", PLAIN, *objects))) == []


def test_a_best_effort_task_takes_only_best_effort_victims() -> None:
    objects = [
        node("n1", 4, pods=2),
        queue(),
        *CLASSES,
        pod_group("a", 1, phase=RUNNING, priority_class_name="low"),
        pod("a-t-0", "a", 0, 0, on="n1"),
        pod("a-t-1", "a", 1, on="n1"),
        pod_group("b", 1, priority_class_name="high"),
        pod("b-t-0", "b", 0, 0),
    ]
    result = run(engine("preempt", PLAIN, *objects))
    assert evicted(result) == ["a-t-0"]
    # Best-effort victims alone nominate no node.
    assert nominated(result) == {}


def test_no_one_goes_where_there_is_room_already() -> None:
    result = run(engine("preempt", PLAIN, node("n1", 6), queue(), *CLASSES, low(*FOUR), high()))
    assert evicted(result) == []
    assert nominated(result) == {}


def test_no_more_go_than_it_takes() -> None:
    result = run(engine("preempt", PLAIN, node("n1", 5), queue(), *CLASSES, low(*FOUR), high()))
    assert evicted(result) == ["a-t-3"]


def test_the_queue_must_allow_it_too() -> None:
    tiers = (PLAIN[0], ("predicates", "proportion", "nodeorder"))
    shut = queue(state=QueueState.CLOSED)
    assert (
        evicted(run(engine("preempt", tiers, node("n1"), shut, *CLASSES, low(*FOUR), high()))) == []
    )
    # What the job asks for is more than the queue deserves until enough of its own have gone.
    small = queue(capability=(("cpu", 4000),))
    result = run(engine("preempt", tiers, node("n1", 8), small, *CLASSES, low(*FOUR), high()))
    assert evicted(result) == ["a-t-3", "a-t-2"]


def test_the_best_node_comes_first_and_among_equals_the_first_name() -> None:
    objects = [
        *(node(name, 4) for name in ("n1", "n2", "n3")),
        queue(),
        *CLASSES,
        pod_group("a", 0, phase=RUNNING, priority_class_name="low"),
        pod("a-t-1", "a", 4, 9, on="n1"),
        pod("a-t-2", "a", 4, 2, on="n2"),
        pod("a-t-3", "a", 4, 2, on="n3"),
        *high(3),
    ]
    assert nominated(run(engine("preempt", PLAIN, *objects))) == {"b-t-0": "n2"}


# Within a job.


def test_a_job_replaces_its_own_lesser_tasks() -> None:
    objects = [
        node("n1", 1),
        queue(),
        pod_group("a", 2, phase=RUNNING),
        pod("a-t-0", "a", on="n1", task_priority=1),
        pod("a-t-1", "a", task_priority=5),
    ]
    assert evicted(run(engine("preempt", PLAIN, *objects))) == ["a-t-0"]
    peers = [*objects[:3], objects[3], pod("a-t-1", "a", task_priority=1)]
    assert evicted(run(engine("preempt", PLAIN, *peers))) == []


def test_within_a_job_the_first_failure_ends_it() -> None:
    objects = [
        node("n1", 3),
        queue(),
        pod_group("a", 5, phase=RUNNING),
        *(pod(f"a-t-{i}", "a", on="n1", task_priority=1) for i in range(3)),
        pod("a-t-3", "a", 9, task_priority=7),
        pod("a-t-4", "a", 1, task_priority=5),
    ]
    assert evicted(run(engine("preempt", PLAIN, *objects))) == []


# A nominated node.


def waiting(*leaving: ClusterObject, nominee: str = "n1", **fields: Any) -> list[ClusterObject]:
    return [
        node("n1", 2, pods=2, **fields),
        node("n2", 2),
        queue(),
        *CLASSES,
        pod_group("a", 0, phase=RUNNING, priority_class_name="low"),
        pod("a-t-0", "a", 1, on="n1"),
        pod("a-t-1", "a", 2, on="n2"),
        *leaving,
        *high(2, nominated_node_name=nominee, priority=100),
    ]


def leaving(*conditions: PodCondition, priority: int = 1) -> ClusterObject:
    return pod("a-t-9", "a", on="n1", terminating=True, conditions=conditions, priority=priority)


BY_SCHEDULER = PodCondition("DisruptionTarget", "True", "PreemptionByScheduler")


@pytest.mark.parametrize(
    ("objects", "goes_on"),
    [
        pytest.param(waiting(nominee="n9"), False, id="unknown: no"),
        pytest.param(waiting(), False, id="it takes the task already: no"),
        pytest.param(waiting(leaving(BY_SCHEDULER)), False, id="it is being cleared: no"),
        pytest.param(waiting(leaving(BY_SCHEDULER, priority=100)), True, id="not for us: yes"),
        pytest.param(waiting(leaving()), True, id="somebody leaves by himself: yes"),
        pytest.param(
            waiting(leaving(BY_SCHEDULER), taints=(Taint("k", "v", TaintEffect.NO_SCHEDULE),)),
            True,
            id="it will never take the task: yes",
        ),
    ],
)
def test_who_waits_for_a_nominated_node_does_not_preempt(
    objects: list[ClusterObject], goes_on: bool
) -> None:
    result = run(engine("allocate, preempt", PLAIN, *objects))
    assert bool(evicted(result)) is goes_on
    if not goes_on:
        assert reasons(result, "b", "preempt") == [("no-victims", "b-t-0")]


@pytest.mark.parametrize(
    ("actions", "objects", "goes_on"),
    [
        pytest.param("preempt, allocate", waiting(), True, id="allocate comes later"),
        pytest.param(
            "preempt, allocate", waiting(leaving(BY_SCHEDULER)), False, id="it is being cleared"
        ),
        pytest.param(
            "allocate, preempt",
            [
                *waiting(),
                queue("full", capability=(("cpu", 3000),)),
                *(replace(o, queue="full") for o in waiting() if isinstance(o, PodGroup)),
            ],
            True,
            id="the queue is full, so allocate does not ask the filters",
        ),
    ],
)
def test_filters_that_no_action_has_prepared_do_not_speak_for_the_nominated_node(
    actions: str, objects: list[ClusterObject], goes_on: bool
) -> None:
    tiers: Tiers = (*PLAIN, ("capacity",)) if any(o.uid == "uid-full" for o in objects) else PLAIN
    assert bool(evicted(run(engine(actions, tiers, *objects)))) is goes_on


# Nodes that are not asked.


def test_nodes_found_beyond_cure_by_an_earlier_action_are_passed_over() -> None:
    tainted = node("n1", taints=(Taint("k", "v", TaintEffect.NO_SCHEDULE),))
    objects = [tainted, node("n2"), queue(), *CLASSES, low(*FOUR, on="n2"), *high()]
    made = engine("allocate, preempt", PLAIN, *objects)
    assert evicted(run(made)) == ["a-t-3", "a-t-2"]


def test_an_unschedulable_node_is_never_cleared() -> None:
    objects = [node("n1", unschedulable=True), queue(), *CLASSES, low(*FOUR), *high()]
    result = run(engine("preempt", PLAIN, *objects))
    assert evicted(result) == []
    assert reasons(result, "b", "preempt") == [("no-victims", "b-t-0")]
