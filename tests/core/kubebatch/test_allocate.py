"""kube-batch's allocate: no statement, idle or releasing room, one job after the other."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from pumice.core.deltas import Upserted
from pumice.core.model.pod import WeightedNodeTerm
from pumice.core.model.reasons import ReasonCode
from pumice.core.model.selectors import NodeSelectorTerm, Operator, Requirement
from tests.core import builders
from tests.core.kubebatch.older import binds, cluster, engine, foreign, lone

PLAIN = ("priority gang", "predicates nodeorder")


def test_a_gang_that_fits_is_bound_whole() -> None:
    known = cluster(builders.node("n1", 3), builders.job("g", 3))
    assert len(binds(known.schedule(1))) == 3


def test_an_unready_gang_keeps_its_room_to_the_end_of_the_session() -> None:
    """The second gang would fit on what the first, which is short by one, holds."""
    known = cluster(
        builders.node("n1", 4),
        builders.job("a", 3, 2),
        builders.job("b", 1, 2),
        of=engine("allocate", PLAIN),
    )
    result = known.schedule(1)
    assert binds(result) == {}
    waits = {wait.job: [reason.code for reason in wait.reasons] for wait in result.waits}
    assert ReasonCode.GANG_SHORT in waits["ns/a"]


def test_the_room_is_free_again_in_the_next_session() -> None:
    known = cluster(
        builders.node("n1", 4),
        builders.job("a", 3, 2),
        builders.job("b", 1, 2),
        of=engine("allocate", PLAIN),
    )
    known.schedule(1)
    assert known.cache.table.idle[0, 0] == 4000
    urgent = [builders.priority_class("high", 9), *builders.job("c", 1, 4)]
    group = dataclasses.replace(builders.pod_group("c"), priority_class_name="high")
    known.apply([Upserted(item) for item in (*urgent, group)])
    assert binds(known.schedule(2)) == {"c-0": "n1"}


def test_after_a_task_that_fits_nowhere_the_job_has_no_more_turn() -> None:
    pods = [
        builders.pod("g-0", "g", 9, creation_time_ns=1),
        builders.pod("g-1", "g", 1, creation_time_ns=2),
    ]
    known = cluster(builders.node("n1", 4), builders.pod_group("g", 1), pods)
    result = known.schedule(1)
    assert binds(result) == {}
    (no_node, short) = result.waits[0].reasons
    assert (no_node.code, no_node.task) == (ReasonCode.NO_NODE_FITS, "g-0")
    assert [(n.reason, n.nodes) for n in no_node.nodes] == [("Insufficient cpu", 1)]
    assert (short.code, short.have, short.need) == (ReasonCode.GANG_SHORT, 0, 1)


def test_a_ready_job_comes_again_for_its_other_tasks_after_those_before_it() -> None:
    """drf has its say after every task: the two jobs take turns, and both get two of four."""
    known = cluster(
        builders.node("n1", 4),
        builders.job("a", 4, minimum=1),
        builders.job("b", 4, minimum=1),
        of=engine("allocate", ("gang", "drf predicates")),
    )
    assert sorted(binds(known.schedule(1))) == ["a-0", "a-1", "b-0", "b-1"]


def test_queues_take_turns_by_their_share() -> None:
    known = cluster(
        builders.queue("red"),
        builders.queue("blue"),
        builders.node("n1", 4),
        builders.job("a", 4, minimum=1, queue_name="red"),
        builders.job("b", 4, minimum=1, queue_name="blue"),
    )
    assert sorted(binds(known.schedule(1))) == ["a-0", "a-1", "b-0", "b-1"]


def test_an_overused_queue_gets_nothing_more() -> None:
    known = cluster(
        builders.queue("red"),
        builders.queue("blue"),
        builders.node("n1", 4, 4),
        builders.job("a", 2, queue_name="red", on="n1"),
        builders.job("more", 1, queue_name="red"),
        builders.job("b", 3, minimum=1, queue_name="blue"),
    )
    result = known.schedule(1)
    assert sorted(binds(result)) == ["b-0", "b-1"]
    assert result.waits[-1].reasons[0].code is ReasonCode.QUEUE_OVERUSED


# Idle or releasing.


@pytest.mark.parametrize(("cpu", "pipelined"), [(2, True), (3, False)])
def test_a_task_fits_idle_or_releasing_room_and_never_their_sum(
    cpu: float, pipelined: bool
) -> None:
    """Two cores are idle beside two that are being released."""
    leaving = dataclasses.replace(lone("old", 2, on="n1"), terminating=True)
    staying = foreign(lone("idle", 1, on="n1"))
    known = cluster(builders.node("n1", 4), leaving, staying, lone("new", cpu))
    result = known.schedule(1)
    assert binds(result) == {}
    codes = [reason.code for wait in result.waits for reason in wait.reasons]
    assert (ReasonCode.NO_NODE_FITS in codes) is not pipelined


def test_what_is_being_released_is_promised_once() -> None:
    leaving = dataclasses.replace(lone("old", 2, on="n1"), terminating=True)
    known = cluster(builders.node("n1", 2), leaving, lone("p1", 2), lone("p2", 2))
    result = known.schedule(1)
    nowhere = [
        reason.task
        for wait in result.waits
        for reason in wait.reasons
        if reason.code is ReasonCode.NO_NODE_FITS
    ]
    assert nowhere == ["p2"]


def test_the_best_node_wins_even_if_it_has_only_releasing_room() -> None:
    """Another node is idle, but the pod would rather be where room is being released."""
    leaving = dataclasses.replace(lone("old", 4, on="n1"), terminating=True)
    here = Requirement("disk", Operator.EXISTS)
    wish = (WeightedNodeTerm(1, NodeSelectorTerm((here,))),)
    weights = {"leastrequested.weight": 0, "balancedresource.weight": 0}
    objects: list[Any] = [
        builders.node("n1", 4, labels={"disk": "fast"}),
        builders.node("n2", 4),
        leaving,
        lone("p", 2, spec={"preferred_node_terms": wish}),
    ]
    wishing = engine("allocate", PLAIN, arguments={"nodeorder": weights})
    assert binds(cluster(objects, of=wishing).schedule(1)) == {}
    unwilling = engine("allocate", PLAIN, arguments={"nodeorder": {"nodeaffinity.weight": 0}})
    assert binds(cluster(objects, of=unwilling).schedule(1)) == {"p": "n2"}


def test_gated_pods_are_not_placed() -> None:
    gated = lone("p", spec={"scheduling_gates": ("wait",)})
    assert binds(cluster(builders.node("n1"), gated).schedule(1)) == {}


def test_among_equal_nodes_the_first_name_wins() -> None:
    nodes = [builders.node(name) for name in ("n3", "n1", "n2")]
    assert binds(cluster(nodes, lone("p")).schedule(1)) == {"p": "n1"}
