"""Limits of nodes and pods: what was there before is not harmed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from pumice.core.cache import validation
from pumice.core.cache.validation import (
    MAX_CLUSTER_RESOURCES,
    MAX_NODE_RESOURCES,
    MAX_POD_ITEMS,
)
from pumice.core.deltas import Deleted, Upserted
from pumice.core.engine import Engine
from pumice.core.model.node import Node
from pumice.core.model.pod import (
    HostPort,
    PodAffinityTerm,
    SpreadConstraint,
    WeightedNodeTerm,
    WeightedPodAffinityTerm,
)
from pumice.core.model.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    Toleration,
)
from pumice.core.model.storage import CsiNode
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, queue
from tests.core.plugins.opened import asking, offering


def inventor(name: str, *numbers: int) -> Node:
    """A node that offers cpu, memory, pods and invented resources."""
    return offering(node(name), **{f"example.com/r{number}": 1000 for number in numbers})


def refusals(engine: Engine, *objects: Node | CsiNode) -> list[str]:
    return [str(r.error) for r in engine.apply([Upserted(item) for item in objects])]


def test_the_resources_of_a_node_are_limited_and_its_last_version_stays() -> None:
    engine = fill(Engine(), node("n1"), queue(), pod_group("g"), pod("a", "g"))
    assert refusals(engine, inventor("n2", *range(MAX_NODE_RESOURCES - 3))) == []
    assert refusals(engine, inventor("n1", *range(MAX_NODE_RESOURCES - 2))) == [
        f"Node n1: allocatable[example.com/r{MAX_NODE_RESOURCES - 3}]: the node offers "
        f"{MAX_NODE_RESOURCES + 1} resources; at most {MAX_NODE_RESOURCES} are allowed"
    ]
    assert engine.cache.nodes.get("n1") == node("n1")
    assert len(engine.schedule(NOW_NS).decisions) == 1


def test_the_resources_of_a_cluster_are_limited_and_other_nodes_go_on() -> None:
    engine = fill(Engine(), node("n0"), queue(), pod_group("g"), pod("a", "g"))
    room = MAX_CLUSTER_RESOURCES - 3 - 1
    some = MAX_NODE_RESOURCES - 3
    parts = [range(start, min(start + some, room)) for start in range(0, room, some)]
    full = [inventor(f"full{number}", *part) for number, part in enumerate(parts)]
    assert refusals(engine, *full, inventor("n3", 998)) == []
    assert len(engine.cache.table.offering_nodes) == MAX_CLUSTER_RESOURCES
    (refusal,) = refusals(engine, inventor("n4", 5, 999))
    assert refusal == (
        "Node n4: allocatable[example.com/r999]: the nodes of the cluster would offer "
        f"{MAX_CLUSTER_RESOURCES + 1} different resources; at most {MAX_CLUSTER_RESOURCES} are allowed"
    )
    assert "n4" not in engine.cache.table.entries
    assert refusals(engine, inventor("n4", 5), inventor("n3", 999)) == []
    assert len(engine.schedule(NOW_NS).decisions) == 1
    assert len(engine.cache.table.columns) == MAX_CLUSTER_RESOURCES + 1
    engine.apply([Deleted(Node, "uid-n3")])
    assert refusals(engine, inventor("n4", 998)) == []


@pytest.mark.parametrize("node_first", [True, False])
def test_drivers_of_a_csi_node_count_as_resources(node_first: bool) -> None:
    drivers = tuple((f"d{number}", 9) for number in range(MAX_NODE_RESOURCES - 2))
    both: list[Node | CsiNode] = [node("n1"), CsiNode("uid-csi", "n1", drivers)]
    (refusal,) = refusals(Engine(), *(both if node_first else both[::-1]))
    kind, field = ("CsiNode", "driver_limits") if node_first else ("Node", "allocatable")
    last = f"attachable-volumes-csi-d{MAX_NODE_RESOURCES - 3}"
    assert refusal.startswith(f"{kind} n1: {field}[{last}]: the node offers")
    too_many = tuple((f"d{number}", 9) for number in range(MAX_NODE_RESOURCES + 1))
    assert len(refusals(Engine(), CsiNode("uid-csi", "n1", too_many))) == 1


def test_a_full_cluster_is_restored_from_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "MAX_CLUSTER_RESOURCES", 6)
    engine = fill(Engine(), inventor("n2", 1, 2), inventor("n1", 2, 3))
    engine.schedule(NOW_NS)
    again = Engine()
    again.restore(engine.checkpoint())
    again.schedule(NOW_NS)
    assert again.cache.table.columns == engine.cache.table.columns
    assert len(refusals(again, inventor("n1", 4, 5))) == 1


def test_amounts_of_a_node_that_no_array_holds_exactly_are_refused() -> None:
    most = 2**53 - 1
    csi = CsiNode("uid-csi", "n1", (("d", most), ("none", -1)))
    assert refusals(Engine(), node("n1"), csi) == []
    large = CsiNode("uid-csi", "n1", (("d", 2**63 - 1),))
    assert refusals(Engine(), large) == [
        f"CsiNode n1: driver_limits[d]: {2**63 - 1} is not between 0 and 2^53 - 1"
    ]
    over = dataclasses.replace(
        offering(node("n1"), memory=most - 4), oversubscription_memory_bytes=5
    )
    assert refusals(Engine(), over) == [
        f"Node n1: allocatable and oversubscription[memory]: {2**53} is not between 0 and 2^53 - 1"
    ]


@pytest.mark.filterwarnings("error")
def test_more_is_used_than_64_bits_hold_and_the_sum_is_right() -> None:
    most = 2**53 - 1
    used = [asking(pod(f"p{i}", "g", on="n1"), (("memory", most),)) for i in range(1100)]
    engine = fill(Engine(), node("n1"), queue(), pod_group("g"), used)
    engine.schedule(NOW_NS)
    # Beyond 2^53 a row of the table is rounded, by less than one part in 2^40.
    total = engine.cache.table.sum_used().memory
    assert abs(total - 1100 * most) < 1100 * most >> 40


def _selector(count: int) -> LabelSelector:
    return LabelSelector((Requirement("app", Operator.NOT_IN, ("x",) * (count - 1)),))


ITEMS: dict[str, Callable[[int], object]] = {
    "tolerations": lambda count: (Toleration("k"),) * count,
    "node_selector": lambda count: (("k", "v"),) * count,
    "host_ports": lambda count: (HostPort("TCP", "0.0.0.0", 1),) * count,
    "required_node_terms": lambda count: (NodeSelectorTerm(),) * count,
    "preferred_node_terms": lambda count: (
        WeightedNodeTerm(1, NodeSelectorTerm(_selector(count - 1).requirements)),
    ),
    "required_anti_affinity": lambda count: (PodAffinityTerm("zone", _selector(count - 1)),),
    "preferred_affinity": lambda count: (
        WeightedPodAffinityTerm(1, PodAffinityTerm("zone", None, ("ns",) * (count - 1))),
    ),
    "spread_constraints": lambda count: (SpreadConstraint("zone", 1, True, _selector(count - 1)),),
}


@pytest.mark.parametrize("field", ITEMS)
def test_the_items_of_a_pod_are_limited(field: str) -> None:
    engine = fill(Engine(), node("n1"), queue(), pod_group("g"))
    allowed = MAX_POD_ITEMS - len(pod("a", "g").spec.requests)
    for count, reasons in (
        (allowed, []),
        (
            allowed + 1,
            [
                f"Pod ns/a: {field}: the spec has {MAX_POD_ITEMS + 1} list items; "
                f"at most {MAX_POD_ITEMS} are allowed"
            ],
        ),
    ):
        waiting = pod("a", "g", spec={field: ITEMS[field](count)})
        assert [str(r.error) for r in engine.apply([Upserted(waiting)])] == reasons
        engine.schedule(NOW_NS)
