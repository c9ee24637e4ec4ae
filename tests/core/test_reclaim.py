"""reclaim: room for queues with less than their due, from queues with more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumice.core.deltas import ClusterObject
from pumice.core.model.group import NetworkTopology, PodGroup, PodGroupPhase
from pumice.core.model.pod import PodPhase
from pumice.core.model.selectors import Taint, TaintEffect
from tests.core.builders import node, pod, pod_group, priority_class, queue
from tests.core.evicting import Tiers, engine, evicted, nominated, reasons, run
from tests.core.plugins.opened import GPU, asking, offering

RUNNING = PodGroupPhase.RUNNING
TIERS: Tiers = (("priority", "conformance"), ("predicates", "proportion", "nodeorder"))
SHARES: Tiers = (("priority",), ("predicates", "proportion", "nodeorder"))


def rich(*names: str, on: str = "n1", minimum: int = 0, **fields: Any) -> list[ClusterObject]:
    """Job a of queue q1, with one-core pods running on a node."""
    group = pod_group("a", minimum, phase=RUNNING, queue_name="q1")
    return [group, *(pod(name, "a", on=on, **fields) for name in names)]


def poor(cpu: float = 1, minimum: int = 1, size: int = 1, **fields: Any) -> list[ClusterObject]:
    """Job b of queue q2, waiting."""
    group = pod_group("b", minimum, queue_name="q2")
    return [group, *(pod(f"b-t-{i}", "b", cpu, **fields) for i in range(size))]


QUEUES = (queue("q1"), queue("q2"))
FOUR = ("a-t-0", "a-t-1", "a-t-2", "a-t-3")


def test_a_queue_gets_its_due_and_no_more_goes_than_it_takes() -> None:
    result = run(engine("reclaim", TIERS, node("n1"), *QUEUES, rich(*FOUR), poor(2)))
    assert evicted(result) == ["a-t-3", "a-t-2"]
    assert nominated(result) == {"b-t-0": "n1"}


def test_what_is_free_anyway_counts() -> None:
    result = run(engine("reclaim", TIERS, node("n1", 5), *QUEUES, rich(*FOUR), poor(2)))
    assert evicted(result) == ["a-t-3"]


def test_a_queue_gives_down_to_what_it_deserves_in_the_order_of_candidates() -> None:
    # Two cores are the due of each. Of the first two candidates the later one goes first, and
    # for the third task nobody does.
    objects = [node("n1"), *QUEUES, rich(*FOUR), poor(1, 1, 3)]
    assert evicted(run(engine("reclaim", SHARES, *objects))) == ["a-t-1", "a-t-0"]


def test_an_overused_queue_reclaims_nothing() -> None:
    objects = [
        node("n1"),
        *QUEUES,
        rich("a-t-0", "a-t-1"),
        pod_group("c", 0, phase=RUNNING, queue_name="q2"),
        pod("c-t-0", "c", 1, 8, on="n1"),
        pod("c-t-1", "c", 1, 8, on="n1"),
        poor(1),
    ]
    result = run(engine("reclaim", TIERS, *objects))
    assert evicted(result) == []
    assert reasons(result, "b", "reclaim") in (
        [("queue-overused", "")],
        [("queue-quota", "b-t-0")],
    )


def test_a_task_beyond_the_queues_due_is_skipped_and_the_next_is_tried() -> None:
    objects = [
        node("n1"),
        *QUEUES,
        rich(*FOUR),
        pod_group("b", 1, queue_name="q2"),
        pod("b-t-0", "b", 4),
        pod("b-t-1", "b", 1),
    ]
    result = run(engine("reclaim", TIERS, *objects))
    assert evicted(result) == ["a-t-3"]
    assert nominated(result) == {"b-t-1": "n1"}
    assert reasons(result, "b", "reclaim") == [("queue-quota", "b-t-0")]


@pytest.mark.parametrize(
    ("fields", "taken"),
    [
        ({}, ["a-t-0"]),
        ({"phase": PodPhase.PENDING}, []),
        ({"preemptable": False}, []),
        ({"terminating": True}, []),
    ],
    ids=["running", "bound", "not preemptable", "already leaving"],
)
def test_who_can_be_a_victim(fields: dict[str, Any], taken: list[str]) -> None:
    objects = [
        node("n1", 1),
        node("n2", 1),
        *QUEUES,
        pod_group("a", 0, phase=RUNNING, queue_name="q1"),
        replace(pod("a-t-0", "a", on="n1"), **fields),
        pod("a-t-1", "a", on="n2", preemptable=False),
        poor(1),
    ]
    assert evicted(run(engine("reclaim", TIERS, *objects))) == taken


@pytest.mark.parametrize(("reclaimable", "gives"), [(None, True), (True, True), (False, False)])
def test_a_queue_may_refuse_to_give(reclaimable: bool | None, gives: bool) -> None:
    queues = (queue("q1", reclaimable=reclaimable), queue("q2"))
    result = run(engine("reclaim", TIERS, node("n1"), *queues, rich(*FOUR), poor(1)))
    assert bool(evicted(result)) is gives


def test_nobody_is_reclaimed_from_the_own_queue() -> None:
    objects = [
        node("n1", 2),
        queue("q2"),
        pod_group("a", 0, phase=RUNNING, queue_name="q2"),
        pod("a-t-0", "a", 2, on="n1"),
        poor(1),
    ]
    assert evicted(run(engine("reclaim", (("priority",), ("predicates",)), *objects))) == []


def test_nodes_are_taken_by_name_not_by_score() -> None:
    objects = [
        node("n1", 2, 4),
        node("n2", 2, 64),
        *QUEUES,
        rich("a-t-0", "a-t-1"),
        pod("a-t-2", "a", on="n2"),
        pod("a-t-3", "a", on="n2"),
        poor(1),
    ]
    assert evicted(run(engine("reclaim", TIERS, *objects))) == ["a-t-1"]


def test_room_without_a_candidate_is_not_looked_at() -> None:
    objects = [node("n1", 8), node("n2", 4), *QUEUES, rich(*FOUR, on="n2"), poor(1)]
    result = run(engine("reclaim", TIERS, *objects))
    # n1 is empty, and yet the task waits for n2.
    assert evicted(result) == ["a-t-3"]
    assert nominated(result) == {"b-t-0": "n2"}


def test_room_beside_a_candidate_is_taken_without_eviction() -> None:
    objects = [node("n1", 5), *QUEUES, rich(*FOUR), poor(1)]
    result = run(engine("reclaim", TIERS, *objects))
    assert evicted(result) == []
    assert nominated(result) == {}


def test_predicates_are_not_asked_again_after_evictions() -> None:
    # The node is full of pods; one that stays uses up what the eviction frees. Reclaim does not
    # see it: it looks at amounts alone, and pods are one of them.
    objects = [
        node("n1", 4, pods=2),
        *QUEUES,
        rich("a-t-0", "a-t-1"),
        poor(1),
    ]
    assert evicted(run(engine("reclaim", TIERS, *objects))) == ["a-t-1"]


def test_a_node_beyond_cure_is_passed_over() -> None:
    tainted = node("n1", taints=(Taint("k", "v", TaintEffect.NO_SCHEDULE),))
    objects = [tainted, node("n2"), *QUEUES, rich(*FOUR), poor(1)]
    result = run(engine("reclaim", TIERS, *objects))
    assert evicted(result) == []
    assert reasons(result, "b", "reclaim") == [("no-victims", "b-t-0")]


def test_a_policy_of_never_reclaims_nothing() -> None:
    never = poor(spec={"never_preempts": True})
    result = run(engine("reclaim", TIERS, node("n1"), *QUEUES, rich(*FOUR), never))
    assert evicted(result) == []
    assert reasons(result, "b", "reclaim") == [("no-victims", "b-t-0")]


def test_evictions_for_a_gang_that_stays_short_are_undone() -> None:
    objects = [node("n1"), *QUEUES, rich("a-t-0", "a-t-1"), pod("a-t-2", "a", 2, on="n1")]
    gang_keeps_whole: Tiers = (("priority", "gang"), ("predicates", "proportion"))
    made = engine("reclaim", gang_keeps_whole, *objects, poor(1, 4, 4))
    before = made.cache.table.amounts.copy()
    assert evicted(run(made)) == []
    assert (made.cache.table.amounts == before).all()


def test_gang_protects_the_minimum_of_victims() -> None:
    tiers: Tiers = (("priority", "gang", "conformance"), ("predicates", "nodeorder"))
    objects = [node("n1"), *QUEUES, rich(*FOUR, minimum=3), poor(1)]
    # One of four is above the minimum, the first in the order of candidates.
    assert evicted(run(engine("reclaim", tiers, *objects))) == ["a-t-0"]
    objects = [node("n1"), *QUEUES, rich(*FOUR, minimum=3), poor(2)]
    assert evicted(run(engine("reclaim", tiers, *objects))) == []


def test_conformance_protects_the_clusters_own_pods() -> None:
    critical = {"priority_class_name": "system-node-critical"}
    objects = [
        node("n1"),
        *QUEUES,
        priority_class("system-node-critical", 2_000_000_000),
        rich(*FOUR, spec=critical),
        poor(1),
    ]
    tiers: Tiers = (("conformance",), ("priority", "predicates", "nodeorder"))
    assert evicted(run(engine("reclaim", tiers, *objects))) == []


def test_jobs_with_a_network_topology_take_part() -> None:
    group, *pods = poor(2)
    assert isinstance(group, PodGroup)
    bound = replace(group, network_topology=NetworkTopology(highest_tier=1))
    objects = [node("n1"), *QUEUES, rich(*FOUR), bound, *pods]
    assert evicted(run(engine("reclaim", TIERS, *objects))) == ["a-t-3", "a-t-2"]


def test_a_job_that_gave_enough_does_not_speak_for_the_others_of_its_queue() -> None:
    due = (("cpu", 1000), (GPU, 1000))
    objects = [
        offering(node("n1", 4), **{GPU: 2000}),
        queue("q1", deserved=due),
        queue("q2", deserved=(("cpu", 4000), (GPU, 4000))),
        pod_group("devices", 0, phase=RUNNING, queue_name="q1"),
        *(asking(pod(f"d-t-{i}", "devices", on="n1"), ((GPU, 1000),)) for i in range(2)),
        pod_group("cores", 0, phase=RUNNING, queue_name="q1"),
        *(asking(pod(f"c-t-{i}", "cores", on="n1"), (("cpu", 1000),)) for i in range(4)),
        pod_group("b", 2, queue_name="q2"),
        asking(pod("b-t-0", "b"), ((GPU, 1000),)),
        asking(pod("b-t-1", "b"), (("cpu", 1000),)),
    ]
    # With one device gone the queue has no more of them than its due, but still too many cores.
    result = run(engine("reclaim", (("priority",), ("predicates", "capacity")), *objects))
    assert evicted(result) == ["d-t-1", "c-t-3"]
