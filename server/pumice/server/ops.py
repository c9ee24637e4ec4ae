"""Ops of the stream, read and numbered, on their way to a cluster's state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pumice.core.deltas import Delta
from pumice.core.errors import ObjectError
from pumice.server.wire import DeltaReader, op_ref
from pumice.v1 import configuration_pb2, delta_pb2, object_pb2


@dataclass(slots=True)
class NumberedOp:
    """One op: what the engine shall take in, or what is wrong with it."""

    seq: int
    kind: int
    uid: str
    key: str
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
            key=self.key,
            field=error.field,
            reason=error.problem,
        )


def number_ops(
    reader: DeltaReader, first_seq: int, ops: Iterable[delta_pb2.Op]
) -> Iterator[NumberedOp]:
    """Reads ops one by one, so that whoever reads many can pause in between."""
    for seq, op in enumerate(ops, first_seq):
        kind, uid, key = op_ref(op)
        numbered = NumberedOp(seq, kind, uid, key)
        word = op.WhichOneof("op")
        if word == "configuration":
            numbered.configuration = op.configuration
        else:
            if word == "upsert":
                numbered.revision = op.upsert.revision
            try:
                numbered.delta = reader.read(op)
            except ObjectError as error:
                numbered.error = error
        yield numbered
