"""Topology-aware preemption: nodes are tried out first, then the least harm is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pumice.core.actions.preempt import PreemptArguments
from pumice.core.actions.preempt.dry_run import SimulatedNode
from pumice.core.deltas import ClusterObject
from pumice.core.model.group import PodGroupPhase
from pumice.core.model.pod import PodAffinityTerm
from pumice.core.model.selectors import LabelSelector, Operator, Requirement
from tests.core.builders import NOW_NS, node, pod, pod_group, priority_class, queue
from tests.core.evicting import PLAIN, Tiers, engine, evicted, nominated, opened, run

RUNNING = PodGroupPhase.RUNNING
CLASSES = (priority_class("low", 10), priority_class("high", 100))
LOW = pod_group("a", 0, phase=RUNNING, priority_class_name="low")
HOUR_NS = 3600 * 10**9


def high(cpu: float = 2, **fields: Any) -> list[ClusterObject]:
    return [pod_group("b", 1, priority_class_name="high"), pod("b-t-0", "b", cpu, **fields)]


def preempted(*objects: Any, tiers: Tiers = PLAIN, **arguments: Any) -> tuple[list[str], str]:
    """Who is evicted, and where the task goes."""
    made = engine("preempt", tiers, *objects, enableTopologyAwarePreemption=True, **arguments)
    result = run(made)
    return sorted(evicted(result)), nominated(result).get("b-t-0", "")


@pytest.mark.parametrize(
    ("arguments", "nodes", "candidates"),
    [
        ({}, 1, 1),
        ({}, 9, 1),
        ({}, 50, 5),
        ({}, 2000, 100),
        ({"minCandidateNodesPercentage": 50}, 9, 4),
        ({"minCandidateNodesAbsolute": 7}, 50, 7),
        ({"minCandidateNodesAbsolute": 7}, 5, 5),
        ({"maxCandidateNodesAbsolute": 3}, 50, 3),
        ({"minCandidateNodesAbsolute": 7, "maxCandidateNodesAbsolute": 3}, 50, 3),
    ],
)
def test_how_many_candidates_are_enough(
    arguments: dict[str, int], nodes: int, candidates: int
) -> None:
    assert PreemptArguments(arguments).candidates_among(nodes) == candidates


def test_the_search_begins_with_the_first_name_and_ends_with_enough_candidates() -> None:
    objects = [
        *(node(f"n{i}", 2) for i in range(3)),
        queue(),
        *CLASSES,
        LOW,
        pod("a-t-0", "a", 2, on="n0", priority=9),
        pod("a-t-1", "a", 2, on="n1", priority=5),
        pod("a-t-2", "a", 2, on="n2", priority=1),
        *high(),
    ]
    assert preempted(*objects) == (["a-t-0"], "n0")
    assert preempted(*objects, minCandidateNodesAbsolute=2) == (["a-t-1"], "n1")
    assert preempted(*objects, minCandidateNodesAbsolute=3) == (["a-t-2"], "n2")


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        pytest.param([(2, 9, 0)], [(2, 5, 0)], "n1", id="the lower first victim"),
        pytest.param(
            [(1, 5, 0), (1, 5, 0)], [(1, 5, 0), (1, 4, 0)], "n1", id="the lower sum of priorities"
        ),
        pytest.param([(1, 5, 0), (1, 5, 0)], [(2, 5, 0)], "n1", id="fewer victims weigh less"),
        pytest.param([(1, -9, 0), (1, -9, 0)], [(2, -9, 0)], "n1", id="below zero as well"),
        pytest.param([(2, 5, 1)], [(2, 5, 2)], "n1", id="who started later"),
        pytest.param([(2, 5, 2)], [(2, 5, 0)], "n1", id="not started yet is now"),
        pytest.param([(2, 5, 1)], [(2, 5, 1)], "n0", id="the first name"),
    ],
)
def test_the_least_harm(
    first: list[tuple[int, int, int]], second: list[tuple[int, int, int]], chosen: str
) -> None:
    def on(name: str, victims: list[tuple[int, int, int]]) -> list[ClusterObject]:
        return [
            pod(
                f"a-{name}-{number}",
                "a",
                cpu,
                on=name,
                priority=priority,
                start_time_ns=NOW_NS - 9 * HOUR_NS + hours * HOUR_NS if hours else 0,
            )
            for number, (cpu, priority, hours) in enumerate(victims)
        ]

    objects = [node("n0", 2), node("n1", 2), queue(), *CLASSES, LOW, *high()]
    _, where = preempted(*objects, on("n0", first), on("n1", second), minCandidateNodesAbsolute=2)
    assert where == chosen


def test_victims_that_need_not_go_come_back_the_last_removed_first() -> None:
    # In victim order the small one goes first and frees too little, then the large one; with the
    # large one gone the small one may stay.
    objects = [
        node("n1", 3),
        queue(),
        *CLASSES,
        LOW,
        pod("a-t-0", "a", 2, on="n1"),
        pod("a-t-1", "a", 1, on="n1"),
        *high(2),
    ]
    assert preempted(*objects) == (["a-t-0"], "n1")
    usual = run(engine("preempt", PLAIN, *objects))
    assert evicted(usual) == ["a-t-1", "a-t-0"]


def test_there_must_be_a_victim_even_where_there_is_room() -> None:
    objects = [node("n1", 4), queue(), *CLASSES, LOW, pod("a-t-0", "a", 1, on="n1"), *high(2)]
    # With the only victim back everything still fits: nobody would have to go, so no candidate.
    assert preempted(*objects) == ([], "")


def test_best_effort_victims_nominate_too() -> None:
    objects = [
        node("n1", 4, pods=1),
        queue(),
        *CLASSES,
        LOW,
        pod("a-t-0", "a", 0, 0, on="n1"),
        pod_group("b", 1, priority_class_name="high"),
        pod("b-t-0", "b", 0, 0),
    ]
    assert preempted(*objects) == (["a-t-0"], "n1")


def test_the_queue_is_asked_in_the_copy() -> None:
    tiers: Tiers = (PLAIN[0], ("predicates", "proportion"))
    objects = [
        node("n1", 8),
        queue(capability=(("cpu", 4000),)),
        *CLASSES,
        LOW,
        *(pod(f"a-t-{i}", "a", on="n1") for i in range(4)),
        *high(2),
    ]
    assert preempted(*objects, tiers=tiers) == (["a-t-2", "a-t-3"], "n1")


def test_a_plugin_without_predicates_has_nothing_to_simulate_with() -> None:
    off = {"name": "proportion", "enablePredicate": False}
    objects = [node("n1"), queue(), *CLASSES, LOW, pod("a-t-0", "a", 4, on="n1"), *high(2)]
    assert preempted(*objects, tiers=(PLAIN[0], ("predicates", "proportion")))[0] == ["a-t-0"]
    assert preempted(*objects, tiers=(PLAIN[0], ("predicates", off))) == ([], "")


# What affinity sees.


def apart(**labels: str) -> tuple[PodAffinityTerm, ...]:
    requirements = tuple(Requirement(k, Operator.IN, (v,)) for k, v in labels.items())
    return (PodAffinityTerm("kubernetes.io/hostname", LabelSelector(requirements)),)


def with_a_foe(cpu: float) -> list[Any]:
    return [
        node("n1", 4, labels={"kubernetes.io/hostname": "n1"}),
        queue(),
        *CLASSES,
        LOW,
        pod("a-t-0", "a", 1, on="n1", labels={"app": "foe"}),
        pod("a-t-1", "a", 3, on="n1"),
        *high(cpu, spec={"required_anti_affinity": apart(app="foe")}),
    ]


def test_a_dry_run_sees_that_a_foe_would_be_gone() -> None:
    # The large one is removed first and frees enough, yet in the end only the foe has to go.
    assert preempted(*with_a_foe(1)) == (["a-t-0"], "n1")


def test_the_usual_way_counts_pods_before_anybody_is_evicted() -> None:
    result = run(engine("preempt", PLAIN, *with_a_foe(1)))
    assert evicted(result) == []


def test_trying_out_leaves_no_trace() -> None:
    tiers: Tiers = (PLAIN[0], ("predicates", "proportion", "nodeorder"))
    session = opened(engine("preempt", tiers, *with_a_foe(4)))
    tasks = session.cache.tasks
    task, victims = tasks["uid-b-t-0"], [tasks["uid-a-t-0"], tasks["uid-a-t-1"]]
    assert session.feasibility.why_not_anywhere(task) is None
    view, queue_ = session.view(task), session.queues["default"]
    before, log = session.table.amounts.copy(), len(session.moves.log)
    refused = session.feasibility.resolvable_by_eviction(task, view)
    trial = SimulatedNode(session, task, view, 0)
    assert not trial.fits(queue_)
    assert trial.why_not() is not None
    for victim in victims:
        assert trial.remove(victim) is None
    assert trial.fits(queue_)
    assert trial.add(victims[1]) is None
    assert not trial.fits(queue_)
    assert trial.why_not() is None
    assert SimulatedNode(session, task, view, 0).why_not() is not None
    assert np.array_equal(session.table.amounts, before)
    assert np.array_equal(session.feasibility.resolvable_by_eviction(task, view), refused)
    assert len(session.moves.log) == log
