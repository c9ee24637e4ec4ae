"""Nodes: what tasks of each status take from them, and what will be free."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pumice.core.cache.nodes import NodeTable
from pumice.core.deltas import ClusterObject, Deleted, Upserted
from pumice.core.model.node import Node
from pumice.core.model.pod import PodPhase
from pumice.core.model.status import TaskStatus
from pumice.core.model.storage import CsiNode
from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import Opened

S = TaskStatus


def opened(*objects: ClusterObject) -> Opened:
    return Opened(node("n1"), queue(), pod_group("g"), *objects, plugins=[])


def cpu(table: NodeTable, row: int = 0) -> tuple[float, ...]:
    """Idle, used, releasing and what will be idle, in cores."""
    parts = (table.idle, table.used, table.releasing, table.future)
    return tuple(float(part[0, row]) / 1000 for part in parts)


@pytest.mark.parametrize(
    ("status", "amounts"),
    [
        (S.RELEASING, (3, 1, 1, 4)),
        (S.PIPELINED, (4, 0, 0, 3)),
        (S.BINDING, (3, 1, 0, 3)),
        (S.ALLOCATED, (3, 1, 0, 3)),
        (S.BOUND, (3, 1, 0, 3)),
        (S.RUNNING, (3, 1, 0, 3)),
        (S.UNKNOWN, (3, 1, 0, 3)),
    ],
)
def test_what_a_task_takes_follows_its_status_and_comes_back(
    status: TaskStatus, amounts: tuple[float, ...]
) -> None:
    session = opened(pod("p", "g"))
    table, task = session.engine.cache.table, session.task("p")
    before = table.amounts.copy()
    task.status, task.node_name = status, "n1"
    table.add({task.uid: task})
    assert cpu(table) == amounts
    table.remove(task)
    assert np.array_equal(table.amounts, before)


def test_the_worked_example() -> None:
    leaving = replace(pod("b", "g", on="n1"), terminating=True)
    session = opened(pod("a", "g", 3, on="n1"), leaving, pod("c", "g"))
    table = session.session.table
    assert cpu(table) == (0, 4, 1, 1)
    session.session.statement().pipeline(session.task("c"), "n1", eviction_occurred=False)
    assert cpu(table) == (0, 4, 1, 0)


def test_finished_pods_take_nothing() -> None:
    done = [
        replace(pod(str(phase), "g", on="n1"), phase=phase)
        for phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    ]
    assert cpu(opened(*done).session.table) == (4, 0, 0, 4)


def test_a_change_of_status_moves_the_amounts() -> None:
    session = opened(pod("a", "g", on="n1"))
    table, task = session.session.table, session.task("a")
    session.session.moves.evict(task)
    assert cpu(table) == (3, 1, 1, 4)
    session.session.moves.unevict(task)
    assert cpu(table) == (3, 1, 0, 3)


def test_a_node_may_be_below_zero_and_stays() -> None:
    session = opened(pod("a", "g", 3, on="n1"), pod("b", "g", 3, on="n1"))
    assert cpu(session.session.table) == (-2, 6, 0, -2)
    assert session.session.table.names == ["n1"]


def test_tasks_of_an_unknown_node_count_when_it_is_told() -> None:
    session = Opened(queue(), pod_group("g"), pod("a", "g", on="n1"), plugins=[])
    assert session.session.table.names == []
    session.engine.apply([Upserted(node("n1"))])
    session.engine.cache.settle()
    assert cpu(session.engine.cache.table) == (3, 1, 0, 3)


def test_a_node_told_anew_is_counted_anew() -> None:
    session = opened(pod("a", "g", on="n1"))
    session.engine.apply([Upserted(node("n1", 2))])
    session.engine.cache.settle()
    assert cpu(session.engine.cache.table) == (1, 1, 0, 1)


def test_a_node_that_is_gone_leaves_the_session_and_its_return_brings_the_tasks_back() -> None:
    session = opened(pod("a", "g", on="n1"))
    cache = session.engine.cache
    session.engine.apply([Deleted(Node, "uid-n1")])
    cache.settle()
    assert cache.table.names == []
    session.engine.apply([Upserted(node("n1"))])
    cache.settle()
    assert cpu(cache.table) == (3, 1, 0, 3)


def test_oversubscription_adds_to_what_may_be_given_away_and_not_to_kubernetes_view() -> None:
    more = replace(node("n1"), oversubscription_milli_cpu=1500, oversubscription_memory_bytes=2**30)
    table = Opened(more, queue(), plugins=[]).session.table
    assert table.allocatable[:2, 0].tolist() == [5500, 17 * 2**30]
    assert table.idle[:2, 0].tolist() == [5500, 17 * 2**30]
    assert table.kube_allocatable[:2, 0].tolist() == [4000, 16 * 2**30]


def test_csi_drivers_add_the_volumes_that_can_be_attached() -> None:
    drivers = CsiNode("u", "n1", (("csi.example.com/fast", 25), ("open", -1)))
    table = opened(drivers).session.table
    held = dict(zip(table.columns, table.allocatable[:, 0].tolist(), strict=True))
    # A slash in the driver's name becomes a dash; without a published limit there is none.
    assert held["attachable-volumes-csi-csi.example.com-fast"] == 25
    assert held["attachable-volumes-csi-open"] == 2**31 - 1


def test_rows_are_in_the_order_of_names_whatever_came_first() -> None:
    objects = [node(name) for name in ("n2", "n10", "n1")]
    assert Opened(*objects, queue(), plugins=[]).session.table.names == ["n1", "n10", "n2"]


def test_the_sum_of_nodes_is_exact_above_what_floats_can_count() -> None:
    huge = 2**53 - 1
    nodes = [
        replace(node(f"n{i}"), allocatable=(("cpu", 1000), ("memory", huge), ("pods", 1)))
        for i in range(3)
    ]
    total = Opened(*nodes, queue(), plugins=[]).session.table.sum_allocatable()
    assert total.memory == 3 * huge
