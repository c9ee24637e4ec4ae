"""Checks the order, sequence numbers and credit of the messages of a stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pumice.server import errors
from pumice.server.limits import HIGHEST_PROTOCOL, LOWEST_PROTOCOL, Limits
from pumice.v1 import cluster_service_pb2, delta_pb2

MAX_NAME_LENGTH = 253
# Kinds in a marker or digest; there are about twenty kinds.
MAX_KINDS = 256


def check_hello(message: cluster_service_pb2.ConnectRequest) -> cluster_service_pb2.Hello:
    """Returns the Hello of the first message. Raises ServiceError."""
    if message.WhichOneof("message") != "hello":
        raise errors.HelloMissingError
    hello = message.hello
    check_kinds(len(hello.digests))
    for field in ("cluster", "adapter_id", "incarnation"):
        value = getattr(hello, field)
        if not value:
            raise errors.HelloFieldError(field, "is empty")
        if len(value) > MAX_NAME_LENGTH:
            raise errors.HelloFieldError(field, f"is longer than {MAX_NAME_LENGTH} characters")
    if hello.epoch < 1:
        raise errors.HelloFieldError("epoch", "must be 1 or more")
    if not 1 <= hello.min_protocol <= hello.max_protocol:
        raise errors.HelloFieldError(
            "min_protocol", "must be 1 or more, and not above max_protocol"
        )
    if not 0 <= hello.last_acknowledged_seq <= errors.LARGEST_SEQ:
        problem = f"must be between 0 and {errors.LARGEST_SEQ}"
        raise errors.HelloFieldError("last_acknowledged_seq", problem)
    ours = (LOWEST_PROTOCOL, HIGHEST_PROTOCOL)
    if hello.min_protocol > HIGHEST_PROTOCOL or hello.max_protocol < LOWEST_PROTOCOL:
        raise errors.ProtocolVersionError(hello.min_protocol, hello.max_protocol, ours)
    return hello


def check_epoch(epoch: int, served: int, now_ns: int, limits: Limits) -> None:
    """Refuses an epoch far ahead of the clock. Raises FutureEpochError.

    ``served`` is the highest epoch of the cluster so far; 0: none. If it is ahead of the clock, the
    clock was set back, and the epochs of the next leaders follow it.
    """
    latest = now_ns // 1_000_000 + limits.epoch_ahead_ms
    if served:
        latest = max(latest, served + limits.epochs_after_served)
    if epoch > latest:
        raise errors.FutureEpochError(epoch, latest)


def check_kinds(count: int) -> None:
    """Checks the number of kinds in a marker or digest."""
    if count > MAX_KINDS:
        raise errors.LimitError("kinds of a message", MAX_KINDS, count)


class StreamRules:
    """Checks the messages of one stream after its Welcome."""

    def __init__(self, incarnation: str, credit: int, resume_after: int | None) -> None:
        self._incarnation = incarnation
        self._credit = credit
        # Without a number to resume after, a complete snapshot is expected. Its begin marker has
        # the first number.
        self._received = 0 if resume_after is None else resume_after
        self._acknowledged = self._received
        self._expects_snapshot = resume_after is None
        self.in_snapshot = False
        # The last sequence number and the size of each batch that is not acknowledged yet.
        self._pending: deque[tuple[int, int]] = deque()
        self.pending_bytes = 0

    @property
    def received(self) -> int:
        """The sequence number of the last received op."""
        return self._received

    def new_ops(
        self, batch: delta_pb2.DeltaBatch, size: int = 0
    ) -> tuple[int, Sequence[delta_pb2.Op]]:
        """The sequence number of the first new op, and the new ops. A duplicate has no new ops."""
        if batch.incarnation and batch.incarnation != self._incarnation:
            raise errors.OtherIncarnationError(batch.incarnation, self._incarnation)
        if self._expects_snapshot:
            raise errors.SnapshotExpectedError
        if not 1 <= batch.first_seq <= errors.LARGEST_SEQ - len(batch.ops):
            raise errors.SequenceNumberError("first_seq", batch.first_seq)
        if batch.first_seq > self._received + 1:
            raise errors.GapError(batch.first_seq, self._received + 1)
        known = self._received + 1 - batch.first_seq
        if known >= len(batch.ops):
            return self._received + 1, ()
        last = batch.first_seq + len(batch.ops) - 1
        if last > self._acknowledged + self._credit:
            raise errors.LimitError("credit", self._credit, last - self._acknowledged)
        first, self._received = self._received + 1, last
        self._pending.append((last, size))
        self.pending_bytes += size
        return first, batch.ops[known:] if known else batch.ops

    def acknowledge(self, seq: int) -> None:
        self._acknowledged = max(self._acknowledged, seq)
        while self._pending and self._pending[0][0] <= seq:
            self.pending_bytes -= self._pending.popleft()[1]

    def begin_snapshot(self, marker: cluster_service_pb2.SnapshotBegin) -> None:
        check_kinds(len(marker.kinds))
        if self.in_snapshot:
            raise errors.MarkerError("SnapshotBegin inside a snapshot")
        if not 1 <= marker.first_seq <= errors.LARGEST_SEQ:
            raise errors.SequenceNumberError("first_seq", marker.first_seq)
        if self._expects_snapshot:
            if marker.kinds:
                raise errors.MarkerError("Welcome requested a snapshot of all kinds")
            self._received = self._acknowledged = marker.first_seq - 1
            self._expects_snapshot = False
        elif marker.first_seq != self._received + 1:
            raise errors.GapError(marker.first_seq, self._received + 1)
        self.in_snapshot = True

    def end_snapshot(self, marker: cluster_service_pb2.SnapshotEnd) -> None:
        check_kinds(len(marker.digests))
        if not self.in_snapshot:
            raise errors.MarkerError("SnapshotEnd without SnapshotBegin")
        if marker.seq != self._received:
            raise errors.SnapshotEndError(marker.seq, self._received)
        self.in_snapshot = False
