"""The pods of a batch by columns: all uids, all names, all nodes, each in one call.

Bytes of one message can be read as another one whose fields have the same numbers. Where a batch is
read as having *one* op with *one* pod, all its pods are merged into that one, and fields that are
then declared as repeated hold what all of them say, in order. A pod that leaves a field out leaves
a gap that cannot be seen; so a column counts only when it is as long as there are pods.

The other fields of a pod are its *shape*, which it shares with most pods of its gang. The bytes are
read once more by a message that knows only these; what it writes is the key of the shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from pumice.server.wire.partial import Fields, Types, copy_field
from pumice.v1 import delta_pb2, object_pb2, pod_pb2

T = TypeVar("T", str, int)
# What is not of the shape; of conditions it is the time.
_OWN_OF_CONDITIONS = ("transition_time_ns",)
_OWN = ("uid", "name", "creation_time_ns", "node_name", "start_time_ns")
_LEFT_OUT: Fields = {**dict.fromkeys(_OWN), "conditions": dict.fromkeys(_OWN_OF_CONDITIONS)}
# Keys of this length or shorter belong to ops without a pod, or to a pod that is empty.
_NO_POD = 6


def _add_columns(types: Types, name: str, source: Any, own: Sequence[str]) -> Any:
    """A message of nothing but its own fields, each of which may be there many times."""
    made = types.add(name)
    for field in own:
        kind = source.fields_by_name[field].type
        copy_field(made, source, field, kind, repeated=True)
    return made


def _add_around(types: Types, suffix: str, *, many: bool) -> Any:
    """All that is around a pod, down to a batch of one or many ops; returns what is an upsert."""
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
        copy_field(made[name], source.DESCRIPTOR, field, inner + suffix, repeated=repeated)
    return made["Upsert"]


def _make_types() -> tuple[Any, Any, Any]:
    types, pod = Types(), pod_pb2.Pod.DESCRIPTOR
    types.without("PodShape", pod, _LEFT_OUT)
    _add_around(types, "Shape", many=True)
    condition = pod_pb2.PodCondition.DESCRIPTOR
    _add_columns(types, "ConditionColumns", condition, _OWN_OF_CONDITIONS)
    columns = _add_columns(types, "PodColumns", pod, _OWN)
    copy_field(columns, pod, "conditions", "ConditionColumns")
    upsert, integer = _add_around(types, "Columns", many=False), FieldDescriptorProto.TYPE_INT64
    copy_field(upsert, delta_pb2.Upsert.DESCRIPTOR, "revision", integer, repeated=True)
    keys, octets = types.add("Keys"), FieldDescriptorProto.TYPE_BYTES
    copy_field(keys, delta_pb2.DeltaBatch.DESCRIPTOR, "ops", octets, repeated=True)
    shapes, listed, merged = types.made("BatchShape", "Keys", "BatchColumns")
    return shapes, listed, merged


# Asking a class for its method takes as long as reading a small message with it.
_read_shapes, _read_keys, _read_columns = (made.FromString for made in _make_types())


class PodColumns:
    """What is said about the pods of a batch, in the order of its ops."""

    __slots__ = (
        "condition_times_ns",
        "creation_times_ns",
        "keys",
        "names",
        "node_names",
        "places",
        "revisions",
        "start_times_ns",
        "uids",
    )

    def __init__(self, batch: delta_pb2.DeltaBatch) -> None:
        # Written anew, every field is there once at most; what came need not be like that.
        data = batch.SerializeToString()
        keys = _keys(data)
        # Which ops are about pods.
        self.places = [place for place, key in enumerate(keys) if len(key) > _NO_POD]
        self.keys = [keys[place] for place in self.places]
        upserts = _read_columns(data).ops.upsert
        pods = upserts.object.pod
        self.uids: list[str] = pods.uid[:]
        self.names: list[str] = pods.name[:]
        self.creation_times_ns = self._filled(pods.creation_time_ns, 0, batch, "creation_time_ns")
        self.node_names = self._filled(pods.node_name, "", batch, "node_name")
        self.start_times_ns = self._filled(pods.start_time_ns, 0, batch, "start_time_ns")
        self.revisions = _revisions(keys, self.places, upserts.revision, batch.ops)
        # Of all conditions of all pods that have a time.
        self.condition_times_ns: list[int] = pods.conditions.transition_time_ns[:]

    def _filled(
        self, column: Sequence[T], absent: T, batch: delta_pb2.DeltaBatch, field: str
    ) -> Sequence[T]:
        """The column with its gaps, which have to be looked for one by one."""
        count = len(column)
        if count == len(self.places):
            return column[:]
        if count == 0:
            return [absent] * len(self.places)
        ops = batch.ops
        return [getattr(ops[place].upsert.object.pod, field) for place in self.places]


def _keys(data: bytes) -> list[bytes]:
    """For each op the key of its pod's shape; empty where it upserts nothing."""
    shapes = _read_shapes(data)
    shapes.DiscardUnknownFields()
    keys: list[bytes] = _read_keys(shapes.SerializeToString()).ops[:]
    return keys


def _revisions(
    keys: list[bytes], places: list[int], column: Sequence[int], ops: Sequence[delta_pb2.Op]
) -> list[int]:
    """Those of pods; other objects have theirs in the same column."""
    upserts = [place for place, key in enumerate(keys) if key]
    if len(upserts) != len(column):
        return [ops[place].upsert.revision for place in places]
    if len(upserts) == len(places):
        return list(column)
    by_place = dict(zip(upserts, column, strict=True))
    return [by_place[place] for place in places]
