"""Converts objects of every kind between protocol messages and the engine's values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from pumice.core.deltas import ClusterObject
from pumice.core.errors import ObjectError
from pumice.core.model import devices as resources
from pumice.core.model import group, node, pod, storage, topology
from pumice.server.wire import devices, groups, pods, policies
from pumice.server.wire import storage as volumes
from pumice.server.wire import topology as layouts
from pumice.server.wire.fields import FieldError, UnknownValueError
from pumice.server.wire.shapes import PodReader
from pumice.server.wire.specs import SpecTable
from pumice.server.wire.unknown_values import UnknownValue, replace_unknown_values
from pumice.v1 import object_pb2


class _Kind(NamedTuple):
    """How objects of one kind are read and written."""

    type: type[ClusterObject]
    read: Callable[[Any], ClusterObject]
    write: Callable[[Any], Any]
    # The name in messages for people.
    word: str


def _kind(
    of: type[ClusterObject], read: Callable[[Any], ClusterObject], write: Callable[[Any], Any]
) -> _Kind:
    return _Kind(of, read, write, of.__name__)


def _workload(word: str) -> _Kind:
    read = partial(policies.read_workload, word)
    return _Kind(group.Workload, read, policies.write_workload, word)


# By field of ClusterObject. Kinds that the engine does not hold are missing, and are ignored.
_KINDS = {
    "node": _kind(node.Node, pods.read_node, pods.write_node),
    "pod": _kind(pod.Pod, pods.read_pod, pods.write_pod),
    "pod_group": _kind(group.PodGroup, groups.read_pod_group, groups.write_pod_group),
    "queue": _kind(group.Queue, groups.read_queue, groups.write_queue),
    "priority_class": _kind(
        group.PriorityClass, policies.read_priority_class, policies.write_priority_class
    ),
    "resource_quota": _kind(
        group.ResourceQuota, policies.read_resource_quota, policies.write_resource_quota
    ),
    "namespace": _kind(group.Namespace, policies.read_namespace, policies.write_namespace),
    "pod_disruption_budget": _kind(
        group.PodDisruptionBudget, policies.read_budget, policies.write_budget
    ),
    "service": _workload("Service"),
    "replica_set": _workload("ReplicaSet"),
    "replication_controller": _workload("ReplicationController"),
    "stateful_set": _workload("StatefulSet"),
    "persistent_volume": _kind(storage.PersistentVolume, volumes.read_volume, volumes.write_volume),
    "persistent_volume_claim": _kind(
        storage.PersistentVolumeClaim, volumes.read_claim, volumes.write_claim
    ),
    "storage_class": _kind(
        storage.StorageClass, volumes.read_storage_class, volumes.write_storage_class
    ),
    "csi_node": _kind(storage.CsiNode, volumes.read_csi_node, volumes.write_csi_node),
    "csi_driver": _kind(storage.CsiDriver, volumes.read_csi_driver, volumes.write_csi_driver),
    "csi_storage_capacity": _kind(
        storage.CsiStorageCapacity, volumes.read_csi_capacity, volumes.write_csi_capacity
    ),
    "volume_attachment": _kind(
        storage.VolumeAttachment, volumes.read_attachment, volumes.write_attachment
    ),
    "hyper_node": _kind(topology.HyperNode, layouts.read_hyper_node, layouts.write_hyper_node),
    "numa_topology": _kind(
        topology.NumaTopology, layouts.read_numa_topology, layouts.write_numa_topology
    ),
    "resource_claim": _kind(
        resources.ResourceClaim, devices.read_resource_claim, devices.write_resource_claim
    ),
    "resource_slice": _kind(
        resources.ResourceSlice, devices.read_resource_slice, devices.write_resource_slice
    ),
    "device_class": _kind(
        resources.DeviceClass, devices.read_device_class, devices.write_device_class
    ),
    "node_shard": _kind(topology.NodeShard, layouts.read_node_shard, layouts.write_node_shard),
}
# Numbers of kinds, which are the numbers of the fields.
_NUMBERS = {field.name: field.number for field in object_pb2.ClusterObject.DESCRIPTOR.fields}
_TYPES = {_NUMBERS[field]: kind.type for field, kind in _KINDS.items()}
# The kinds that the engine holds. Objects of other kinds are ignored.
READ_KINDS = frozenset(_TYPES)
_FIELDS_BY_WORD = {kind.word: field for field, kind in _KINDS.items()}


def kind_type(kind: int) -> type[ClusterObject] | None:
    """The engine's class for a kind; None: the engine does not hold the kind."""
    return _TYPES.get(kind)


def kind_number(word: str) -> object_pb2.Kind.ValueType:
    """The kind with this name; KIND_UNSPECIFIED: no such kind."""
    return object_pb2.Kind.ValueType(_NUMBERS.get(_FIELDS_BY_WORD.get(word, ""), 0))


def kind_word(kind: int) -> str:
    """The name of a kind in messages for people."""
    field = object_pb2.ClusterObject.DESCRIPTOR.fields_by_number.get(kind)
    known = _KINDS.get(field.name) if field else None
    return known.word if known else f"kind {kind}"


def key_of(message: Any) -> str:
    """``namespace/name``, or the name; the uid or a question mark replaces a missing name."""
    namespace = getattr(message, "namespace", "")
    name = message.name or message.uid or "?"
    return f"{namespace}/{name}" if namespace else str(name)


class ObjectReader:
    """Reads objects; caches the shapes and specs of pods."""

    def __init__(self, specs: SpecTable | None = None) -> None:
        reader = PodReader(specs)
        self._read_pod = reader.read
        # The pods of a batch, in bulk.
        self.read_pods = reader.read_batch

    def read(
        self, message: object_pb2.ClusterObject, unknown: list[UnknownValue] | None = None
    ) -> ClusterObject | None:
        """Reads an object; None: the engine does not hold the kind. Raises ObjectError.

        Unknown enum values are replaced and added to ``unknown``; without it, they are errors.
        """
        field = message.WhichOneof("object")
        kind = _KINDS.get(field) if field else None
        if field is None or kind is None:
            return None
        held = getattr(message, field)
        read = self._read_pod if field == "pod" else kind.read
        try:
            try:
                return read(held)
            except UnknownValueError:
                if unknown is None:
                    raise
                known = type(held)()
                known.CopyFrom(held)
                unknown += replace_unknown_values(known)
                return read(known)
        except FieldError as error:
            raise ObjectError(kind.word, key_of(held), error.field, error.problem) from error


def write_object(value: ClusterObject) -> object_pb2.ClusterObject:
    word = value.kind if isinstance(value, group.Workload) else type(value).__name__
    field = _FIELDS_BY_WORD[word]
    fields: dict[str, Any] = {field: _KINDS[field].write(value)}
    return object_pb2.ClusterObject(**fields)
