"""kube-batch's backfill: tasks that ask for nothing, on the first node that lets them."""

from __future__ import annotations

from typing import Any

from pumice.core.model.reasons import ReasonCode
from pumice.core.model.selectors import Taint, TaintEffect
from tests.core import builders
from tests.core.kubebatch.older import binds, cluster, engine

TAINT = (Taint("odd", "", TaintEffect.NO_SCHEDULE),)


def empty(name: str, group: str = "") -> Any:
    return builders.pod(name, group, 0, 0)


def test_the_first_node_that_the_predicates_pass_is_taken_whatever_its_score() -> None:
    known = cluster(
        builders.node("n1", taints=TAINT),
        builders.node("n2", 1),
        builders.node("n3", 64),
        empty("p"),
    )
    assert binds(known.schedule(1)) == {"p": "n2"}


def test_tasks_that_ask_for_something_are_not_backfilled() -> None:
    known = cluster(builders.node("n1"), builders.pod("p", "", 1), of=engine("backfill"))
    assert binds(known.schedule(1)) == {}


def test_a_gang_is_bound_when_its_last_task_is_placed() -> None:
    pods = [builders.pod("g-0", "g", 1), empty("g-1", "g")]
    group = builders.pod_group("g", 2)
    assert len(binds(cluster(builders.node("n1"), group, pods).schedule(1))) == 2
    early = engine("backfill allocate")
    assert len(binds(cluster(builders.node("n1"), group, pods, of=early).schedule(1))) == 2


def test_a_queue_above_its_share_is_backfilled_all_the_same() -> None:
    known = cluster(
        builders.queue("red"),
        builders.node("n1", 4),
        builders.job("a", 4, on="n1", queue_name="red"),
        builders.pod_group("e", 1, queue_name="red"),
        empty("e-0", "e"),
    )
    assert binds(known.schedule(1)) == {"e-0": "n1"}


def test_where_no_node_lets_it_the_task_waits_with_the_reasons() -> None:
    result = cluster(builders.node("n1", taints=TAINT), empty("p")).schedule(1)
    (reason,) = result.waits[0].reasons
    assert (reason.author, reason.code) == ("backfill", ReasonCode.NO_NODE_FITS)
    assert [(n.reason, n.nodes) for n in reason.nodes] == [
        ("node(s) had taints that the pod didn't tolerate", 1)
    ]
