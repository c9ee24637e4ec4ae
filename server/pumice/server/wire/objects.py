"""Converts objects of every kind between protocol messages and the engine's values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from pumice.core.deltas import ClusterObject
from pumice.core.errors import ObjectError
from pumice.core.model import group, node, pod
from pumice.core.model.topology import NumaTopology
from pumice.server.wire import devices, groups, pods, policies, storage, topology
from pumice.server.wire.conversion import Conversion
from pumice.server.wire.fields import FieldError, UnknownValueError, check_identity
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


def _declared(conversion: Conversion[Any]) -> _Kind:
    type_ = conversion.value
    return _Kind(type_, partial(conversion.read, ""), conversion.write, type_.__name__)


def _workload(word: str) -> _Kind:
    read = partial(policies.read_workload, word)
    return _Kind(group.Workload, read, policies.write_workload, word)


# By field of ClusterObject. Kinds that the engine does not hold are missing, and are ignored.
_KINDS = {
    "node": _Kind(node.Node, pods.read_node, pods.write_node, "Node"),
    "pod": _Kind(pod.Pod, pods.read_pod, pods.write_pod, "Pod"),
    "pod_group": _Kind(group.PodGroup, groups.read_pod_group, groups.write_pod_group, "PodGroup"),
    "queue": _declared(groups.QUEUE),
    "priority_class": _declared(policies.PRIORITY_CLASS),
    "resource_quota": _declared(policies.RESOURCE_QUOTA),
    "namespace": _declared(policies.NAMESPACE),
    "pod_disruption_budget": _declared(policies.DISRUPTION_BUDGET),
    "service": _workload("Service"),
    "replica_set": _workload("ReplicaSet"),
    "replication_controller": _workload("ReplicationController"),
    "stateful_set": _workload("StatefulSet"),
    "persistent_volume": _declared(storage.PERSISTENT_VOLUME),
    "persistent_volume_claim": _declared(storage.PERSISTENT_VOLUME_CLAIM),
    "storage_class": _declared(storage.STORAGE_CLASS),
    "csi_node": _declared(storage.CSI_NODE),
    "csi_driver": _declared(storage.CSI_DRIVER),
    "csi_storage_capacity": _declared(storage.CSI_STORAGE_CAPACITY),
    "volume_attachment": _declared(storage.VOLUME_ATTACHMENT),
    "hyper_node": _declared(topology.HYPER_NODE),
    "numa_topology": _Kind(
        NumaTopology,
        topology.read_numa_topology,
        topology.write_numa_topology,
        "NumaTopology",
    ),
    "resource_claim": _declared(devices.RESOURCE_CLAIM),
    "resource_slice": _declared(devices.RESOURCE_SLICE),
    "device_class": _declared(devices.DEVICE_CLASS),
    "node_shard": _declared(topology.NODE_SHARD),
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
                if field != "pod":
                    # The reader of pods checks the identity of each pod.
                    check_identity(held)
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
