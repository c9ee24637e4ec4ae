"""Ops of the stream, read and numbered, on their way to a cluster's state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pumice.core.deltas import Delta, Upserted
from pumice.core.errors import ObjectError
from pumice.server.wire import (
    NO_POD,
    ObjectReader,
    object_ref,
    op_ref,
    read_outcome,
    read_tombstone,
    shapes_of,
)
from pumice.v1 import configuration_pb2, delta_pb2, object_pb2

# The number of the field is the number of the kind.
_KINDS = {field.name: field.number for field in object_pb2.ClusterObject.DESCRIPTOR.fields}
_POD = object_pb2.KIND_POD


@dataclass(slots=True)
class NumberedOp:
    """One op: what the engine shall take in, or what is wrong with it."""

    seq: int
    # Zero and empty where the op is about no object.
    kind: int = 0
    uid: str = ""
    # 0: no upsert.
    revision: int = 0
    # None: nothing for the engine.
    delta: Delta | None = None
    error: ObjectError | None = None
    configuration: configuration_pb2.Configuration | None = None

    def rejected(self, error: ObjectError) -> object_pb2.RejectedObject:
        return object_pb2.RejectedObject(
            seq=self.seq,
            kind=object_pb2.Kind.ValueType(self.kind),
            uid=self.uid,
            key=error.key,
            field=error.field,
            reason=error.problem,
        )


class OpReader:
    """Reads the ops of one cluster; it remembers the shapes and specs of pods it has seen."""

    def __init__(self) -> None:
        self._objects = ObjectReader()

    def batch(self, batch: delta_pb2.DeltaBatch) -> list[NumberedOp]:
        """The ops of a batch: pods in bulk, others one by one."""
        read_shaped, read = self._objects.read_shaped, self._read
        numbered = []
        seq = batch.first_seq - 1
        for op, shape in zip(batch.ops, shapes_of(batch), strict=True):
            seq += 1
            key = shape.SerializeToString()
            if len(key) <= NO_POD:
                numbered.append(read(seq, op))
                continue
            upsert = op.upsert
            pod = read_shaped(upsert.object.pod, key)
            if pod is None:
                numbered.append(read(seq, op))
            else:
                delta = Upserted(pod)
                numbered.append(NumberedOp(seq, _POD, pod.uid, upsert.revision, delta))
        return numbered

    def number(self, first_seq: int, ops: Iterable[delta_pb2.Op]) -> Iterator[NumberedOp]:
        """Reads ops one by one, so that whoever reads many can pause in between."""
        for seq, op in enumerate(ops, first_seq):
            yield self._read(seq, op)

    def _read(self, seq: int, op: delta_pb2.Op) -> NumberedOp:
        word = op.WhichOneof("op")
        if word == "upsert":
            return self._upsert(seq, op.upsert)
        if word == "configuration":
            return NumberedOp(seq, configuration=op.configuration)
        return self._other(seq, op, word)

    def _upsert(self, seq: int, upsert: delta_pb2.Upsert) -> NumberedOp:
        message, revision = upsert.object, upsert.revision
        try:
            value = self._objects.read(message)
        except ObjectError as error:
            kind, uid, _ = object_ref(message)
            return NumberedOp(seq, kind, uid, revision, error=error)
        if value is None:
            kind, uid, _ = object_ref(message)
            return NumberedOp(seq, kind, uid, revision)
        kind = _KINDS[message.WhichOneof("object") or ""]
        return NumberedOp(seq, kind, value.uid, revision, Upserted(value))

    def _other(self, seq: int, op: delta_pb2.Op, word: str | None) -> NumberedOp:
        kind, uid, _ = op_ref(op)
        numbered = NumberedOp(seq, kind, uid)
        try:
            if word == "tombstone":
                numbered.delta = read_tombstone(op.tombstone)
            elif word == "outcome":
                numbered.delta = read_outcome(op.outcome)
        except ObjectError as error:
            numbered.error = error
        return numbered
