"""Volumes as scheduling reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from pumice.core.model.selectors import LabelSelector, NodeSelectorTerm


class VolumePhase(IntEnum):
    """The phase of a PersistentVolume or a claim."""

    UNKNOWN = 0
    PENDING = 1
    AVAILABLE = 2
    BOUND = 3
    RELEASED = 4
    FAILED = 5
    LOST = 6


@dataclass(frozen=True, slots=True)
class PersistentVolume:
    """A volume that exists."""

    uid: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    phase: VolumePhase = VolumePhase.UNKNOWN
    storage_class_name: str = ""
    attributes_class_name: str = ""
    capacity_bytes: int = 0
    access_modes: tuple[str, ...] = ()
    block_mode: bool = False
    # None: reachable from every node.
    node_terms: tuple[NodeSelectorTerm, ...] | None = None
    csi_driver: str = ""
    csi_handle: str = ""
    # ``namespace/name`` and uid of the claim that it is bound to or reserved for.
    claim_key: str = ""
    claim_uid: str = ""
    terminating: bool = False


@dataclass(frozen=True, slots=True)
class PersistentVolumeClaim:
    """A claim for a volume."""

    uid: str
    namespace: str
    name: str
    phase: VolumePhase = VolumePhase.UNKNOWN
    volume_name: str = ""
    # None or empty: only volumes without a class match.
    storage_class_name: str | None = None
    attributes_class_name: str = ""
    request_bytes: int = 0
    access_modes: tuple[str, ...] = ()
    block_mode: bool = False
    selector: LabelSelector | None = None
    bind_completed: bool = False
    selected_node: str = ""
    owner_uid: str = ""
    terminating: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class StorageClass:
    """How volumes of a class are provisioned."""

    uid: str
    name: str
    provisioner: str = ""
    wait_for_first_consumer: bool = False
    allowed_topologies: tuple[NodeSelectorTerm, ...] = ()
    # Parameter ``csi.storage.k8s.io/csi-driver-name``.
    csi_driver_name: str = ""


@dataclass(frozen=True, slots=True)
class CsiNode:
    """The CSI drivers on a node; a limit of -1 means that none is published."""

    uid: str
    name: str
    driver_limits: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class CsiDriver:
    """A CSI driver of the cluster."""

    uid: str
    name: str
    publishes_capacity: bool = False


@dataclass(frozen=True, slots=True)
class CsiStorageCapacity:
    """Free storage for volumes of a class, reachable from some nodes."""

    uid: str
    namespace: str
    name: str
    storage_class_name: str = ""
    # None reaches no node.
    node_selector: LabelSelector | None = None
    # -1: not published.
    capacity_bytes: int = -1
    maximum_volume_bytes: int = -1


@dataclass(frozen=True, slots=True)
class VolumeAttachment:
    """A volume attached to a node."""

    uid: str
    name: str
    attacher: str = ""
    node_name: str = ""
    volume_name: str = ""
