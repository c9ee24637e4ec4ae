"""Batches in the queue of a cluster's owner; small ones are merged and applied as one.

A batch costs an Ack and a switch between two threads beside its ops. An owner that is behind saves
that by merging the batches that wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pumice.v1 import delta_pb2

if TYPE_CHECKING:
    from pumice.server.served import ServedCluster
    from pumice.server.stream import AdapterStream

# As in one batch of a snapshot, so that a session does not wait longer.
MAX_OPS_TOGETHER = 500
MAX_BYTES_TOGETHER = 1 << 20


class ReceivedBatch:
    """A batch of a stream, all of it new, and the batches that were merged with it."""

    __slots__ = ("_batches", "_count", "_large", "_last_seq", "_served", "_stream")

    def __init__(
        self,
        served: ServedCluster,
        stream: AdapterStream,
        batch: delta_pb2.DeltaBatch,
        last_seq: int,
        large: Mapping[int, int],
    ) -> None:
        self._served = served
        self._stream = stream
        self._batches = [batch]
        self._count = len(batch.ops)
        self._last_seq = last_seq
        # Sizes of large ops, by sequence number.
        self._large = large

    def join(self, waiting: deque[Callable[[], None]]) -> None:
        """Merges batches from the head of the queue, up to the limits."""
        while waiting and isinstance(waiting[0], ReceivedBatch) and self._can_join(waiting[0]):
            later = waiting.popleft()
            assert isinstance(later, ReceivedBatch)
            self._batches += later._batches
            self._count += later._count
            self._last_seq = later._last_seq
            if later._large:
                self._large = {**self._large, **later._large}

    def _can_join(self, later: ReceivedBatch) -> bool:
        # A batch without ops is a duplicate, and is acknowledged by itself.
        return (
            later._stream is self._stream
            and 0 < later._count <= MAX_OPS_TOGETHER - self._count
            and self._count > 0
        )

    def __call__(self) -> None:
        take, stream = self._served.take, self._stream
        if len(self._batches) == 1:
            take(stream, self._batches[0], self._last_seq, self._large)
            return
        parts = [batch.SerializeToString() for batch in self._batches]
        if sum(map(len, parts)) > MAX_BYTES_TOGETHER:
            for batch in self._batches:
                take(stream, batch, batch.first_seq + len(batch.ops) - 1, self._large)
            return
        # The bytes of two batches, concatenated, are the bytes of one batch with all ops.
        merged = delta_pb2.DeltaBatch.FromString(b"".join(parts))
        merged.first_seq = self._batches[0].first_seq
        take(stream, merged, self._last_seq, self._large)
