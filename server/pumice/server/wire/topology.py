"""Converts HyperNodes, NUMA layouts and node shards."""

from __future__ import annotations

from pumice.core.model.topology import (
    HyperNode,
    HyperNodeMember,
    NodeShard,
    NumaCpu,
    NumaTopology,
)
from pumice.server.wire.fields import (
    FieldError,
    amount,
    amounts,
    check_named,
    enum_value,
    plain_dict,
)
from pumice.server.wire.selectors import read_selector, write_selector
from pumice.v1 import topology_pb2

# Kubernetes' words.
_CPU_POLICIES = {
    topology_pb2.CPU_MANAGER_POLICY_UNSPECIFIED: "",
    topology_pb2.CPU_MANAGER_POLICY_NONE: "none",
    topology_pb2.CPU_MANAGER_POLICY_STATIC: "static",
}
_CPU_POLICY_NUMBERS = {word: number for number, word in _CPU_POLICIES.items()}
TOPOLOGY_POLICIES = {
    topology_pb2.TOPOLOGY_POLICY_UNSPECIFIED: "",
    topology_pb2.TOPOLOGY_POLICY_NONE: "none",
    topology_pb2.TOPOLOGY_POLICY_BEST_EFFORT: "best-effort",
    topology_pb2.TOPOLOGY_POLICY_RESTRICTED: "restricted",
    topology_pb2.TOPOLOGY_POLICY_SINGLE_NUMA_NODE: "single-numa-node",
}
TOPOLOGY_POLICY_NUMBERS = {word: number for number, word in TOPOLOGY_POLICIES.items()}
_CPU, _TOPOLOGY = "CPUManagerPolicy", "TopologyManagerPolicy"


def _read_member(path: str, message: topology_pb2.HyperNodeMember) -> HyperNodeMember:
    has_selector = message.HasField("label_selector")
    given = sum((bool(message.exact_name), bool(message.name_pattern), has_selector))
    if given != 1:
        names = "exact_name, name_pattern and label_selector"
        raise FieldError(path, f"{given} of {names} are set; set exactly one")
    selector = None
    if has_selector:
        selector = read_selector(f"{path}.label_selector", message.label_selector)
    return HyperNodeMember(
        message.is_hyper_node, message.exact_name, message.name_pattern, selector
    )


def _write_member(member: HyperNodeMember) -> topology_pb2.HyperNodeMember:
    return topology_pb2.HyperNodeMember(
        is_hyper_node=member.is_hyper_node,
        exact_name=member.exact_name,
        name_pattern=member.name_pattern,
        label_selector=write_selector(member.label_selector),
    )


def read_hyper_node(message: topology_pb2.HyperNode) -> HyperNode:
    check_named(message.uid, message.name)
    members = tuple(_read_member(f"members[{i}]", m) for i, m in enumerate(message.members))
    return HyperNode(message.uid, message.name, message.tier, message.tier_name, members)


def write_hyper_node(hyper_node: HyperNode) -> topology_pb2.HyperNode:
    return topology_pb2.HyperNode(
        uid=hyper_node.uid,
        name=hyper_node.name,
        tier=hyper_node.tier,
        tier_name=hyper_node.tier_name,
        members=map(_write_member, hyper_node.members),
    )


def _read_policies(message: topology_pb2.NumaTopology) -> dict[str, str]:
    """The known policies, by Kubernetes' names."""
    cpu = enum_value("cpu_manager_policy", message.cpu_manager_policy, _CPU_POLICIES)
    aligned = enum_value(
        "topology_manager_policy", message.topology_manager_policy, TOPOLOGY_POLICIES
    )
    return {name: word for name, word in ((_CPU, cpu), (_TOPOLOGY, aligned)) if word}


def read_numa_topology(message: topology_pb2.NumaTopology) -> NumaTopology:
    check_named(message.uid, message.name)
    return NumaTopology(
        uid=message.uid,
        name=message.name,
        policies=_read_policies(message),
        resources={
            name: (held.allocatable, amount(f"resources[{name}].capacity", held.capacity))
            for name, held in sorted(message.resources.items())
        },
        cpus=tuple(NumaCpu(m.cpu, m.numa, m.socket, m.core) for m in message.cpus),
        reserved=amounts("reserved", message.reserved),
        pod_allocations=plain_dict(message.pod_allocations),
    )


def write_numa_topology(topology: NumaTopology) -> topology_pb2.NumaTopology:
    return topology_pb2.NumaTopology(
        uid=topology.uid,
        name=topology.name,
        cpu_manager_policy=_CPU_POLICY_NUMBERS[topology.policies.get(_CPU, "")],
        topology_manager_policy=TOPOLOGY_POLICY_NUMBERS[topology.policies.get(_TOPOLOGY, "")],
        resources={
            name: topology_pb2.NumaResource(allocatable=cpus, capacity=capacity)
            for name, (cpus, capacity) in topology.resources.items()
        },
        cpus=[
            topology_pb2.NumaCpu(cpu=c.cpu, numa=c.numa, socket=c.socket, core=c.core)
            for c in topology.cpus
        ],
        reserved=dict(topology.reserved),
        pod_allocations=topology.pod_allocations,
    )


def read_node_shard(message: topology_pb2.NodeShard) -> NodeShard:
    check_named(message.uid, message.name)
    return NodeShard(
        message.uid,
        message.name,
        tuple(message.nodes_desired),
        tuple(message.nodes_in_use),
        tuple(message.nodes_to_add),
        tuple(message.nodes_to_remove),
    )


def write_node_shard(shard: NodeShard) -> topology_pb2.NodeShard:
    return topology_pb2.NodeShard(
        uid=shard.uid,
        name=shard.name,
        nodes_desired=shard.nodes_desired,
        nodes_in_use=shard.nodes_in_use,
        nodes_to_add=shard.nodes_to_add,
        nodes_to_remove=shard.nodes_to_remove,
    )
