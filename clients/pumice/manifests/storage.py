"""Persistent volumes, claims for them, and storage classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pumice.manifests.amounts import billionths, fitting
from pumice.manifests.quantities import Quantity, whole
from pumice.manifests.selectors import (
    LabelSelectorShape,
    NodeSelectorShape,
    label_selector,
    node_selector,
)
from pumice.manifests.shapes import Metadata, Shape
from pumice.v1 import selector_pb2, storage_pb2

_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_DRIVER_PARAMETER: Final = "csi.storage.k8s.io/csi-driver-name"
_MODES: Final = {
    "ReadWriteOnce": storage_pb2.ACCESS_MODE_READ_WRITE_ONCE,
    "ReadOnlyMany": storage_pb2.ACCESS_MODE_READ_ONLY_MANY,
    "ReadWriteMany": storage_pb2.ACCESS_MODE_READ_WRITE_MANY,
    "ReadWriteOncePod": storage_pb2.ACCESS_MODE_READ_WRITE_ONCE_POD,
}
_PHASES: Final = {
    "Pending": storage_pb2.VOLUME_PHASE_PENDING,
    "Available": storage_pb2.VOLUME_PHASE_AVAILABLE,
    "Bound": storage_pb2.VOLUME_PHASE_BOUND,
    "Released": storage_pb2.VOLUME_PHASE_RELEASED,
    "Failed": storage_pb2.VOLUME_PHASE_FAILED,
    "Lost": storage_pb2.VOLUME_PHASE_LOST,
}


class PhaseShape(Shape, frozen=True):
    """The status of a volume or claim."""

    phase: str = ""


class ClaimRefShape(Shape, frozen=True):
    """The claim reference of a volume."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiSourceShape(Shape, frozen=True):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinityShape(Shape, frozen=True):
    """The node affinity of a volume."""

    required: NodeSelectorShape | None = None


class VolumeSpecShape(Shape, frozen=True):
    """The specification of a volume."""

    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    volume_mode: str = ""
    storage_class_name: str = ""
    volume_attributes_class_name: str = ""
    node_affinity: VolumeNodeAffinityShape = VolumeNodeAffinityShape()
    csi: CsiSourceShape = CsiSourceShape()
    claim_ref: ClaimRefShape | None = None


class VolumeShape(Shape, frozen=True):
    """A PersistentVolume."""

    metadata: Metadata = Metadata()
    spec: VolumeSpecShape = VolumeSpecShape()
    status: PhaseShape = PhaseShape()


class ClaimResourcesShape(Shape, frozen=True):
    """Requests of a claim."""

    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)


class ClaimSpecShape(Shape, frozen=True):
    """The specification of a claim."""

    volume_name: str = ""
    storage_class_name: str | None = None
    volume_attributes_class_name: str = ""
    resources: ClaimResourcesShape = ClaimResourcesShape()
    access_modes: tuple[str, ...] = ()
    volume_mode: str = ""
    selector: LabelSelectorShape | None = None


class ClaimShape(Shape, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: Metadata = Metadata()
    spec: ClaimSpecShape = ClaimSpecShape()
    status: PhaseShape = PhaseShape()


class TopologyExpressionShape(Shape, frozen=True):
    """Allowed values of a node label."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologyTermShape(Shape, frozen=True):
    """An allowed topology of a storage class."""

    match_label_expressions: tuple[TopologyExpressionShape, ...] = ()


class StorageClassShape(Shape, frozen=True):
    """A StorageClass."""

    metadata: Metadata = Metadata()
    provisioner: str = ""
    parameters: dict[str, str] = msgspec.field(default_factory=dict)
    volume_binding_mode: str = ""
    allowed_topologies: tuple[TopologyTermShape, ...] = ()


VOLUME_DECODER: Final = msgspec.json.Decoder(VolumeShape)
CLAIM_DECODER: Final = msgspec.json.Decoder(ClaimShape)
STORAGE_CLASS_DECODER: Final = msgspec.json.Decoder(StorageClassShape)


def _modes(words: tuple[str, ...]) -> list[storage_pb2.AccessMode.ValueType]:
    """Access modes; an unknown mode is translated to unspecified, which no volume offers."""
    return [_MODES.get(word, storage_pb2.ACCESS_MODE_UNSPECIFIED) for word in words]


def fill_volume(volume: storage_pb2.PersistentVolume, shape: VolumeShape) -> None:
    metadata, spec = shape.metadata, shape.spec
    volume.name = metadata.need_name()
    volume.uid = metadata.cluster_uid_of("PersistentVolume")
    volume.labels.update(metadata.labels)
    volume.phase = _PHASES.get(shape.status.phase, storage_pb2.VOLUME_PHASE_UNSPECIFIED)
    volume.storage_class_name = metadata.annotations.get(_CLASS_ANNOTATION, spec.storage_class_name)
    volume.attributes_class_name = spec.volume_attributes_class_name
    volume.capacity_bytes = _storage(spec.capacity, "spec.capacity")
    volume.access_modes.extend(_modes(spec.access_modes))
    volume.block_mode = spec.volume_mode == "Block"
    if spec.node_affinity.required is not None:
        volume.node_terms.SetInParent()
        volume.node_terms.MergeFrom(
            node_selector(spec.node_affinity.required, "spec.nodeAffinity.required")
        )
    volume.csi_driver = spec.csi.driver
    volume.csi_handle = spec.csi.volume_handle
    if spec.claim_ref is not None:
        volume.claim_key = f"{spec.claim_ref.namespace}/{spec.claim_ref.name}"
        volume.claim_uid = spec.claim_ref.uid
    volume.terminating = bool(metadata.deletion_timestamp)


def fill_claim(claim: storage_pb2.PersistentVolumeClaim, shape: ClaimShape) -> None:
    metadata, spec = shape.metadata, shape.spec
    claim.name = metadata.need_name()
    claim.namespace = metadata.namespace_or_default
    claim.uid = metadata.uid_of("PersistentVolumeClaim")
    claim.phase = _PHASES.get(shape.status.phase, storage_pb2.VOLUME_PHASE_UNSPECIFIED)
    claim.volume_name = spec.volume_name
    storage_class = metadata.annotations.get(_CLASS_ANNOTATION, spec.storage_class_name)
    if storage_class is not None:
        claim.storage_class_name = storage_class
    claim.attributes_class_name = spec.volume_attributes_class_name
    claim.request_bytes = _storage(spec.resources.requests, "spec.resources.requests")
    claim.access_modes.extend(_modes(spec.access_modes))
    claim.block_mode = spec.volume_mode == "Block"
    if spec.selector is not None:
        claim.selector.CopyFrom(label_selector(spec.selector, "spec.selector"))
    claim.bind_completed = _BIND_COMPLETED in metadata.annotations
    claim.selected_node = metadata.annotations.get(_SELECTED_NODE, "")
    claim.owner_uid = metadata.controller_uid
    claim.terminating = bool(metadata.deletion_timestamp)


def _storage(resources: Mapping[str, Quantity], field: str) -> int:
    exact = billionths(resources, field)
    return fitting("storage", whole(exact.get("storage", 0)), field)


def fill_storage_class(target: storage_pb2.StorageClass, shape: StorageClassShape) -> None:
    target.name = shape.metadata.need_name()
    target.uid = shape.metadata.cluster_uid_of("StorageClass")
    target.provisioner = shape.provisioner
    target.wait_for_first_consumer = shape.volume_binding_mode == "WaitForFirstConsumer"
    for term in shape.allowed_topologies:
        target.allowed_topologies.add(
            label_requirements=[
                selector_pb2.Requirement(
                    key=one.key, operator=selector_pb2.OPERATOR_IN, values=one.values
                )
                for one in term.match_label_expressions
            ]
        )
    target.csi_driver_name = shape.parameters.get(_DRIVER_PARAMETER, "")
