"""Batches in the queue of an owner. Small batches that wait are merged and applied as one.

Every batch costs an Ack and a switch between two threads, in addition to its ops. Merging saves
this cost when the owner is behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pumice.v1 import delta_pb2

if TYPE_CHECKING:
    from pumice.server.served import ServedCluster
    from pumice.server.stream import AdapterStream

# As many ops as one batch of a snapshot has, so that a session is not delayed longer.
MAX_OPS_MERGED = 500
MAX_BYTES_MERGED = 1 << 20


class ReceivedBatch:
    """A batch without duplicate ops, and the batches that were merged with it."""

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

    def merge(self, waiting: deque[Callable[[], None]]) -> None:
        """Merges batches from the head of the queue into this one, up to the limits."""
        while waiting and isinstance(waiting[0], ReceivedBatch) and self._can_merge(waiting[0]):
            later = waiting.popleft()
            assert isinstance(later, ReceivedBatch)
            self._batches += later._batches
            self._count += later._count
            self._last_seq = later._last_seq
            if later._large:
                self._large = {**self._large, **later._large}

    def _can_merge(self, later: ReceivedBatch) -> bool:
        # A batch without ops is a duplicate, and needs its own Ack.
        return (
            later._stream is self._stream
            and 0 < later._count <= MAX_OPS_MERGED - self._count
            and self._count > 0
        )

    def __call__(self) -> None:
        apply_batch, stream = self._served.apply_batch, self._stream
        if len(self._batches) == 1:
            apply_batch(stream, self._batches[0], self._last_seq, self._large)
            return
        parts = [batch.SerializeToString() for batch in self._batches]
        if sum(map(len, parts)) > MAX_BYTES_MERGED:
            for batch in self._batches:
                apply_batch(stream, batch, batch.first_seq + len(batch.ops) - 1, self._large)
            return
        # The concatenated bytes of two batches are the bytes of one batch with all ops.
        merged = delta_pb2.DeltaBatch.FromString(b"".join(parts))
        merged.first_seq = self._batches[0].first_seq
        apply_batch(stream, merged, self._last_seq, self._large)
