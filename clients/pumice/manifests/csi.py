"""CSINodes, CSIDrivers, CSIStorageCapacities and VolumeAttachments."""

from __future__ import annotations

from typing import Final

import msgspec

from pumice.manifests.errors import FieldError
from pumice.manifests.quantities import Quantity, value
from pumice.manifests.selectors import LabelSelectorShape, label_selector
from pumice.manifests.shapes import Count, Metadata, Shape
from pumice.v1 import storage_pb2


class DriverCountShape(Shape, frozen=True):
    """The volume limit of a driver."""

    count: Count | None = None


class NodeDriverShape(Shape, frozen=True):
    """A driver on a node."""

    name: str = ""
    allocatable: DriverCountShape = DriverCountShape()


class CsiNodeSpecShape(Shape, frozen=True):
    """The drivers on a node."""

    drivers: tuple[NodeDriverShape, ...] = ()


class CsiNodeShape(Shape, frozen=True):
    """A CSINode."""

    metadata: Metadata = Metadata()
    spec: CsiNodeSpecShape = CsiNodeSpecShape()


class CsiDriverSpecShape(Shape, frozen=True):
    """The specification of a CSIDriver."""

    storage_capacity: bool = False


class CsiDriverShape(Shape, frozen=True):
    """A CSIDriver."""

    metadata: Metadata = Metadata()
    spec: CsiDriverSpecShape = CsiDriverSpecShape()


class CsiStorageCapacityShape(Shape, frozen=True):
    """A CSIStorageCapacity."""

    metadata: Metadata = Metadata()
    storage_class_name: str = ""
    node_topology: LabelSelectorShape | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class AttachmentSourceShape(Shape, frozen=True):
    """The attached volume."""

    persistent_volume_name: str = ""


class AttachmentSpecShape(Shape, frozen=True):
    """The specification of a VolumeAttachment."""

    attacher: str = ""
    node_name: str = ""
    source: AttachmentSourceShape = AttachmentSourceShape()


class VolumeAttachmentShape(Shape, frozen=True):
    """A VolumeAttachment."""

    metadata: Metadata = Metadata()
    spec: AttachmentSpecShape = AttachmentSpecShape()


CSI_NODE_DECODER: Final = msgspec.json.Decoder(CsiNodeShape)
CSI_DRIVER_DECODER: Final = msgspec.json.Decoder(CsiDriverShape)
CSI_STORAGE_CAPACITY_DECODER: Final = msgspec.json.Decoder(CsiStorageCapacityShape)
VOLUME_ATTACHMENT_DECODER: Final = msgspec.json.Decoder(VolumeAttachmentShape)


def fill_csi_node(target: storage_pb2.CsiNode, shape: CsiNodeShape) -> None:
    target.name = shape.metadata.need_name()
    target.uid = shape.metadata.cluster_uid_of("CSINode")
    for driver in shape.spec.drivers:
        count = driver.allocatable.count
        target.driver_limits[driver.name] = -1 if count is None else count


def fill_csi_driver(target: storage_pb2.CsiDriver, shape: CsiDriverShape) -> None:
    target.name = shape.metadata.need_name()
    target.uid = shape.metadata.cluster_uid_of("CSIDriver")
    target.publishes_capacity = shape.spec.storage_capacity


def fill_csi_storage_capacity(
    target: storage_pb2.CsiStorageCapacity, shape: CsiStorageCapacityShape
) -> None:
    target.name = shape.metadata.need_name()
    target.namespace = shape.metadata.namespace_or_default
    target.uid = shape.metadata.uid_of("CSIStorageCapacity")
    target.storage_class_name = shape.storage_class_name
    if shape.node_topology is not None:
        target.node_selector.CopyFrom(label_selector(shape.node_topology, "nodeTopology"))
    if shape.capacity is not None:
        target.capacity_bytes = _bytes(shape.capacity, "capacity")
    if shape.maximum_volume_size is not None:
        target.maximum_volume_bytes = _bytes(shape.maximum_volume_size, "maximumVolumeSize")


def _bytes(quantity: Quantity, field: str) -> int:
    try:
        return value(quantity)
    except FieldError as error:
        raise error.under(field) from None


def fill_volume_attachment(
    target: storage_pb2.VolumeAttachment, shape: VolumeAttachmentShape
) -> None:
    target.name = shape.metadata.need_name()
    target.uid = shape.metadata.cluster_uid_of("VolumeAttachment")
    target.attacher = shape.spec.attacher
    target.node_name = shape.spec.node_name
    target.volume_name = shape.spec.source.persistent_volume_name
