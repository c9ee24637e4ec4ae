"""A node as scheduling reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pumice.core.model.selectors import Taint


@dataclass(frozen=True, slots=True)
class NodeImage:
    """An image that is present on a node, with all its names."""

    names: tuple[str, ...]
    size_bytes: int


# Not frozen, because a frozen one takes three times as long to make. No code changes one.
@dataclass(slots=True)
class Node:
    """One node of the cluster; amounts are in the units of ``PodSpec.requests``."""

    uid: str
    name: str
    creation_time_ns: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    # What the node itself publishes, without the oversubscription below.
    allocatable: tuple[tuple[str, int], ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()
    oversubscription_milli_cpu: int = 0
    oversubscription_memory_bytes: int = 0
    images: tuple[NodeImage, ...] = ()
