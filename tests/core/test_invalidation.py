"""A change costs what it can affect: the counts of work in the session after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pumice.core.deltas import ClusterObject, Upserted
from pumice.core.engine import Engine
from pumice.core.model.group import Workload
from pumice.core.model.node import Node, NodeImage
from pumice.core.model.pod import PodAffinityTerm
from pumice.core.model.selectors import (
    LabelSelector,
    Operator,
    Requirement,
    Taint,
    TaintEffect,
)
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, queue
from tests.world import make_engine

SECOND_NS = 10**9
PLUGINS = [["priority", "gang"], ["drf", "predicates", "proportion", "nodeorder"]]
NODES, CLASSES = 6, 3
HOSTNAME = "kubernetes.io/hostname"


def image(number: int, size: int = 500) -> NodeImage:
    return NodeImage((f"app-{number}:v1",), size * 2**20)


class Cluster:
    """Gangs of three classes that wait for room; each class selects nodes by a label of its own."""

    def __init__(self) -> None:
        self.engine: Engine = make_engine("enqueue, allocate, backfill", PLUGINS)
        self.now_ns = NOW_NS
        nodes = [
            node(
                f"n{number}",
                4,
                labels={HOSTNAME: f"n{number}", **{f"label-{c}": "yes" for c in range(CLASSES)}},
                images=(image(0), image(number)),
            )
            for number in range(NODES)
        ]
        fill(self.engine, queue(), nodes)
        for number in range(CLASSES):
            self.gang(f"g{number}", number)
        for _ in range(3):
            self.session()

    def gang(self, name: str, number: int) -> None:
        """A gang of two pods, one of which fits on no node."""
        spec = {"node_selector": ((f"label-{number}", "yes"),), "images": (f"app-{number}:v1",)}
        pods = [
            pod(f"{name}-{i}", name, 8, spec=spec, labels={"app": f"a{number}"}) for i in range(2)
        ]
        fill(self.engine, pod_group(name, 2), pods)

    def session(self) -> dict[str, int]:
        self.now_ns += SECOND_NS
        return self.engine.schedule(self.now_ns).work

    def node(self, number: int) -> Node:
        found = self.engine.cache.nodes.get(f"n{number}")
        assert found is not None
        return found

    def work_after(self, *changes: ClusterObject) -> dict[str, int]:
        assert self.engine.apply([Upserted(change) for change in changes]) == ()
        return self.session()


def test_a_session_after_nothing_visits_nobody() -> None:
    assert Cluster().session() == {}


Change = Callable[[Node], Node]
COSTS_NOTHING: dict[str, Change] = {
    "annotation": lambda n: replace(n, annotations={"volcano.sh/report": "2"}),
    "capacity": lambda n: replace(n, capacity=(("cpu", 99_000),)),
    "image that nobody asks for": lambda n: replace(n, images=(*n.images, image(77))),
    "label that nobody reads": lambda n: replace(n, labels={**n.labels, "beta": "1"}),
    "time": lambda n: replace(n, creation_time_ns=5),
}


@pytest.mark.parametrize("name", COSTS_NOTHING)
def test_a_heartbeat_computes_no_row_and_asks_about_no_class(name: str) -> None:
    cluster = Cluster()
    changed = [COSTS_NOTHING[name](cluster.node(number)) for number in range(NODES)]
    assert cluster.work_after(*changed) == {}


def test_a_label_costs_the_class_that_selects_by_it() -> None:
    cluster = Cluster()
    before = cluster.node(2)
    work = cluster.work_after(replace(before, labels={**before.labels, "label-1": "no"}))
    # The gang still waits for cpu, on every node.
    assert work == {"classes_refreshed": 1, "rows_computed": 1}
    assert cluster.session() == {}


def test_an_image_costs_the_class_that_names_it() -> None:
    cluster = Cluster()
    before = cluster.node(4)
    work = cluster.work_after(replace(before, images=(*before.images, image(2))))
    assert work["classes_refreshed"] == 1
    assert "jobs_visited" not in work
    # Its score grows on the two nodes that have it.
    assert work["rows_computed"] <= NODES


def test_an_image_that_is_gone_everywhere_is_no_longer_counted() -> None:
    cluster = Cluster()
    without = [replace(cluster.node(number), images=()) for number in range(NODES)]
    assert cluster.work_after(*without)["classes_refreshed"] == CLASSES
    fill(cluster.engine, [replace(each, images=(image(1),)) for each in without])
    assert cluster.session()["classes_refreshed"] == 1


def test_a_taint_costs_one_row_of_each_class() -> None:
    cluster = Cluster()
    taint = Taint("broken", "", TaintEffect.NO_SCHEDULE)
    work = cluster.work_after(replace(cluster.node(0), taints=(taint,)))
    assert (work["classes_refreshed"], work["rows_computed"]) == (CLASSES, CLASSES)


def test_amounts_of_a_node_cost_one_row_of_each_class() -> None:
    cluster = Cluster()
    before = cluster.node(3)
    offered = tuple((n, a // 2 if n == "cpu" else a) for n, a in before.allocatable)
    work = cluster.work_after(replace(before, allocatable=offered))
    assert work["rows_computed"] == CLASSES
    assert "classes_refreshed" not in work


def of_app(number: int) -> LabelSelector:
    return LabelSelector((Requirement("app", Operator.IN, (f"a{number}",)),))


def test_a_service_costs_nothing_while_its_pods_fit_nowhere() -> None:
    cluster = Cluster()
    work = cluster.work_after(Workload("uid-s", "Service", "ns", "web", of_app(1)))
    assert work == {}


def test_an_anti_affinity_term_costs_the_class_that_it_matches() -> None:
    cluster = Cluster()
    away = PodAffinityTerm(HOSTNAME, of_app(1))
    spec: dict[str, Any] = {"required_anti_affinity": (away,)}
    work = cluster.work_after(pod("other", "", 1, spec=spec, on="n0"))
    assert work["jobs_visited"] == 1
    # The pod takes room of one node.
    assert work["rows_computed"] == CLASSES
