"""The input of the engine: changed objects, outcomes of decisions, and data for plugins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from pumice.core.model.devices import DeviceClass, ResourceClaim, ResourceSlice
from pumice.core.model.group import (
    Namespace,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Queue,
    ResourceQuota,
    Workload,
)
from pumice.core.model.node import Node
from pumice.core.model.pod import Pod
from pumice.core.model.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from pumice.core.model.topology import HyperNode, NodeShard, NumaTopology

ClusterObject = (
    Node
    | Pod
    | PodGroup
    | Queue
    | PriorityClass
    | ResourceQuota
    | Namespace
    | PodDisruptionBudget
    | Workload
    | PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CsiNode
    | CsiDriver
    | CsiStorageCapacity
    | VolumeAttachment
    | HyperNode
    | NumaTopology
    | NodeShard
    | ResourceClaim
    | ResourceSlice
    | DeviceClass
)


# One is made for every object that arrives; a frozen one takes several times as long to make.
@dataclass(slots=True)
class Upserted:
    """An object was added or changed; this is the whole object."""

    object: ClusterObject


@dataclass(slots=True)
class PodsUpserted:
    """Several pods were added or changed, in this order; faster than one delta for each."""

    pods: list[Pod]


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object is gone; unknown or superseded uids are no-ops."""

    kind: type[ClusterObject]
    uid: str


class OutcomeCode(Enum):
    """The result of a decision."""

    APPLIED = "applied"
    CONFLICT = "conflict"
    GONE = "gone"
    RETRYING = "retrying"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class OutcomeReported:
    """The result of a decision, as the adapter reports it; an unknown id is a no-op."""

    decision_id: str
    code: OutcomeCode
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DataReported:
    """Data that an adapter reports for a plugin; it replaces the data under the same name."""

    plugin: str
    # What the data is about, for example a node's name.
    name: str
    # Without values, the data of the name is removed.
    values: Mapping[str, str | float]


Delta = Upserted | PodsUpserted | Deleted | OutcomeReported | DataReported
