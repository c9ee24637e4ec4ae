"""HyperNodes, NUMA layouts and node shards."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.v1 import selector_pb2, topology_pb2
from tests.manifests.manifest import manifest, problem_of, translated


def hyper_node(*members: dict[str, Any], **spec: Any) -> dict[str, Any]:
    body = {"spec": {"tier": 1, "members": list(members), **spec}}
    return manifest("topology.volcano.sh/v1alpha1", "HyperNode", body)


def member(kind: str = "Node", **selector: Any) -> dict[str, Any]:
    return {"type": kind, "selector": selector}


def asked(one: topology_pb2.HyperNodeMember) -> list[tuple[str, int, list[str]]]:
    return [(r.key, r.operator, list(r.values)) for r in one.label_selector.requirements]


def test_a_hyper_node() -> None:
    found = translated(
        hyper_node(
            member(exactMatch={"name": "n1"}),
            member("HyperNode", exactMatch={"name": "leaf"}),
            member(regexMatch={"pattern": "^gpu-.*"}),
            member(labelMatch={"matchLabels": {"rack": "r1"}}),
            member(
                labelMatch={
                    "matchLabels": {"rack": "r1"},
                    "matchExpressions": [
                        {"key": "row", "operator": "NotIn", "values": ["2", "3"]},
                        {"key": "gpu", "operator": "Exists"},
                    ],
                }
            ),
            member(labelMatch={}),
            tier=2,
            tierName="rack",
        )
    ).hyper_node
    assert (found.tier, found.tier_name) == (2, "rack")
    exact, child, pattern, labels, expression, nothing = found.members
    assert exact == topology_pb2.HyperNodeMember(exact_name="n1")
    assert child == topology_pb2.HyperNodeMember(is_hyper_node=True, exact_name="leaf")
    assert pattern == topology_pb2.HyperNodeMember(name_pattern="^gpu-.*")
    assert asked(labels) == [("rack", selector_pb2.OPERATOR_IN, ["r1"])]
    assert asked(expression) == [
        ("rack", selector_pb2.OPERATOR_IN, ["r1"]),
        ("row", selector_pb2.OPERATOR_NOT_IN, ["2", "3"]),
        ("gpu", selector_pb2.OPERATOR_EXISTS, []),
    ]
    assert nothing.HasField("label_selector")
    assert asked(nothing) == []


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (hyper_node(member("Rack", exactMatch={"name": "n"})),
         "HyperNode x: spec.members[0].type: 'Rack' is unknown; allowed: Node, HyperNode"),
        (hyper_node(member()),
         "HyperNode x: spec.members[0].selector: nothing given; "
         "allowed: exactly one of exactMatch, regexMatch, labelMatch"),
        (hyper_node(member(exactMatch={"name": "n"}, regexMatch={"pattern": "n"})),
         "HyperNode x: spec.members[0].selector: exactMatch and regexMatch given; "
         "allowed: exactly one of exactMatch, regexMatch, labelMatch"),
        (hyper_node(tier=-1), "HyperNode x: spec.tier: expected int >= 0"),
        (hyper_node(member(labelMatch={"matchExpressions": [
            {"key": "a", "operator": "Near"}]})),
         "HyperNode x: spec.members[0].selector.labelMatch.matchExpressions[0].operator: "
         "'Near' is unknown; allowed: In, NotIn, Exists, DoesNotExist"),
    ],
)  # fmt: skip
def test_bad_hyper_nodes_are_set_aside_with_one_line(
    document: dict[str, Any], problem: str
) -> None:
    assert problem_of(document) == problem


def test_a_numa_layout() -> None:
    body = {
        "spec": {
            "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "restricted"},
            "resReserved": {"cpu": "500m", "memory": "1Gi"},
            "numares": {"cpu": {"allocatable": "0-3", "capacity": 4}},
            "cpuDetail": {
                "10": {"numa": 1, "socket": 1, "core": 5},
                "2": {"core": 1},
            },
            "podAllocations": [
                {
                    "uid": "u",
                    "containerAllocations": [
                        {"name": "a", "allocations": {"cpu": "0-1", "memory": "1Gi"}},
                        {"name": "b", "allocations": {"cpu": "3"}},
                        {"name": "c"},
                    ],
                }
            ],
        }
    }
    document = manifest("nodeinfo.volcano.sh/v1alpha1", "Numatopology", body, name="n1")
    found = translated(document).numa_topology
    assert found.name == "n1"
    assert found.cpu_manager_policy == topology_pb2.CPU_MANAGER_POLICY_STATIC
    assert found.topology_manager_policy == topology_pb2.TOPOLOGY_POLICY_RESTRICTED
    assert dict(found.reserved) == {"cpu": 500, "memory": 2**30}
    assert (found.resources["cpu"].allocatable, found.resources["cpu"].capacity) == ("0-3", 4)
    assert [(one.cpu, one.numa, one.socket, one.core) for one in found.cpus] == [
        (2, 0, 0, 1),
        (10, 1, 1, 5),
    ]
    assert dict(found.pod_allocations) == {"u": "0-1,3"}


def test_a_cpu_must_be_a_number() -> None:
    body: dict[str, Any] = {"spec": {"cpuDetail": {"zero": {}}}}
    document = manifest("nodeinfo.volcano.sh/v1alpha1", "Numatopology", body)
    assert problem_of(document) == (
        "Numatopology x: spec.cpuDetail[zero]: is not a cpu; allowed: a number from 0"
    )


def test_a_shard() -> None:
    body = {"spec": {"nodesDesired": ["a", "b"]}, "status": {"nodesInUse": ["a"]}}
    found = translated(manifest("shard.volcano.sh/v1alpha1", "NodeShard", body)).node_shard
    assert list(found.nodes_desired) == ["a", "b"]
    assert list(found.nodes_in_use) == ["a"]
