"""Converts volumes and storage objects between protocol messages and the engine's values."""

from __future__ import annotations

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
from pumice.server.wire.conversion import (
    AMOUNT,
    TEXT_MAP,
    Conversion,
    Field,
    bounded,
    by_name,
    choice,
    optional,
    repeated,
)
from pumice.server.wire.selectors import NODE_TERM, SELECTOR, read_node_terms, write_node_selector
from pumice.v1 import storage_pb2

# Protocol and engine use the same numbers, which a test checks.
_PHASE = choice({int(phase): phase for phase in VolumePhase})
_MODES = repeated(
    choice(
        {
            storage_pb2.ACCESS_MODE_UNSPECIFIED: "",
            storage_pb2.ACCESS_MODE_READ_WRITE_ONCE: "ReadWriteOnce",
            storage_pb2.ACCESS_MODE_READ_ONLY_MANY: "ReadOnlyMany",
            storage_pb2.ACCESS_MODE_READ_WRITE_MANY: "ReadWriteMany",
            storage_pb2.ACCESS_MODE_READ_WRITE_ONCE_POD: "ReadWriteOncePod",
        }
    )
)
_LIMIT = bounded(-1)
_PUBLISHED = optional(Field(_LIMIT.read, lambda amount: None if amount < 0 else amount), absent=-1)

PERSISTENT_VOLUME = Conversion(
    PersistentVolume,
    storage_pb2.PersistentVolume,
    labels=TEXT_MAP,
    phase=_PHASE,
    capacity_bytes=AMOUNT,
    # An unknown mode of a claim must not match an unknown mode of a volume.
    access_modes=Field(
        lambda path, numbers: tuple(filter(None, _MODES.read(path, numbers))), _MODES.write
    ),
    node_terms=optional(
        Field(lambda path, message: read_node_terms(path, message.terms), write_node_selector)
    ),
)
PERSISTENT_VOLUME_CLAIM = Conversion(
    PersistentVolumeClaim,
    storage_pb2.PersistentVolumeClaim,
    phase=_PHASE,
    storage_class_name=optional(),
    request_bytes=AMOUNT,
    access_modes=_MODES,
    selector=optional(SELECTOR),
)
STORAGE_CLASS = Conversion(
    StorageClass, storage_pb2.StorageClass, allowed_topologies=repeated(NODE_TERM)
)
CSI_NODE = Conversion(
    CsiNode,
    storage_pb2.CsiNode,
    driver_limits=Field(
        lambda path, limits: tuple(by_name(_LIMIT).read(path, limits).items()), dict
    ),
)
CSI_DRIVER = Conversion(CsiDriver, storage_pb2.CsiDriver)
CSI_STORAGE_CAPACITY = Conversion(
    CsiStorageCapacity,
    storage_pb2.CsiStorageCapacity,
    node_selector=optional(SELECTOR),
    capacity_bytes=_PUBLISHED,
    maximum_volume_bytes=_PUBLISHED,
)
VOLUME_ATTACHMENT = Conversion(VolumeAttachment, storage_pb2.VolumeAttachment)
