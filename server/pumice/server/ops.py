"""Reads the ops of a batch, with their sequence numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pumice.core.deltas import Delta, PodsUpserted, Upserted
from pumice.core.errors import ObjectError
from pumice.core.model.pod import Pod
from pumice.server.wire import (
    READ_KINDS,
    ObjectReader,
    check_upsert,
    op_ref,
    read_outcome,
    read_plugin_data,
    read_tombstone,
    write_warnings,
)
from pumice.server.wire.unknown_values import UnknownValue
from pumice.v1 import configuration_pb2, delta_pb2, object_pb2

_POD = object_pb2.KIND_POD
# Ops of smaller batches are read one by one, which is faster.
_FEW_OPS = 4


@dataclass(slots=True)
class NumberedOp:
    """One op: the delta for the engine, or an error."""

    seq: int
    # Zero and empty if the op concerns no object.
    kind: int = 0
    uid: str = ""
    # 0: not an upsert.
    revision: int = 0
    # None: the engine does not need the op.
    delta: Delta | None = None
    error: ObjectError | None = None
    configuration: configuration_pb2.Configuration | None = None
    # Warnings about enum values that this core does not know.
    warnings: Sequence[object_pb2.ObjectWarning] = ()

    @property
    def last_seq(self) -> int:
        return self.seq

    def each(self) -> Iterable[NumberedOp]:
        """The single ops."""
        return (self,)

    def rejected(self, error: ObjectError) -> object_pb2.RejectedObject:
        return object_pb2.RejectedObject(
            seq=self.seq,
            kind=object_pb2.Kind.ValueType(self.kind),
            uid=self.uid,
            key=error.key,
            field=error.field,
            reason=error.problem,
        )


@dataclass(slots=True)
class NumberedPods(NumberedOp):
    """Consecutive upserts of pods; ``seq`` is the number of the first."""

    pods: list[Pod] = field(default_factory=list)
    # The revision of each pod; never 0.
    revisions: list[int] = field(default_factory=list)

    @property
    def last_seq(self) -> int:
        return self.seq + len(self.pods) - 1

    def each(self) -> Iterator[NumberedOp]:
        ops = zip(self.pods, self.revisions, strict=True)
        for seq, (pod, revision) in enumerate(ops, self.seq):
            yield NumberedOp(seq, _POD, pod.uid, revision, Upserted(pod))


class OpReader:
    """Reads the ops of one cluster; caches the shapes and specs of pods."""

    def __init__(self, few_ops: int = _FEW_OPS) -> None:
        self._objects = ObjectReader()
        self._few_ops = few_ops

    def read_batch(self, batch: delta_pb2.DeltaBatch) -> list[NumberedOp]:
        """Reads the ops of a batch. Pods are read in bulk, unless the batch is small."""
        if len(batch.ops) < self._few_ops:
            return [*self.read_ops(batch.first_seq, batch.ops)]
        places, revisions, pods = self._objects.read_pods(batch)
        numbered: list[NumberedOp] = []
        begin = done = 0
        while begin < len(pods):
            # A run of consecutive pods, and the other ops before it.
            place = places[begin]
            numbered += self._read_some(batch, done, place)
            end = begin + 1
            while end < len(pods) and places[end] - place == end - begin:
                end += 1
            numbered += _bulk_op(batch.first_seq + place, pods[begin:end], revisions[begin:end])
            begin, done = end, place + end - begin
        return numbered + self._read_some(batch, done, len(batch.ops))

    def _read_some(self, batch: delta_pb2.DeltaBatch, begin: int, end: int) -> list[NumberedOp]:
        ops, first_seq = batch.ops, batch.first_seq
        return [self._read(first_seq + place, ops[place]) for place in range(begin, end)]

    def read_ops(self, first_seq: int, ops: Iterable[delta_pb2.Op]) -> Iterator[NumberedOp]:
        """Reads ops lazily, one by one."""
        for seq, op in enumerate(ops, first_seq):
            yield self._read(seq, op)

    def _read(self, seq: int, op: delta_pb2.Op) -> NumberedOp:
        which = op.WhichOneof("op")
        if which == "upsert":
            return self._upsert(seq, op.upsert)
        if which == "configuration":
            return NumberedOp(seq, configuration=op.configuration)
        return self._other(seq, op, which)

    def _upsert(self, seq: int, upsert: delta_pb2.Upsert) -> NumberedOp:
        kind, uid, revision = upsert.kind, upsert.uid, upsert.revision
        if kind not in READ_KINDS:
            return NumberedOp(seq)
        unknown: list[UnknownValue] = []
        try:
            check_upsert(upsert)
            value = self._objects.read(upsert.object, unknown)
        except ObjectError as error:
            return NumberedOp(seq, kind, uid, revision, error=error)
        delta = None if value is None else Upserted(value)
        op = NumberedOp(seq, kind, uid, revision, delta)
        if unknown:
            op.warnings = write_warnings(seq, upsert, unknown)
        return op

    def _other(self, seq: int, op: delta_pb2.Op, which: str | None) -> NumberedOp:
        kind, uid, _ = op_ref(op)
        if which == "tombstone" and kind not in READ_KINDS:
            return NumberedOp(seq)
        numbered = NumberedOp(seq, kind, uid)
        try:
            if which == "tombstone":
                numbered.delta = read_tombstone(op.tombstone)
            elif which == "outcome":
                numbered.delta = read_outcome(op.outcome)
            elif which == "plugin_data":
                numbered.delta = read_plugin_data(op.plugin_data)
        except ObjectError as error:
            numbered.error = error
        return numbered


def _bulk_op(seq: int, pods: list[Pod], revisions: list[int]) -> Iterable[NumberedOp]:
    op = NumberedPods(seq, _POD, delta=PodsUpserted(pods), pods=pods, revisions=revisions)
    # A pod without a revision is not counted in digests, so it needs an op of its own.
    return op.each() if 0 in revisions else (op,)
