"""What pods have in common, read once: most fields of a gang's pods are the same.

A pod is told apart by a handful of fields: its uid, its name, its node and its times. All others
together are its *shape*. The bytes of a batch are parsed a second time by a message that knows only
the fields of shapes; what it writes again is the key under which a shape is found, and no field of
it has to be read with Python but the first time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from sys import intern
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from pumice.core.model.pod import Pod, PodCondition, PodPhase, PodSpec
from pumice.server.wire.fields import FieldError
from pumice.server.wire.pods import read_pod
from pumice.server.wire.specs import SpecTable
from pumice.v1 import delta_pb2, object_pb2, pod_pb2

_Field = descriptor_pb2.FieldDescriptorProto
# What is not of the shape; of conditions it is the time.
_OWN = frozenset(("uid", "name", "creation_time_ns", "node_name", "start_time_ns"))
_OWN_OF_CONDITIONS = frozenset(("transition_time_ns",))
# Texts, maps and messages are taken as the bytes they are.
_TAKEN_AS = {
    _Field.TYPE_STRING: _Field.TYPE_BYTES,
    _Field.TYPE_MESSAGE: _Field.TYPE_BYTES,
    _Field.TYPE_ENUM: _Field.TYPE_INT32,
    _Field.TYPE_INT32: _Field.TYPE_INT32,
    _Field.TYPE_INT64: _Field.TYPE_INT64,
    _Field.TYPE_BOOL: _Field.TYPE_BOOL,
}


def _without(source: Any, name: str, own: frozenset[str]) -> descriptor_pb2.DescriptorProto:
    """A message like the source but for some fields; what it does not know it can discard."""
    made = descriptor_pb2.DescriptorProto(name=name)
    for field in source.DESCRIPTOR.fields:
        if field.name in own:
            continue
        copied = made.field.add(name=field.name, number=field.number)
        copied.label = _Field.LABEL_REPEATED if field.is_repeated else _Field.LABEL_OPTIONAL
        if field.name == "conditions":
            copied.type, copied.type_name = _Field.TYPE_MESSAGE, ".shapes.Condition"
        else:
            copied.type = _TAKEN_AS[field.type]
    return made


def _around(name: str, field: str, number: int, inner: str) -> descriptor_pb2.DescriptorProto:
    made = descriptor_pb2.DescriptorProto(name=name)
    label = _Field.LABEL_REPEATED if field == "ops" else _Field.LABEL_OPTIONAL
    made.field.add(
        name=field,
        number=number,
        label=label,
        type=_Field.TYPE_MESSAGE,
        type_name=f".shapes.{inner}",
    )
    return made


def _number(message: Any, field: str) -> int:
    number: int = message.DESCRIPTOR.fields_by_name[field].number
    return number


def _make_batch_type() -> Any:
    # Fields of proto2 know whether they were set: preemptable is true when it was not.
    file = descriptor_pb2.FileDescriptorProto(name="shapes.proto", package="shapes")
    file.message_type.extend(
        (
            _without(pod_pb2.PodCondition, "Condition", _OWN_OF_CONDITIONS),
            _without(pod_pb2.Pod, "Pod", _OWN),
            _around("Object", "pod", _number(object_pb2.ClusterObject, "pod"), "Pod"),
            _around("Upsert", "object", _number(delta_pb2.Upsert, "object"), "Object"),
            _around("Op", "upsert", _number(delta_pb2.Op, "upsert"), "Upsert"),
            _around("Batch", "ops", _number(delta_pb2.DeltaBatch, "ops"), "Op"),
        )
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shapes.Batch"))


_Batch = _make_batch_type()
# Keys that are no longer belong to ops without a pod, or to a pod that is empty.
NO_POD = 6


def shapes_of(batch: delta_pb2.DeltaBatch) -> Sequence[Any]:
    """A message for each op; written, it is the key of the shape of the op's pod."""
    shapes = _Batch.FromString(batch.SerializeToString())
    shapes.DiscardUnknownFields()
    ops: Sequence[Any] = shapes.ops
    return ops


_Texts = Mapping[str, str]
# Fields of a pod as they follow each other: the namespace and the spec; those between creation and
# node; the nominated node and the conditions; those after the time it was started; whose it is.
_BeforeNode = tuple[_Texts, _Texts, PodPhase, bool]
_AfterTimes = tuple[str, str, int, int, bool, str]
_Controller = tuple[str, str, str]
_Shape = tuple[str, PodSpec, _BeforeNode, str, tuple[PodCondition, ...], _AfterTimes, _Controller]


class PodReader:
    """Reads pods; remembers the shapes and the specs it has seen."""

    # A shape above this is rare and not worth keeping the bytes of.
    LARGEST_KEY_BYTES = 1 << 16

    def __init__(self, specs: SpecTable | None = None, limit: int = 20_000) -> None:
        self._read_spec = (SpecTable() if specs is None else specs).read
        self._limit = limit
        self._shapes: dict[bytes, _Shape] = {}

    def __len__(self) -> int:
        return len(self._shapes)

    def read(self, message: pod_pb2.Pod) -> Pod:
        return read_pod(message, self._read_spec)

    def read_shaped(self, message: pod_pb2.Pod, key: bytes) -> Pod | None:
        """The pod of a message whose shape has that key; None for one that cannot be read."""
        shape = self._shapes.get(key)
        if shape is None:
            try:
                pod = read_pod(message, self._read_spec)
            except FieldError:
                return None
            if len(key) <= self.LARGEST_KEY_BYTES:
                self._remember(key, pod)
            return pod
        namespace, spec, before_node, nominated, conditions, after_times, controller = shape
        group, role, priority, task_priority, preemptable, zone = after_times
        uid, name = message.uid, message.name
        if not uid or not name:
            return None
        if conditions:
            conditions = _conditions_at(conditions, message.conditions)
        return Pod(
            uid,
            namespace,
            name,
            spec,
            message.creation_time_ns,
            *before_node,
            intern(message.node_name),
            nominated,
            conditions,
            message.start_time_ns,
            group,
            role,
            priority,
            task_priority,
            preemptable,
            zone,
            *controller,
        )

    def _remember(self, key: bytes, pod: Pod) -> None:
        if len(self._shapes) >= self._limit:
            # Whoever holds labels keeps them; only later pods no longer share them.
            self._shapes.clear()
        self._shapes[key] = (
            pod.namespace,
            pod.spec,
            (pod.labels, pod.annotations, pod.phase, pod.terminating),
            pod.nominated_node_name,
            pod.conditions,
            (
                pod.group_name,
                pod.role,
                pod.priority,
                pod.task_priority,
                pod.preemptable,
                pod.revocable_zone,
            ),
            (pod.controller_uid, pod.controller_kind, pod.controller_name),
        )


def _conditions_at(
    known: tuple[PodCondition, ...], messages: Sequence[pod_pb2.PodCondition]
) -> tuple[PodCondition, ...]:
    """The same conditions at the times of the messages."""
    return tuple(
        c
        if c.transition_time_ns == m.transition_time_ns
        else PodCondition(c.type, c.status, c.reason, c.message, m.transition_time_ns)
        for c, m in zip(known, messages, strict=True)
    )
