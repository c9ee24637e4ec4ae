"""The network's tiers, NUMA layouts and shards of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pumice.core.model.selectors import LabelSelector


@dataclass(frozen=True, slots=True)
class HyperNodeMember:
    """Nodes, or one child HyperNode, selected by a name, a pattern or labels."""

    is_hyper_node: bool = False
    exact_name: str = ""
    name_pattern: str = ""
    # None: not selected by labels. Without requirements, nothing is selected.
    label_selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class HyperNode:
    """A performance domain of the network."""

    uid: str
    name: str
    tier: int = 0
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


@dataclass(frozen=True, slots=True)
class NumaCpu:
    """The NUMA node, socket and core of one cpu."""

    cpu: int
    numa: int
    socket: int
    core: int


@dataclass(frozen=True, slots=True)
class NumaTopology:
    """The NUMA layout and the kubelet's policies of one node."""

    uid: str
    name: str
    policies: Mapping[str, str] = field(default_factory=dict)
    # Resource -> (allocatable cpu list, capacity).
    resources: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    cpus: tuple[NumaCpu, ...] = ()
    reserved: tuple[tuple[str, int], ...] = ()
    # Pod uid -> cpu list.
    pod_allocations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeShard:
    """The nodes that one of several schedulers should use, and those that it uses."""

    uid: str
    name: str
    nodes_desired: tuple[str, ...] = ()
    # The status: nodes that the scheduler claims, and how they differ from the desired ones.
    nodes_in_use: tuple[str, ...] = ()
    nodes_to_add: tuple[str, ...] = ()
    nodes_to_remove: tuple[str, ...] = ()
