"""HyperNodes, NUMA topologies and NodeShards."""

from __future__ import annotations

from typing import Final

import msgspec

from pumice.manifests.amounts import amounts
from pumice.manifests.errors import FieldError
from pumice.manifests.quantities import Quantity
from pumice.manifests.selectors import LabelSelectorShape, label_selector
from pumice.manifests.shapes import Count, Int64, Metadata, Shape, one_of
from pumice.patterns.golang import parse_int
from pumice.v1 import topology_pb2

_MEMBER_TYPES: Final = {"Node": False, "HyperNode": True}


class ExactMatchShape(Shape, frozen=True):
    """A member by exact name."""

    name: str = ""


class RegexMatchShape(Shape, frozen=True):
    """Members by a pattern of their names."""

    pattern: str = ""


class MemberSelectorShape(Shape, frozen=True):
    """A member selector; exactly one field is set."""

    exact_match: ExactMatchShape | None = None
    regex_match: RegexMatchShape | None = None
    label_match: LabelSelectorShape | None = None


class MemberShape(Shape, frozen=True):
    """Members of a HyperNode."""

    type: str = ""
    selector: MemberSelectorShape = MemberSelectorShape()


class HyperNodeSpecShape(Shape, frozen=True):
    """The specification of a HyperNode."""

    tier: Count = 0
    tier_name: str = ""
    members: tuple[MemberShape, ...] = ()


class HyperNodeShape(Shape, frozen=True):
    """A HyperNode."""

    metadata: Metadata = Metadata()
    spec: HyperNodeSpecShape = HyperNodeSpecShape()


class NumaResourceShape(Shape, frozen=True):
    """Amounts of a resource on a node."""

    allocatable: str = ""
    capacity: Int64 = 0


class CpuShape(Shape, frozen=True):
    """The NUMA node, socket and core of a CPU."""

    numa: Count = 0
    socket: Count = 0
    core: Count = 0


class ContainerAllocationShape(Shape, frozen=True):
    """CPUs of a container."""

    allocations: dict[str, str] = msgspec.field(default_factory=dict)


class PodAllocationShape(Shape, frozen=True):
    """CPUs of a pod's containers."""

    uid: str = ""
    container_allocations: tuple[ContainerAllocationShape, ...] = ()


class NumaSpecShape(Shape, frozen=True):
    """The NUMA layout of a node."""

    policies: dict[str, str] = msgspec.field(default_factory=dict)
    res_reserved: dict[str, Quantity] = msgspec.field(default_factory=dict)
    numares: dict[str, NumaResourceShape] = msgspec.field(default_factory=dict)
    cpu_detail: dict[str, CpuShape] = msgspec.field(default_factory=dict)
    pod_allocations: tuple[PodAllocationShape, ...] = ()


class NumaShape(Shape, frozen=True):
    """A Numatopology."""

    metadata: Metadata = Metadata()
    spec: NumaSpecShape = NumaSpecShape()


class ShardSpecShape(Shape, frozen=True):
    """The desired nodes of a scheduler."""

    nodes_desired: tuple[str, ...] = ()


class ShardStatusShape(Shape, frozen=True):
    """The nodes in use by a scheduler."""

    nodes_in_use: tuple[str, ...] = ()
    nodes_to_add: tuple[str, ...] = ()
    nodes_to_remove: tuple[str, ...] = ()


class ShardShape(Shape, frozen=True):
    """A NodeShard."""

    metadata: Metadata = Metadata()
    spec: ShardSpecShape = ShardSpecShape()
    status: ShardStatusShape = ShardStatusShape()


TOPOLOGY_POLICIES: Final = {
    "none": topology_pb2.TOPOLOGY_POLICY_NONE,
    "best-effort": topology_pb2.TOPOLOGY_POLICY_BEST_EFFORT,
    "restricted": topology_pb2.TOPOLOGY_POLICY_RESTRICTED,
    "single-numa-node": topology_pb2.TOPOLOGY_POLICY_SINGLE_NUMA_NODE,
}
_POLICY_NAMES: Final = ("CPUManagerPolicy", "TopologyManagerPolicy")
_CPU_POLICIES: Final = {
    "none": topology_pb2.CPU_MANAGER_POLICY_NONE,
    "static": topology_pb2.CPU_MANAGER_POLICY_STATIC,
}
HYPER_NODE_DECODER: Final = msgspec.json.Decoder(HyperNodeShape)
NUMA_DECODER: Final = msgspec.json.Decoder(NumaShape)
SHARD_DECODER: Final = msgspec.json.Decoder(ShardShape)


def fill_hyper_node(target: topology_pb2.HyperNode, shape: HyperNodeShape) -> None:
    target.name = shape.metadata.need_name()
    target.uid = shape.metadata.cluster_uid_of("HyperNode")
    target.tier = shape.spec.tier
    target.tier_name = shape.spec.tier_name
    for index, member in enumerate(shape.spec.members):
        _fill_member(target.members.add(), member, f"spec.members[{index}]")


def _fill_member(target: topology_pb2.HyperNodeMember, shape: MemberShape, field: str) -> None:
    target.is_hyper_node = one_of(_MEMBER_TYPES, shape.type, f"{field}.type")
    selector = shape.selector
    given = [
        name
        for name, choice in (
            ("exactMatch", selector.exact_match),
            ("regexMatch", selector.regex_match),
            ("labelMatch", selector.label_match),
        )
        if choice is not None
    ]
    if len(given) != 1:
        raise FieldError(
            f"{field}.selector",
            f"{' and '.join(given) or 'nothing'} given",
            "exactly one of exactMatch, regexMatch, labelMatch",
        )
    if selector.exact_match is not None:
        target.exact_name = selector.exact_match.name
    if selector.regex_match is not None:
        target.name_pattern = selector.regex_match.pattern
    if selector.label_match is not None:
        path = f"{field}.selector.labelMatch"
        target.label_selector.CopyFrom(label_selector(selector.label_match, path))


def fill_numa_topology(target: topology_pb2.NumaTopology, shape: NumaShape) -> None:
    spec = shape.spec
    target.name = shape.metadata.need_name()
    target.uid = shape.metadata.cluster_uid_of("Numatopology")
    cpu_policy, aligned = (spec.policies.get(name, "") for name in _POLICY_NAMES)
    target.cpu_manager_policy = _CPU_POLICIES.get(
        cpu_policy, topology_pb2.CPU_MANAGER_POLICY_UNSPECIFIED
    )
    target.topology_manager_policy = TOPOLOGY_POLICIES.get(
        aligned, topology_pb2.TOPOLOGY_POLICY_UNSPECIFIED
    )
    for name, resource in sorted(spec.numares.items()):
        target.resources[name].allocatable = resource.allocatable
        target.resources[name].capacity = resource.capacity
    cpus = {_cpu_id(text): cpu for text, cpu in spec.cpu_detail.items()}
    for cpu_id, cpu in sorted(cpus.items(), key=lambda entry: entry[0]):
        target.cpus.add(cpu=cpu_id, numa=cpu.numa, socket=cpu.socket, core=cpu.core)
    target.reserved.update(amounts(spec.res_reserved, "spec.resReserved"))
    for pod in spec.pod_allocations:
        lists = [one.allocations.get("cpu", "") for one in pod.container_allocations]
        target.pod_allocations[pod.uid] = ",".join(cpus_ for cpus_ in lists if cpus_)


def _cpu_id(text: str) -> int:
    cpu_id = parse_int(text, bits=32)
    if cpu_id is None or cpu_id < 0:
        raise FieldError(f"spec.cpuDetail[{text[:80]}]", "is not a cpu", "a number from 0")
    return cpu_id


def fill_node_shard(target: topology_pb2.NodeShard, shape: ShardShape) -> None:
    target.name = shape.metadata.need_name()
    target.uid = shape.metadata.cluster_uid_of("NodeShard")
    target.nodes_desired.extend(shape.spec.nodes_desired)
    target.nodes_in_use.extend(shape.status.nodes_in_use)
    target.nodes_to_add.extend(shape.status.nodes_to_add)
    target.nodes_to_remove.extend(shape.status.nodes_to_remove)
