"""gangpreempt and gangreclaim: bundles of victims, and the domains in which they are looked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumice.core.actions.gang.bundles import Bundle, allowed_bundles, bundles_of, in_order
from pumice.core.cache.jobs import Job
from pumice.core.decisions import Evict, SessionResult
from pumice.core.deltas import ClusterObject
from pumice.core.model.group import NetworkTopology, PodGroup, SubGroupPolicy
from pumice.core.model.pod import Pod
from pumice.core.model.reasons import ReasonCode
from pumice.core.model.resources import Resources
from tests.core.builders import job, node, pod, pod_group, priority_class, queue
from tests.core.evicting import engine, run
from tests.core.networks import hyper_node
from tests.core.plugins.opened import Opened

TIERS = (("priority", "gang", "conformance"), ("predicates", "nodeorder"))
NETWORK_TIERS = (
    ("priority", "gang", "conformance"),
    ("predicates", "network-topology-aware", "nodeorder"),
)
HIGH = priority_class("high", 9)


def high(name: str, size: int, cpu: float = 1, **fields: Any) -> list[ClusterObject]:
    return job(name, size, cpu, priority_class_name="high", **fields)


def running(name: str, minimum: int, *nodes: str, cpu: float = 1) -> list[ClusterObject]:
    pods = [pod(f"{name}-{n}", name, cpu, on=where) for n, where in enumerate(nodes)]
    return [pod_group(name, minimum), *pods]


def evicted(result: SessionResult) -> list[str]:
    return sorted(d.name for d in result.decisions if isinstance(d, Evict))


# Bundles.


def bundles(group: PodGroup, *pods: Pod) -> list[tuple[bool, list[str]]]:
    session = Opened(queue(), node("n1", 64), group, *pods, plugins=["gang"])
    found: Job = session.job(group.name)
    made = bundles_of(found, session.tasks(*(p.name for p in pods if p.node_name)))
    return [(b.breaks_gang, [task.name for task in b.tasks]) for b in made]


def on_node(count: int, **fields: Any) -> list[Pod]:
    return [pod(f"g-{number}", "g", on="n1", **fields) for number in range(count)]


@pytest.mark.parametrize(
    ("minimum", "expected"),
    [
        (0, [(False, ["g-0", "g-1", "g-2"])]),
        (2, [(False, ["g-0"]), (True, ["g-1", "g-2"])]),
        (3, [(True, ["g-0", "g-1", "g-2"])]),
        # It has less than its minimum: nothing is left to break.
        (4, [(False, ["g-0", "g-1", "g-2"])]),
    ],
)
def test_a_job_can_spare_what_is_above_its_minimum(
    minimum: int, expected: list[tuple[bool, list[str]]]
) -> None:
    assert bundles(pod_group("g", minimum), *on_node(3)) == expected


def test_tasks_of_low_priority_are_spared_first() -> None:
    pods = on_node(3)
    pods[0] = replace(pods[0], task_priority=5)
    assert bundles(pod_group("g", 2), *pods)[0] == (False, ["g-1"])


def test_a_role_keeps_its_minimum() -> None:
    pods = [replace(p, role="a" if n else "b") for n, p in enumerate(on_node(3))]
    group = pod_group("g", 1, min_task_member=(("b", 1),))
    assert bundles(group, *pods) == [(False, ["g-1", "g-2"]), (True, ["g-0"])]


def test_sub_jobs_are_broken_while_enough_of_them_are_left() -> None:
    pods = [replace(p, labels={"part": str(n // 2)}) for n, p in enumerate(on_node(6))]
    policy = SubGroupPolicy("p", None, ("part",), sub_group_size=2, min_sub_groups=2)
    group = pod_group("g", 2, sub_group_policies=(policy,))
    # One of three sub-jobs may go, with both its tasks.
    assert bundles(group, *pods) == [(False, ["g-0", "g-1"]), (True, ["g-2", "g-3", "g-4", "g-5"])]


def test_a_gang_is_broken_by_all_its_tasks_or_by_none() -> None:
    session = Opened(queue(), node("n1", 8), *running("g", 2, "n1", "n1"), plugins=["gang"])
    tasks = tuple(session.tasks("g-0", "g-1"))
    whole = Bundle(session.job("g"), tasks, breaks_gang=True)
    some = {tasks[0].uid}
    assert allowed_bundles([whole], some) == []
    assert allowed_bundles([replace(whole, breaks_gang=False)], some)[0].tasks == tasks[:1]


def test_of_two_gangs_the_one_that_loses_less_is_broken_first() -> None:
    objects = [*running("big", 4, *["n1"] * 4), *running("small", 2, *["n1"] * 2)]
    session = Opened(queue(), node("n1", 8), *objects, plugins=["gang"])
    made = [
        Bundle(session.job("big"), tuple(session.tasks("big-0", "big-1")), breaks_gang=True),
        Bundle(session.job("small"), tuple(session.tasks("small-0", "small-1")), breaks_gang=True),
    ]
    ordered = in_order(made, Resources(2000), lambda _left, _right: None)
    assert [bundle.job.name for bundle in ordered] == ["small", "big"]


# Actions.


def preempting(*objects: Any, tiers: Any = TIERS, **arguments: Any) -> SessionResult:
    return run(engine("allocate, gangpreempt", tiers, queue(), HIGH, *objects, **arguments))


def test_a_gang_gets_room_for_all_its_tasks_or_evicts_nobody() -> None:
    cluster = [node("n1", 2), node("n2", 2), *running("low", 0, "n1", "n1", "n2", "n2")]
    assert len(evicted(preempting(*cluster, *high("g", 2, 2)))) == 4
    assert evicted(preempting(*cluster, *high("g", 3, 2))) == []


def test_whole_gangs_stay_where_they_must_not_be_broken() -> None:
    cluster = [node("n1", 2), *running("low", 2, "n1", "n1")]
    assert evicted(preempting(*cluster, *high("g", 1, 2))) == ["low-0", "low-1"]
    result = preempting(*cluster, *high("g", 1, 2), allowWholeBundle=False)
    assert evicted(result) == []
    reasons = [r for w in result.waits for r in w.reasons if r.author == "gangpreempt"]
    assert [reason.code for reason in reasons] == [ReasonCode.NO_VICTIMS]


def test_neither_equals_nor_other_queues_are_evicted() -> None:
    same = [pod_group("same", 0, priority_class_name="high"), pod("same-0", "same", on="n1")]
    other = [pod_group("other", 0, queue_name="q2"), pod("other-0", "other", on="n1")]
    result = preempting(node("n1", 2), queue("q2"), *same, *other, *high("g", 1, 2))
    assert evicted(result) == []


def test_a_pod_that_asks_for_nothing_needs_no_victims() -> None:
    result = preempting(node("n1", 1), *running("low", 0, "n1"), *high("g", 1, 0))
    assert evicted(result) == []


def network(cordoned: int = 0) -> list[ClusterObject]:
    leaves = [hyper_node("leaf1", 1, "n1", "n2"), hyper_node("leaf2", 1, "n3", "n4")]
    low = running("low", 0, "n1", "n2", "n3", "n4", cpu=2)
    nodes = [node(f"n{n}", 2, unschedulable=n == cordoned) for n in range(1, 5)]
    return [*nodes, *leaves, *low]


def test_victims_are_looked_for_in_so_many_domains_only() -> None:
    # leaf1 has a node less that the gang could use.
    cluster = network(cordoned=1)
    gang = high("g", 2, 2, network_topology=NetworkTopology(highest_tier=1))
    found = preempting(*cluster, *gang, tiers=NETWORK_TIERS)
    assert evicted(found) == ["low-2", "low-3"]
    assert evicted(preempting(*cluster, *gang, tiers=NETWORK_TIERS, maxDomains=1)) == []


def test_without_a_domain_of_its_tier_a_gang_evicts_nobody() -> None:
    gang = high("g", 2, 2, network_topology=NetworkTopology(highest_tier=0))
    assert evicted(preempting(*network(), *gang, tiers=NETWORK_TIERS)) == []
    named = NetworkTopology(highest_tier_name="unknown")
    gang = high("g", 2, 2, network_topology=named)
    assert evicted(preempting(*network(), *gang, tiers=NETWORK_TIERS)) == []


def reclaiming(*objects: Any) -> SessionResult:
    tiers = (("priority", "gang", "conformance"), ("predicates", "nodeorder"))
    return run(engine("allocate, gangreclaim", tiers, queue(), *objects))


def test_a_gang_of_another_queue_gets_room_at_once() -> None:
    low = [pod_group("low", 0, queue_name="q2"), *(pod(f"low-{n}", "low", on="n1") for n in (0, 1))]
    cluster = [node("n1", 2), queue("q2"), *low]
    assert evicted(reclaiming(*cluster, *job("g", 2, 1))) == ["low-0", "low-1"]
    assert evicted(reclaiming(*cluster, *job("g", 3, 1))) == []


def test_a_queue_that_is_not_reclaimable_keeps_its_pods() -> None:
    low = [pod_group("low", 0, queue_name="q2"), pod("low-0", "low", on="n1")]
    kept = queue("q2", reclaimable=False)
    assert evicted(reclaiming(node("n1", 1), kept, *low, *job("g", 1, 1))) == []


def test_the_own_queue_gives_nothing() -> None:
    assert evicted(reclaiming(node("n1", 1), *running("low", 0, "n1"), *job("g", 1, 1))) == []
