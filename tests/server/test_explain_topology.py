"""Explanations of jobs with a network topology: which HyperNode is nearest, and what is wrong."""

from __future__ import annotations

import pytest

from pumice.v1 import group_pb2, object_pb2, topology_pb2
from tests.server.running import RunningCore, configuration, gang, node, queue
from tests.server.test_explain import explain

CONF = configuration(
    'actions: "allocate, gangpreempt"\n'
    "tiers:\n- plugins:\n  - name: priority\n  - name: gang\n"
    "- plugins:\n  - name: predicates\n  - name: network-topology-aware\n  - name: nodeorder\n"
)
Objects = list[object_pb2.ClusterObject]


def hyper_node(name: str, tier: int, *nodes: str, below: str = "") -> object_pb2.ClusterObject:
    members = [topology_pb2.HyperNodeMember(exact_name=each) for each in nodes]
    if below:
        members.append(topology_pb2.HyperNodeMember(is_hyper_node=True, exact_name=below))
    held = topology_pb2.HyperNode(uid=f"uid-{name}", name=name, tier=tier, members=members)
    return object_pb2.ClusterObject(hyper_node=held)


def within(objects: Objects, **topology: object) -> Objects:
    held = group_pb2.NetworkTopology(hard=True, **topology)  # type: ignore[arg-type]
    objects[0].pod_group.network_topology.CopyFrom(held)
    objects[0].pod_group.status.phase = group_pb2.POD_GROUP_PHASE_INQUEUE
    return objects


@pytest.mark.parametrize(
    ("hyper_nodes", "job", "told"),
    [
        (
            [hyper_node("leaf1", 1, "n1"), hyper_node("leaf2", 1, "n2", "n3")],
            within(gang("job", 3, cpu=3000), highest_tier=1),
            "no HyperNode up to tier 1 takes it; leaf2 has room for 2 of the 3 pods it needs",
        ),
        (
            [hyper_node("spine", 2, "n1", "n2", "n3")],
            within(gang("job", 1), highest_tier=1),
            "no HyperNode up to tier 1 takes it",
        ),
        (
            [hyper_node("a", 1, "n1", below="b"), hyper_node("b", 2, below="a")],
            within(gang("job", 1), highest_tier=1),
            "the HyperNodes do not form a tree (HyperNode a is below itself)",
        ),
        (
            [hyper_node("leaf1", 1, "n1")],
            within(gang("job", 1), highest_tier_name="room"),
            "it must keep to a tier of the network that no HyperNode has (room)",
        ),
    ],
)
async def test_a_job_says_what_is_missing_in_the_network(
    core: RunningCore, hyper_nodes: Objects, job: Objects, told: str
) -> None:
    nodes = [node("n1"), node("n2"), node("n3")]
    await core.served([queue(), *nodes, *hyper_nodes, *job], CONF)
    await core.session(1)
    assert told in (await explain(core, job="job")).sentence


async def test_a_job_says_which_value_of_its_label_is_the_nearest(core: RunningCore) -> None:
    job = gang("job", 3, cpu=3000)
    job[0].pod_group.topology_key = "rack"
    job[0].pod_group.status.phase = group_pb2.POD_GROUP_PHASE_INQUEUE
    nodes = [node(name) for name in ("n1", "n2", "n3")]
    for number, each in enumerate(nodes):
        each.node.labels["rack"] = "a" if number else "b"
    await core.served([queue(), *nodes, *job], CONF)
    await core.session(1)
    told = "no nodes with the same value of label rack take it; rack=a has room for 2 of the 3 pods"
    assert told in (await explain(core, job="job")).sentence
