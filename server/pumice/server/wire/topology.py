"""Converts HyperNodes, NUMA layouts and node shards."""

from __future__ import annotations

from pumice.core.model.topology import (
    HyperNode,
    HyperNodeMember,
    NodeShard,
    NumaCpu,
    NumaTopology,
)
from pumice.server.wire.conversion import TEXTS, Conversion, Field, optional, repeated
from pumice.server.wire.fields import FieldError, amount, amounts, enum_value, plain_dict
from pumice.server.wire.selectors import SELECTOR
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


_MEMBER = Conversion(
    HyperNodeMember, topology_pb2.HyperNodeMember, label_selector=optional(SELECTOR)
)


def _read_member(path: str, message: topology_pb2.HyperNodeMember) -> HyperNodeMember:
    has_selector = message.HasField("label_selector")
    given = sum((bool(message.exact_name), bool(message.name_pattern), has_selector))
    if given != 1:
        names = "exact_name, name_pattern and label_selector"
        raise FieldError(path, f"{given} of {names} are set; set exactly one")
    return _MEMBER.read(path, message)


HYPER_NODE = Conversion(
    HyperNode, topology_pb2.HyperNode, members=repeated(Field(_read_member, _MEMBER.write))
)
NODE_SHARD = Conversion(
    NodeShard,
    topology_pb2.NodeShard,
    nodes_desired=TEXTS,
    nodes_in_use=TEXTS,
    nodes_to_add=TEXTS,
    nodes_to_remove=TEXTS,
)
_CPUS = repeated(Conversion(NumaCpu, topology_pb2.NumaCpu))


def _read_policies(message: topology_pb2.NumaTopology) -> dict[str, str]:
    """The known policies, by Kubernetes' names."""
    cpu = enum_value("cpu_manager_policy", message.cpu_manager_policy, _CPU_POLICIES)
    aligned = enum_value(
        "topology_manager_policy", message.topology_manager_policy, TOPOLOGY_POLICIES
    )
    return {name: word for name, word in ((_CPU, cpu), (_TOPOLOGY, aligned)) if word}


def read_numa_topology(message: topology_pb2.NumaTopology) -> NumaTopology:
    return NumaTopology(
        uid=message.uid,
        name=message.name,
        policies=_read_policies(message),
        resources={
            name: (held.allocatable, amount(f"resources[{name}].capacity", held.capacity))
            for name, held in sorted(message.resources.items())
        },
        cpus=_CPUS.read("cpus", message.cpus),
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
        cpus=_CPUS.write(topology.cpus),
        reserved=dict(topology.reserved),
        pod_allocations=topology.pod_allocations,
    )
