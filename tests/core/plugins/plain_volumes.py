"""Kubernetes' volume filters once more, slow and obvious: one node, one claim at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    VolumePhase,
)
from tests.core.plugins.verdicts import UU, U, Verdict

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


@dataclass
class Storage:
    """All storage objects by name or key, and what the session has taken."""

    volumes: dict[str, PersistentVolume] = field(default_factory=dict)
    claims: dict[str, PersistentVolumeClaim] = field(default_factory=dict)
    classes: dict[str, StorageClass] = field(default_factory=dict)
    drivers: dict[str, CsiDriver] = field(default_factory=dict)
    csi_nodes: dict[str, CsiNode] = field(default_factory=dict)
    capacities: list[CsiStorageCapacity] = field(default_factory=list)
    attachments: list[VolumeAttachment] = field(default_factory=list)

    def claims_of(self, pod: Pod) -> list[PersistentVolumeClaim]:
        return [self.claims[f"{pod.namespace}/{v.claim_name}"] for v in pod.spec.volumes]


def reaches(volume: PersistentVolume, node: Node) -> bool:
    terms = volume.node_terms
    return terms is None or any(term.matches(node.labels, node.name) for term in terms)


# Limits of attachments.


def handle(storage: Storage, claim: PersistentVolumeClaim) -> tuple[str, str] | None:
    volume = storage.volumes.get(claim.volume_name)
    if claim.volume_name and volume is not None:
        return (volume.csi_driver, volume.csi_handle) if volume.csi_driver else None
    storage_class = storage.classes.get(claim.storage_class_name or "")
    return None if storage_class is None else (storage_class.provisioner, f"new {claim.key}")


def limits(storage: Storage, pod: Pod, node: Node, others: list[Pod]) -> Verdict:
    wanted = {h for c in storage.claims_of(pod) if (h := handle(storage, c)) is not None}
    csi_node = storage.csi_nodes.get(node.name)
    allowed = {d: n for d, n in csi_node.driver_limits if n >= 0} if csi_node else {}
    attached = {
        h for p in others for c in storage.claims_of(p) if (h := handle(storage, c)) is not None
    }
    wanted -= attached
    for attachment in storage.attachments:
        volume = storage.volumes.get(attachment.volume_name)
        if attachment.node_name == node.name and volume is not None and volume.csi_driver:
            attached.add((attachment.attacher, volume.csi_handle))
    for driver in {d for d, _ in wanted}:
        total = sum(d == driver for d, _ in attached) + sum(d == driver for d, _ in wanted)
        if driver in allowed and total > allowed[driver]:
            return [("node(s) exceed max volume count", U)]
    return []


# Zones.

_NEW = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}


def zones(storage: Storage, pod: Pod, node: Node) -> Verdict:
    if not any(key in node.labels for key in _NEW):
        return []
    for claim in storage.claims_of(pod):
        volume = storage.volumes.get(claim.volume_name)
        for key, new in _NEW.items():
            if volume is not None and key in volume.labels:
                value = node.labels.get(key, node.labels.get(new))
                if value not in volume.labels[key].split("__"):
                    return [("node(s) had no available volume zone", UU)]
    return []


# Binding.


def find_volume(
    storage: Storage, claim: PersistentVolumeClaim, node: Node, chosen: set[str]
) -> PersistentVolume | None:
    best: PersistentVolume | None = None
    # Kubernetes walks them in any order; of two that are set aside for the claim we take the smaller.
    for volume in sorted(storage.volumes.values(), key=lambda v: (v.capacity_bytes, v.name)):
        if volume.name in chosen or volume.storage_class_name != claim.storage_class_name:
            continue
        mine = volume.claim_key == claim.key and volume.claim_uid in ("", claim.uid)
        if (volume.claim_key and not mine) or volume.capacity_bytes < claim.request_bytes:
            continue
        if volume.block_mode != claim.block_mode or volume.terminating:
            continue
        if volume.attributes_class_name != claim.attributes_class_name:
            continue
        if mine:
            return volume if reaches(volume, node) else None
        if volume.phase is not VolumePhase.AVAILABLE or not reaches(volume, node):
            continue
        if claim.selector is not None and not claim.selector.matches(volume.labels):
            continue
        if not set(claim.access_modes) <= set(volume.access_modes):
            continue
        if best is None or volume.capacity_bytes < best.capacity_bytes:
            best = volume
    return best


def can_make(storage: Storage, claim: PersistentVolumeClaim, node: Node) -> str | None:
    storage_class = storage.classes[claim.storage_class_name or ""]
    if storage_class.provisioner in ("", "kubernetes.io/no-provisioner"):
        return NOTHING_TO_BIND
    allowed = storage_class.allowed_topologies
    if allowed and not any(term.matches(node.labels, node.name) for term in allowed):
        return NOTHING_TO_BIND
    driver = storage.drivers.get(storage_class.provisioner)
    if driver is None or not driver.publishes_capacity or not claim.request_bytes:
        return None
    for capacity in storage.capacities:
        largest = (
            capacity.maximum_volume_bytes
            if capacity.maximum_volume_bytes >= 0
            else capacity.capacity_bytes
        )
        near = capacity.node_selector is not None and capacity.node_selector.matches(node.labels)
        same = capacity.storage_class_name == storage_class.name
        if same and near and largest >= claim.request_bytes:
            return None
    return NO_SPACE


def plan(storage: Storage, pod: Pod, node: Node) -> tuple[list[str], dict[str, str]]:
    """The node's faults; and for each unbound claim the volume it gets, empty if a new one."""
    faults: list[str] = []
    missing = False
    claims = storage.claims_of(pod)
    for claim in [c for c in claims if c.volume_name]:
        volume = storage.volumes.get(claim.volume_name)
        if volume is None:
            missing = True
            break
        if not reaches(volume, node):
            faults.append(NODE_CONFLICT)
            break
    fault, picks = _plan_unbound(storage, [c for c in claims if not c.volume_name], node)
    if fault is not None:
        faults.append(fault)
    if missing:
        faults.append(NO_VOLUME)
    return faults, picks


def _plan_unbound(
    storage: Storage, claims: list[PersistentVolumeClaim], node: Node
) -> tuple[str | None, dict[str, str]]:
    if any(c.selected_node and c.selected_node != node.name for c in claims):
        return NOTHING_TO_BIND, {}
    to_make = [c for c in claims if c.selected_node]
    picks = {c.name: "" for c in to_make}
    chosen: set[str] = set()
    for claim in sorted((c for c in claims if not c.selected_node), key=lambda c: c.request_bytes):
        volume = find_volume(storage, claim, node, chosen)
        if volume is None:
            to_make.append(claim)
            picks[claim.name] = ""
        else:
            chosen.add(volume.name)
            picks[claim.name] = volume.name
    for claim in to_make:
        fault = can_make(storage, claim, node)
        if fault is not None:
            return fault, {}
    return None, picks


def verdict(storage: Storage, pod: Pod, node: Node, others: list[Pod]) -> Verdict:
    said = limits(storage, pod, node, others)
    said += zones(storage, pod, node)
    if not any(final for _, final in said):
        faults, _ = plan(storage, pod, node)
        if faults:
            said.append((", ".join(faults), UU))
    return said
