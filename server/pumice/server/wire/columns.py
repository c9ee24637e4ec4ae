"""Reads the pods of a batch by columns: all uids, all names and so on, each in one call.

The bytes of a message can be parsed as another message type whose fields have the same numbers. If
a batch is parsed as having *one* op with *one* pod, protobuf merges all its pods into that pod, and
fields that are declared as repeated contain the values of all pods, in order. A pod without a value
leaves no gap, so a column is used only if it is as long as the list of pods.

The other fields of a pod are its *shape* (see shapes.py). The bytes are parsed once more as a type
that has only these fields. Its serialization is the key of the shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.timestamp_pb2 import Timestamp

from pumice.server.wire.times import SECONDS_LIMIT
from pumice.v1 import delta_pb2, object_pb2, pod_pb2

T = TypeVar("T")
_SECOND_NS = 1_000_000_000
_Message = descriptor_pb2.DescriptorProto
_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "partial"
# Strings, maps and messages are parsed as bytes.
_PARSED_AS = {
    _Field.TYPE_STRING: _Field.TYPE_BYTES,
    _Field.TYPE_MESSAGE: _Field.TYPE_BYTES,
    _Field.TYPE_ENUM: _Field.TYPE_INT32,
    _Field.TYPE_INT32: _Field.TYPE_INT32,
    _Field.TYPE_INT64: _Field.TYPE_INT64,
    _Field.TYPE_BOOL: _Field.TYPE_BOOL,
}
# _Fields to omit; for a nested message, a mapping with the fields to omit in it.
_Fields = Mapping[str, "_Fields | None"]
# _Fields that are not part of the shape.
_OWN_CONDITION_FIELDS = ("transition_time",)
_OWN_FIELDS = ("uid", "name", "creation_time", "node_name", "start_time")
_OMITTED: _Fields = {
    **dict.fromkeys(_OWN_FIELDS),
    "conditions": dict.fromkeys(_OWN_CONDITION_FIELDS),
}
# Keys up to this length belong to ops without a pod, or with an empty pod.
_NO_POD = 6


class _TypeBuilder:
    """Builds message types with some fields of other types. All are added before the first is used.

    A message of such a type holds the other fields as unknown fields until they are discarded.
    """

    def __init__(self) -> None:
        # The file is proto2, whose fields have presence: an absent preemptable means true.
        self._file = descriptor_pb2.FileDescriptorProto(name="partial.proto", package=_PACKAGE)

    def add(self, name: str) -> _Message:
        return self._file.message_type.add(name=name)

    def add_without(self, name: str, source: Any, omitted: _Fields) -> None:
        """Adds a type like the source, without some fields."""
        made = self.add(name)
        for field in source.fields:
            inner = omitted.get(field.name)
            kind: int | str = _PARSED_AS[field.type]
            if inner is not None:
                kind = f"{name}_{field.name}"
                self.add_without(kind, field.message_type, inner)
            elif field.name in omitted:
                continue
            _copy_field(made, source, field.name, kind, repeated=field.is_repeated)

    def classes(self, *names: str) -> list[Any]:
        """The classes of these types."""
        pool = descriptor_pool.DescriptorPool()
        pool.Add(self._file)
        found = [pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in names]
        return [message_factory.GetMessageClass(type_) for type_ in found]


def _copy_field(
    into: _Message, source: Any, name: str, kind: int | str, *, repeated: bool = False
) -> None:
    """Adds a field with its name and number in the source. A string kind is a message type."""
    field = into.field.add(name=name, number=source.fields_by_name[name].number)
    field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    if isinstance(kind, str):
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    else:
        field.type = _Field.Type.ValueType(kind)


def _add_columns(types: _TypeBuilder, name: str, source: Any, own: Sequence[str]) -> Any:
    """Adds a type that has only these fields, each repeated."""
    made = types.add(name)
    for field in own:
        described = source.fields_by_name[field]
        if described.message_type is Timestamp.DESCRIPTOR:
            _copy_field(made, source, field, "Times")
        else:
            _copy_field(made, source, field, described.type, repeated=True)
    return made


def _add_enclosing(types: _TypeBuilder, suffix: str, *, many: bool) -> Any:
    """Adds the types that enclose a pod, up to the batch; returns the type of the upsert."""
    parts = (
        ("Object", object_pb2.ClusterObject, "pod", "Pod"),
        ("Upsert", delta_pb2.Upsert, "object", "Object"),
        ("Op", delta_pb2.Op, "upsert", "Upsert"),
        ("Batch", delta_pb2.DeltaBatch, "ops", "Op"),
    )
    made = {}
    for name, source, field, inner in parts:
        made[name] = types.add(name + suffix)
        repeated = many and field == "ops"
        _copy_field(made[name], source.DESCRIPTOR, field, inner + suffix, repeated=repeated)
    return made["Upsert"]


def _make_types() -> tuple[Any, Any, Any]:
    types, pod = _TypeBuilder(), pod_pb2.Pod.DESCRIPTOR
    types.add_without("PodShape", pod, _OMITTED)
    _add_enclosing(types, "Shape", many=True)
    _add_columns(types, "Times", Timestamp.DESCRIPTOR, ("seconds", "nanos"))
    condition = pod_pb2.PodCondition.DESCRIPTOR
    _add_columns(types, "ConditionColumns", condition, _OWN_CONDITION_FIELDS)
    columns = _add_columns(types, "PodColumns", pod, _OWN_FIELDS)
    _copy_field(columns, pod, "conditions", "ConditionColumns")
    upsert, described = _add_enclosing(types, "Columns", many=False), delta_pb2.Upsert.DESCRIPTOR
    _copy_field(upsert, described, "kind", FieldDescriptorProto.TYPE_INT32, repeated=True)
    _copy_field(upsert, described, "uid", FieldDescriptorProto.TYPE_STRING, repeated=True)
    _copy_field(upsert, described, "revision", FieldDescriptorProto.TYPE_INT64, repeated=True)
    keys, octets = types.add("Keys"), FieldDescriptorProto.TYPE_BYTES
    _copy_field(keys, delta_pb2.DeltaBatch.DESCRIPTOR, "ops", octets, repeated=True)
    shapes, listed, merged = types.classes("BatchShape", "Keys", "BatchColumns")
    return shapes, listed, merged


# Bound once, because the lookup takes as long as parsing a small message.
_read_shapes, _read_keys, _read_columns = (made.FromString for made in _make_types())


class PodColumns:
    """Columns of the pods of a batch, in the order of its ops."""

    __slots__ = (
        "condition_times_ns",
        "creation_times_ns",
        "is_valid",
        "keys",
        "names",
        "node_names",
        "places",
        "revisions",
        "start_times_ns",
        "uids",
    )

    def __init__(self, batch: delta_pb2.DeltaBatch) -> None:
        # Serialized again, so that no field occurs twice. Received bytes may repeat fields.
        data = batch.SerializeToString()
        keys = _keys(data)
        # The positions of ops with pods.
        self.places = [place for place, key in enumerate(keys) if len(key) > _NO_POD]
        self.keys = [keys[place] for place in self.places]
        upserts = _read_columns(data).ops.upsert
        pods = upserts.object.pod
        self.uids: list[str] = pods.uid[:]
        self.names: list[str] = pods.name[:]
        self.node_names = self._texts(pods.node_name, batch)
        self.creation_times_ns = self._times(pods.creation_time, batch, "creation_time")
        self.start_times_ns = self._times(pods.start_time, batch, "start_time")
        rows = _Rows(keys, self.places)
        self.revisions = rows.of_pods(upserts.revision) or [
            batch.ops[place].upsert.revision for place in self.places
        ]
        # The times of all conditions of all pods; None: they must be read one by one.
        self.condition_times_ns = _nanoseconds(pods.conditions.transition_time)
        # Whether every upsert has the uid of its pod and every time is in range. Otherwise the
        # columns must not be used.
        self.is_valid = (
            len(self.uids) == len(self.names) == len(self.places)
            and rows.of_pods(upserts.uid) == self.uids
            and rows.of_pods(upserts.kind) == [object_pb2.KIND_POD] * len(self.places)
            and all(
                _are_valid(times)
                for times in (pods.creation_time, pods.start_time, pods.conditions.transition_time)
            )
        )

    def _texts(self, column: Sequence[str], batch: delta_pb2.DeltaBatch) -> Sequence[str]:
        """The column. If values are missing, all are read one by one."""
        if len(column) == len(self.places):
            return column[:]
        if not column:
            return [""] * len(self.places)
        return [batch.ops[place].upsert.object.pod.node_name for place in self.places]

    def _times(self, column: Any, batch: delta_pb2.DeltaBatch, field: str) -> Sequence[int]:
        """The column in nanoseconds. If values are missing, all are read one by one."""
        times = _nanoseconds(column)
        if times is not None and len(times) == len(self.places):
            return times
        if not (column.seconds or column.nanos):
            return [0] * len(self.places)
        held = (getattr(batch.ops[place].upsert.object.pod, field) for place in self.places)
        return [time.seconds * _SECOND_NS + time.nanos for time in held]


def _nanoseconds(column: Any) -> list[int] | None:
    """None: only some values have nanoseconds, so seconds and nanoseconds cannot be paired."""
    seconds, nanos = column.seconds, column.nanos
    if not nanos:
        return [second * _SECOND_NS for second in seconds]
    if len(seconds) != len(nanos):
        return None
    return [s * _SECOND_NS + n for s, n in zip(seconds, nanos, strict=True)]


def _are_valid(column: Any) -> bool:
    seconds, nanos = column.seconds, column.nanos
    return (not seconds or (min(seconds) >= -SECONDS_LIMIT and max(seconds) <= SECONDS_LIMIT)) and (
        not nanos or (min(nanos) >= 0 and max(nanos) < _SECOND_NS)
    )


def _keys(data: bytes) -> list[bytes]:
    """The key of the pod's shape for each op; empty: not an upsert."""
    shapes = _read_shapes(data)
    shapes.DiscardUnknownFields()
    keys: list[bytes] = _read_keys(shapes.SerializeToString()).ops[:]
    return keys


class _Rows:
    """Finds the rows of pods in the columns of upserts, which also have rows of other objects."""

    def __init__(self, keys: list[bytes], places: list[int]) -> None:
        upserts = [place for place, key in enumerate(keys) if key]
        self._count = len(upserts)
        self._rows: list[int] | None = None
        if len(places) != len(upserts):
            row_of = {place: row for row, place in enumerate(upserts)}
            self._rows = [row_of[place] for place in places]

    def of_pods(self, column: Sequence[T]) -> list[T] | None:
        """The values of pods; None: the column lacks values of some upserts."""
        if len(column) != self._count:
            return None
        return [*column] if self._rows is None else [column[row] for row in self._rows]
