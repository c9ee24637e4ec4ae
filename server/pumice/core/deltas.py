"""All that may enter the engine: objects that changed, outcomes of decisions, the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

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
)


# One is made with every object that comes: frozen ones take several times as long to make.
@dataclass(slots=True)
class Upserted:
    """An object is there, whole, as it is now."""

    object: ClusterObject


@dataclass(slots=True)
class PodsUpserted:
    """Pods are there as they are now, told one after the other: quicker than one by one."""

    pods: list[Pod]


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object is gone; unknown or superseded uids are no-ops."""

    kind: type[ClusterObject]
    uid: str


class OutcomeCode(Enum):
    """What came of a decision."""

    APPLIED = "applied"
    CONFLICT = "conflict"
    GONE = "gone"
    RETRYING = "retrying"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class OutcomeReported:
    """What the adapter made of a decision; an unknown id is a no-op."""

    decision_id: str
    code: OutcomeCode
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DataReported:
    """What an adapter measured or asked on behalf of a plugin; it replaces what was known."""

    plugin: str
    # Of what, for example a node's name.
    name: str
    # Without values, what was known is forgotten.
    values: Mapping[str, str | float]


Delta = Upserted | PodsUpserted | Deleted | OutcomeReported | DataReported
