"""Converts volumes and storage objects between protocol messages and the engine's values."""

from __future__ import annotations

from collections.abc import Iterable

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
from pumice.server.wire.fields import (
    amount,
    at_least,
    check_named,
    check_namespaced,
    enum_value,
    plain_dict,
)
from pumice.server.wire.selectors import (
    read_node_terms,
    read_selector,
    write_node_selector,
    write_node_term,
    write_selector,
)
from pumice.v1 import storage_pb2

# Protocol and engine use the same numbers, which a test checks.
_PHASES = {int(phase): phase for phase in VolumePhase}


_MODES = {
    storage_pb2.ACCESS_MODE_UNSPECIFIED: "",
    storage_pb2.ACCESS_MODE_READ_WRITE_ONCE: "ReadWriteOnce",
    storage_pb2.ACCESS_MODE_READ_ONLY_MANY: "ReadOnlyMany",
    storage_pb2.ACCESS_MODE_READ_WRITE_MANY: "ReadWriteMany",
    storage_pb2.ACCESS_MODE_READ_WRITE_ONCE_POD: "ReadWriteOncePod",
}
_MODE_NUMBERS = {word: number for number, word in _MODES.items()}


def _read_modes(numbers: Iterable[storage_pb2.AccessMode.ValueType]) -> tuple[str, ...]:
    return tuple(enum_value(f"access_modes[{i}]", n, _MODES) for i, n in enumerate(numbers))


def _phase(phase: VolumePhase) -> storage_pb2.VolumePhase.ValueType:
    return storage_pb2.VolumePhase.ValueType(phase)


def read_volume(message: storage_pb2.PersistentVolume) -> PersistentVolume:
    check_named(message.uid, message.name)
    return PersistentVolume(
        uid=message.uid,
        name=message.name,
        labels=plain_dict(message.labels),
        phase=enum_value("phase", message.phase, _PHASES),
        storage_class_name=message.storage_class_name,
        attributes_class_name=message.attributes_class_name,
        capacity_bytes=amount("capacity_bytes", message.capacity_bytes),
        # An unknown mode of a claim must not match an unknown mode of a volume.
        access_modes=tuple(mode for mode in _read_modes(message.access_modes) if mode),
        block_mode=message.block_mode,
        node_terms=read_node_terms("node_terms", message.node_terms.terms)
        if message.HasField("node_terms")
        else None,
        csi_driver=message.csi_driver,
        csi_handle=message.csi_handle,
        claim_key=message.claim_key,
        claim_uid=message.claim_uid,
        terminating=message.terminating,
    )


def write_volume(volume: PersistentVolume) -> storage_pb2.PersistentVolume:
    return storage_pb2.PersistentVolume(
        uid=volume.uid,
        name=volume.name,
        labels=volume.labels,
        phase=_phase(volume.phase),
        storage_class_name=volume.storage_class_name,
        attributes_class_name=volume.attributes_class_name,
        capacity_bytes=volume.capacity_bytes,
        access_modes=map(_MODE_NUMBERS.__getitem__, volume.access_modes),
        block_mode=volume.block_mode,
        node_terms=write_node_selector(volume.node_terms),
        csi_driver=volume.csi_driver,
        csi_handle=volume.csi_handle,
        claim_key=volume.claim_key,
        claim_uid=volume.claim_uid,
        terminating=volume.terminating,
    )


def read_claim(message: storage_pb2.PersistentVolumeClaim) -> PersistentVolumeClaim:
    check_namespaced(message.uid, message.namespace, message.name)
    has = message.HasField
    return PersistentVolumeClaim(
        uid=message.uid,
        namespace=message.namespace,
        name=message.name,
        phase=enum_value("phase", message.phase, _PHASES),
        volume_name=message.volume_name,
        storage_class_name=message.storage_class_name if has("storage_class_name") else None,
        attributes_class_name=message.attributes_class_name,
        request_bytes=amount("request_bytes", message.request_bytes),
        access_modes=_read_modes(message.access_modes),
        block_mode=message.block_mode,
        selector=read_selector("selector", message.selector) if has("selector") else None,
        bind_completed=message.bind_completed,
        selected_node=message.selected_node,
        owner_uid=message.owner_uid,
        terminating=message.terminating,
    )


def write_claim(claim: PersistentVolumeClaim) -> storage_pb2.PersistentVolumeClaim:
    return storage_pb2.PersistentVolumeClaim(
        uid=claim.uid,
        namespace=claim.namespace,
        name=claim.name,
        phase=_phase(claim.phase),
        volume_name=claim.volume_name,
        storage_class_name=claim.storage_class_name,
        attributes_class_name=claim.attributes_class_name,
        request_bytes=claim.request_bytes,
        access_modes=map(_MODE_NUMBERS.__getitem__, claim.access_modes),
        block_mode=claim.block_mode,
        selector=write_selector(claim.selector),
        bind_completed=claim.bind_completed,
        selected_node=claim.selected_node,
        owner_uid=claim.owner_uid,
        terminating=claim.terminating,
    )


def read_storage_class(message: storage_pb2.StorageClass) -> StorageClass:
    check_named(message.uid, message.name)
    return StorageClass(
        message.uid,
        message.name,
        message.provisioner,
        message.wait_for_first_consumer,
        read_node_terms("allowed_topologies", message.allowed_topologies),
        message.csi_driver_name,
    )


def write_storage_class(storage: StorageClass) -> storage_pb2.StorageClass:
    return storage_pb2.StorageClass(
        uid=storage.uid,
        name=storage.name,
        provisioner=storage.provisioner,
        wait_for_first_consumer=storage.wait_for_first_consumer,
        allowed_topologies=map(write_node_term, storage.allowed_topologies),
        csi_driver_name=storage.csi_driver_name,
    )


def read_csi_node(message: storage_pb2.CsiNode) -> CsiNode:
    check_named(message.uid, message.name)
    limits = tuple(
        (driver, at_least(f"driver_limits[{driver}]", limit, -1))
        for driver, limit in sorted(message.driver_limits.items())
    )
    return CsiNode(message.uid, message.name, limits)


def write_csi_node(node: CsiNode) -> storage_pb2.CsiNode:
    return storage_pb2.CsiNode(uid=node.uid, name=node.name, driver_limits=dict(node.driver_limits))


def read_csi_driver(message: storage_pb2.CsiDriver) -> CsiDriver:
    check_named(message.uid, message.name)
    return CsiDriver(message.uid, message.name, message.publishes_capacity)


def write_csi_driver(driver: CsiDriver) -> storage_pb2.CsiDriver:
    return storage_pb2.CsiDriver(
        uid=driver.uid, name=driver.name, publishes_capacity=driver.publishes_capacity
    )


def read_csi_capacity(message: storage_pb2.CsiStorageCapacity) -> CsiStorageCapacity:
    check_namespaced(message.uid, message.namespace, message.name)
    has = message.HasField
    return CsiStorageCapacity(
        uid=message.uid,
        namespace=message.namespace,
        name=message.name,
        storage_class_name=message.storage_class_name,
        node_selector=read_selector("node_selector", message.node_selector)
        if has("node_selector")
        else None,
        capacity_bytes=at_least("capacity_bytes", message.capacity_bytes, -1)
        if has("capacity_bytes")
        else -1,
        maximum_volume_bytes=at_least("maximum_volume_bytes", message.maximum_volume_bytes, -1)
        if has("maximum_volume_bytes")
        else -1,
    )


def write_csi_capacity(capacity: CsiStorageCapacity) -> storage_pb2.CsiStorageCapacity:
    return storage_pb2.CsiStorageCapacity(
        uid=capacity.uid,
        namespace=capacity.namespace,
        name=capacity.name,
        storage_class_name=capacity.storage_class_name,
        node_selector=write_selector(capacity.node_selector),
        capacity_bytes=None if capacity.capacity_bytes < 0 else capacity.capacity_bytes,
        maximum_volume_bytes=None
        if capacity.maximum_volume_bytes < 0
        else capacity.maximum_volume_bytes,
    )


def read_attachment(message: storage_pb2.VolumeAttachment) -> VolumeAttachment:
    check_named(message.uid, message.name)
    return VolumeAttachment(
        message.uid, message.name, message.attacher, message.node_name, message.volume_name
    )


def write_attachment(attachment: VolumeAttachment) -> storage_pb2.VolumeAttachment:
    return storage_pb2.VolumeAttachment(
        uid=attachment.uid,
        name=attachment.name,
        attacher=attachment.attacher,
        node_name=attachment.node_name,
        volume_name=attachment.volume_name,
    )
