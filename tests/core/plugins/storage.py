"""Storage objects in one line each, for tests of the volume filters."""

from __future__ import annotations

from typing import Any

from pumice.core.deltas import ClusterObject
from pumice.core.model.pod import Pod, PodVolume
from pumice.core.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from pumice.core.model.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumePhase,
)
from tests.core.builders import GIB, pod, pod_group, queue
from tests.core.plugins.opened import Opened, options

ZONE = "topology.kubernetes.io/zone"


def where(key: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm((Requirement(key, Operator.IN, values),))


def selecting(key: str, *values: str) -> LabelSelector:
    return LabelSelector((Requirement(key, Operator.IN, values),))


def volume(name: str, gib: int = 1, **fields: Any) -> PersistentVolume:
    given = {
        "phase": VolumePhase.AVAILABLE,
        "storage_class_name": "slow",
        "access_modes": ("RWO",),
        **fields,
    }
    return PersistentVolume(f"uid-{name}", name, capacity_bytes=gib * GIB, **given)


def claim(name: str, gib: int = 1, **fields: Any) -> PersistentVolumeClaim:
    """Unbound, or bound when a volume is named."""
    given = {
        "storage_class_name": "slow",
        "access_modes": ("RWO",),
        "bind_completed": bool(fields.get("volume_name")),
        **fields,
    }
    return PersistentVolumeClaim(f"uid-{name}", "ns", name, request_bytes=gib * GIB, **given)


def storage_class(name: str = "slow", provisioner: str = "", **fields: Any) -> StorageClass:
    """Waits for the first consumer, and makes volumes if there is a provisioner."""
    given = {"wait_for_first_consumer": True, **fields}
    return StorageClass(f"uid-{name}", name, provisioner or "kubernetes.io/no-provisioner", **given)


def using(name: str, *claims: str, ephemeral: bool = False, on: str = "", **fields: Any) -> Pod:
    volumes = tuple(PodVolume(claim_name, ephemeral) for claim_name in claims)
    return pod(name, "g", on=on, spec={"volumes": volumes}, **fields)


def opened_with(*objects: ClusterObject, **arguments: object) -> Opened:
    return Opened(queue(), pod_group("g"), *objects, plugins=[options("predicates", **arguments)])
