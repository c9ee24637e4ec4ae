"""Reads the ops of a batch and gives them their numbers."""

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
# Smaller batches are read faster one by one.
_FEW_OPS = 4


@dataclass(slots=True)
class NumberedOp:
    """One op: the delta for the engine, or the error."""

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
    # Values that are newer than this core.
    warnings: Sequence[object_pb2.ObjectWarning] = ()

    @property
    def last_seq(self) -> int:
        return self.seq

    def each(self) -> Iterable[NumberedOp]:
        """The ops in it, one by one."""
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
    """Consecutive ops with pods; ``seq`` is the number of the first."""

    pods: list[Pod] = field(default_factory=list)
    # Of each pod; none is 0.
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

    def batch(self, batch: delta_pb2.DeltaBatch) -> list[NumberedOp]:
        """The ops of a batch; pods are read in bulk unless the batch is small."""
        if len(batch.ops) < self._few_ops:
            return [*self.number(batch.first_seq, batch.ops)]
        places, revisions, pods = self._objects.read_pods(batch)
        numbered: list[NumberedOp] = []
        begin = taken = 0
        while begin < len(pods):
            # Consecutive pods, after the ops before them.
            place = places[begin]
            numbered += self._read_some(batch, taken, place)
            end = begin + 1
            while end < len(pods) and places[end] - place == end - begin:
                end += 1
            numbered += _together(batch.first_seq + place, pods[begin:end], revisions[begin:end])
            begin, taken = end, place + end - begin
        return numbered + self._read_some(batch, taken, len(batch.ops))

    def _read_some(self, batch: delta_pb2.DeltaBatch, begin: int, end: int) -> list[NumberedOp]:
        ops, first_seq = batch.ops, batch.first_seq
        return [self._read(first_seq + place, ops[place]) for place in range(begin, end)]

    def number(self, first_seq: int, ops: Iterable[delta_pb2.Op]) -> Iterator[NumberedOp]:
        """Reads ops one by one, so that the caller can pause in between."""
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

    def _other(self, seq: int, op: delta_pb2.Op, word: str | None) -> NumberedOp:
        kind, uid, _ = op_ref(op)
        if word == "tombstone" and kind not in READ_KINDS:
            return NumberedOp(seq)
        numbered = NumberedOp(seq, kind, uid)
        try:
            if word == "tombstone":
                numbered.delta = read_tombstone(op.tombstone)
            elif word == "outcome":
                numbered.delta = read_outcome(op.outcome)
            elif word == "plugin_data":
                numbered.delta = read_plugin_data(op.plugin_data)
        except ObjectError as error:
            numbered.error = error
        return numbered


def _together(seq: int, pods: list[Pod], revisions: list[int]) -> Iterable[NumberedOp]:
    op = NumberedPods(seq, _POD, delta=PodsUpserted(pods), pods=pods, revisions=revisions)
    # A pod without a revision is not counted.
    return op.each() if 0 in revisions else (op,)
