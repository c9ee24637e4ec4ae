"""kube-batch's preempt: anyone who waits may take, and victims alone must be enough."""

from __future__ import annotations

import dataclasses
from typing import Any

from pumice.core.deltas import ClusterObject
from pumice.core.engine import Engine
from pumice.core.model.group import PodGroup
from pumice.core.model.pod import PodPhase
from tests.core import builders
from tests.core.kubebatch.older import binds, cluster, engine, evictions

GANG = ("gang", "predicates nodeorder")
PRIORITY = ("priority gang", "predicates nodeorder")


def preempting(tiers: tuple[str, ...] = PRIORITY) -> Engine:
    return engine("preempt", tiers)


def high(name: str, size: int = 1, cpu: float = 1, **fields: Any) -> list[ClusterObject]:
    group, *pods = builders.job(name, size, cpu, **fields)
    assert isinstance(group, PodGroup)
    urgent = dataclasses.replace(group, priority_class_name="high")
    return [builders.priority_class("high", 9), urgent, *pods]


def test_a_higher_job_takes_room_from_a_lower_one_of_its_queue() -> None:
    known = cluster(
        builders.node("n1", 2),
        builders.job("low", 2, minimum=1, on="n1"),
        high("top"),
        of=preempting(),
    )
    result = known.schedule(1)
    assert evictions(result) == ["low-1"], "the last in task order goes first"
    assert binds(result) == {}


def test_jobs_of_other_queues_are_safe() -> None:
    known = cluster(
        builders.queue("red"),
        builders.node("n1", 2),
        builders.job("low", 2, minimum=1, on="n1", queue_name="red"),
        high("top"),
        of=preempting(),
    )
    assert evictions(known.schedule(1)) == []


def test_a_job_that_is_ready_may_preempt_for_its_surplus() -> None:
    """Nobody asks whether the job starves."""
    known = cluster(
        builders.node("n1", 2),
        builders.job("low", 1, on="n1"),
        high("top", 2, minimum=1),
        dataclasses.replace(builders.pod("top-0", "top", on="n1"), node_name="n1"),
        of=preempting(),
    )
    assert evictions(known.schedule(1)) == ["low-0"]


def test_idle_room_does_not_count_so_victims_alone_must_cover_the_request() -> None:
    """One core is idle, the victim has one, the preemptor wants two."""
    known = cluster(
        builders.node("n1", 2), builders.job("low", 1, on="n1"), high("top", 1, 2), of=preempting()
    )
    assert evictions(known.schedule(1)) == []


def test_room_that_is_idle_spares_nobody() -> None:
    """The task would fit beside the victim; allocate is what looks at idle room."""
    known = cluster(
        builders.node("n1", 9), builders.job("low", 1, on="n1"), high("top"), of=preempting()
    )
    assert evictions(known.schedule(1)) == ["low-0"]


def test_only_running_tasks_are_victims() -> None:
    bound = dataclasses.replace(builders.pod("low-0", "low", on="n1"), phase=PodPhase.PENDING)
    known = cluster(
        builders.node("n1", 1), builders.pod_group("low"), bound, high("top"), of=preempting()
    )
    assert evictions(known.schedule(1)) == []


def test_pods_that_are_not_preemptable_to_volcano_are_preempted() -> None:
    pod = dataclasses.replace(builders.pod("low-0", "low", on="n1"), preemptable=False)
    known = cluster(
        builders.node("n1", 1), builders.pod_group("low"), pod, high("top"), of=preempting()
    )
    assert evictions(known.schedule(1)) == ["low-0"]


def test_no_more_are_evicted_than_the_request_needs() -> None:
    known = cluster(
        builders.node("n1", 4),
        builders.job("low", 4, minimum=1, on="n1"),
        high("top", 1, 2),
        of=preempting(),
    )
    assert evictions(known.schedule(1)) == ["low-3", "low-2"]


def test_a_gang_that_cannot_be_pipelined_whole_evicts_nobody() -> None:
    known = cluster(
        builders.node("n1", 2),
        builders.job("low", 2, minimum=1, on="n1"),
        high("top", 3),
        of=preempting(),
    )
    assert evictions(known.schedule(1)) == []


def test_a_pipelined_job_is_committed_and_comes_again_for_the_rest() -> None:
    known = cluster(
        builders.node("n1", 3),
        builders.job("low", 3, minimum=1, on="n1"),
        high("top", 3, minimum=1),
        of=preempting(),
    )
    assert evictions(known.schedule(1)) == ["low-2", "low-1", "low-0"]


def test_several_victims_may_break_a_gang_because_none_counts_the_others() -> None:
    known = cluster(
        builders.node("n1", 4),
        builders.job("low", 4, minimum=3, on="n1"),
        high("top", 1, 3),
        of=preempting(),
    )
    assert len(evictions(known.schedule(1))) == 3


def test_tasks_of_one_job_preempt_each_other_where_only_gang_is_asked() -> None:
    """What is found within a job is committed, whatever becomes of the gang.

    The first waiting task had its one try already, at the tasks of other jobs.
    """
    pods = [builders.pod("a-0", "a", on="n1"), builders.pod("a-1", "a"), builders.pod("a-2", "a")]
    objects: list[Any] = [builders.node("n1", 1), builders.pod_group("a", 1), *pods]
    assert evictions(cluster(objects, of=preempting(GANG)).schedule(1)) == ["a-0"]
    assert evictions(cluster(objects, of=preempting()).schedule(1)) == [], "priority never agrees"


def test_of_equal_nodes_the_last_name_is_tried_first() -> None:
    nodes = [builders.node(name, 1) for name in ("n1", "n2")]
    lows = [*builders.job("x", 1, on="n1"), *builders.job("y", 1, on="n2")]
    known = cluster(nodes, lows, high("top"), of=preempting())
    assert evictions(known.schedule(1)) == ["y-0"]


def test_nodes_that_the_predicates_refuse_are_not_tried() -> None:
    known = cluster(
        builders.node("n1", 1, unschedulable=True),
        builders.job("low", 1, on="n1"),
        high("top"),
        of=preempting(),
    )
    assert evictions(known.schedule(1)) == []


def test_an_evicted_pod_still_fills_its_place_on_the_node() -> None:
    """Filters look at all that is on a node, so that a full one takes no pod for a victim."""
    known = cluster(
        builders.node("n1", 2, pods=2),
        builders.job("low", 2, minimum=1, on="n1"),
        high("top"),
        of=preempting(),
    )
    assert evictions(known.schedule(1)) == []


def test_system_pods_are_safe_with_conformance() -> None:
    victim = dataclasses.replace(
        builders.pod("low-0", "low", on="n1", spec={"priority_class_name": "system-node-critical"})
    )
    objects = [builders.node("n1", 1), builders.pod_group("low"), victim, *high("top")]
    tiers = ("priority gang conformance", "predicates nodeorder")
    assert evictions(cluster(objects, of=preempting(tiers)).schedule(1)) == []
    assert evictions(cluster(objects, of=preempting()).schedule(1)) == ["low-0"]
