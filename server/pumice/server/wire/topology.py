"""HyperNodes, NUMA layouts and shards between the wire and the engine."""

from __future__ import annotations

from pumice.core.model.selectors import LabelSelector, Operator, Requirement
from pumice.core.model.topology import (
    HyperNode,
    HyperNodeMember,
    NodeShard,
    NumaCpu,
    NumaTopology,
)
from pumice.server.wire.fields import FieldError, amount, amounts, check_named, plain
from pumice.server.wire.selectors import read_selector, write_selector
from pumice.v1 import selector_pb2, topology_pb2


def _read_member(path: str, message: topology_pb2.HyperNodeMember) -> HyperNodeMember:
    has_labels, has_selector = message.HasField("match_labels"), message.HasField("label_selector")
    chosen = (bool(message.exact_name), bool(message.name_pattern), has_labels, has_selector)
    if sum(chosen) != 1:
        names = "exact_name, name_pattern, match_labels and label_selector"
        raise FieldError(path, f"{sum(chosen)} of {names} are set; set exactly one")
    selector = None
    if has_selector:
        selector = read_selector(f"{path}.label_selector", message.label_selector)
    elif has_labels:
        selector = _asking_for(message.match_labels)
    return HyperNodeMember(
        message.is_hyper_node, message.exact_name, message.name_pattern, selector
    )


def _asking_for(labels: selector_pb2.LabelMap) -> LabelSelector:
    return LabelSelector(
        tuple(
            Requirement(key, Operator.IN, (value,)) for key, value in sorted(labels.labels.items())
        )
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


def read_numa_topology(message: topology_pb2.NumaTopology) -> NumaTopology:
    check_named(message.uid, message.name)
    return NumaTopology(
        uid=message.uid,
        name=message.name,
        policies=plain(message.policies),
        resources={
            name: (held.allocatable, amount(f"resources[{name}].capacity", held.capacity))
            for name, held in sorted(message.resources.items())
        },
        cpus=tuple(NumaCpu(m.cpu, m.numa, m.socket, m.core) for m in message.cpus),
        reserved=amounts("reserved", message.reserved),
        pod_allocations=plain(message.pod_allocations),
    )


def write_numa_topology(topology: NumaTopology) -> topology_pb2.NumaTopology:
    return topology_pb2.NumaTopology(
        uid=topology.uid,
        name=topology.name,
        policies=topology.policies,
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
        message.uid, message.name, tuple(message.nodes_desired), tuple(message.nodes_in_use)
    )


def write_node_shard(shard: NodeShard) -> topology_pb2.NodeShard:
    return topology_pb2.NodeShard(
        uid=shard.uid,
        name=shard.name,
        nodes_desired=shard.nodes_desired,
        nodes_in_use=shard.nodes_in_use,
    )
