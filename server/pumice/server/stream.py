"""The core's side of a stream: the queue of messages to an adapter."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import NamedTuple

from pumice.server.limits import Limits
from pumice.server.rules import StreamRules
from pumice.v1 import cluster_service_pb2

# Acks that follow each other closer than this are sent as one, unless other messages are sent too or
# the ops that wait for them are so large a part of the credit.
ACK_SECONDS = 0.05
_PART_OF_CREDIT = 10


class _Message(NamedTuple):
    """An encoded message. It is encoded once, for its size and for the network."""

    data: bytes
    # The number that it acknowledges; None: it is not an Ack.
    applied_seq: int | None = None
    # The next Ack replaces it: it is an Ack without rejections and warnings.
    is_replaceable: bool = False


def _encoded(response: cluster_service_pb2.ConnectResponse) -> _Message:
    data = response.SerializeToString()
    if not response.HasField("ack"):
        return _Message(data)
    ack = response.ack
    return _Message(data, ack.applied_seq, not (ack.rejected or ack.warnings))


class AdapterStream:
    """The queue of messages to one adapter. Any thread may add messages."""

    def __init__(
        self,
        hello: cluster_service_pb2.Hello,
        peer: str,
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
        connected_ns: int = 0,
    ) -> None:
        self.hello = hello
        self.connected_ns = connected_ns
        self.peer = peer
        # Set when the owner has decided between resume and snapshot.
        self.rules: StreamRules | None = None
        self.error: BaseException | None = None
        self._limit = limits.outgoing_bytes
        self._most_unacknowledged = limits.credit // _PART_OF_CREDIT
        self._loop = loop
        self._queue: deque[_Message] = deque()
        self._bytes = 0
        self._end_event = asyncio.Event()
        self._changed = asyncio.Event()
        self.finished = asyncio.Event()
        # Set when ops were acknowledged.
        self._acknowledged = asyncio.Event()
        # The time and the number of the last Ack, and an Ack that waits for more ops.
        self._acked_at, self._acked_seq = -ACK_SECONDS, 0
        self._delayed_ack: _Message | None = None

    # On any thread.

    def send(self, *responses: cluster_service_pb2.ConnectResponse) -> None:
        self._call(self._put, [_encoded(response) for response in responses])

    def end(self, reason: cluster_service_pb2.GoAwayReason.ValueType, message: str) -> None:
        """Sends GoAway and ends the stream. Messages that were not sent are dropped."""
        self._call(self._end, reason, message)

    def fail(self, error: BaseException) -> None:
        """Ends the stream with an error."""
        self._call(self._fail, error)

    def _call(self, function: object, *arguments: object) -> None:
        # The loop is closed if the process ends before its owners.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)  # type: ignore[arg-type]

    # On the loop.

    def _put(self, messages: list[_Message]) -> None:
        if self.ended:
            return
        # The limit applies to the bytes that waited before: a session with more decisions than the
        # limit would otherwise end every stream on which they are sent.
        if self._bytes > self._limit:
            reason = cluster_service_pb2.GO_AWAY_REASON_TOO_SLOW
            self._end(reason, f"{self._bytes} bytes are queued and not read")
            return
        for message in messages:
            if message.applied_seq is None:
                self._send_delayed_ack()
                self._append(message)
            else:
                self._put_ack(message, message.applied_seq)

    def _put_ack(self, message: _Message, seq: int) -> None:
        if self.rules is not None:
            self.rules.acknowledge(seq)
            self._acknowledged.set()
        is_next = self._drop_unsent_ack() or bool(self._queue) or not message.is_replaceable
        if not is_next and self._may_delay(seq):
            if self._delayed_ack is None:
                self._loop.call_at(self._acked_at + ACK_SECONDS, self._send_delayed_ack)
            self._delayed_ack = message
            return
        self._delayed_ack = None
        self._acked_at, self._acked_seq = self._loop.time(), seq
        self._append(message)

    def _may_delay(self, seq: int) -> bool:
        """Whether another Ack was sent a moment ago, and nobody needs this one."""
        return (
            self.rules is not None
            and not self.rules.in_snapshot
            and seq - self._acked_seq < self._most_unacknowledged
            and self._loop.time() - self._acked_at < ACK_SECONDS
        )

    def _send_delayed_ack(self) -> None:
        message, self._delayed_ack = self._delayed_ack, None
        if message is not None and not self.ended:
            self._acked_at, self._acked_seq = self._loop.time(), message.applied_seq or 0
            self._append(message)

    def _append(self, message: _Message) -> None:
        self._changed.set()
        self._queue.append(message)
        self._bytes += len(message.data)

    def _drop_unsent_ack(self) -> bool:
        """Drops an unsent Ack that the next Ack replaces; returns whether there was one."""
        if not (self._queue and self._queue[-1].is_replaceable):
            return False
        self._bytes -= len(self._queue.pop().data)
        return True

    def _end(self, reason: cluster_service_pb2.GoAwayReason.ValueType, message: str) -> None:
        if self.ended:
            return
        self._queue.clear()
        self._bytes = 0
        go_away = cluster_service_pb2.GoAway(reason=reason, message=message)
        self._append(_encoded(cluster_service_pb2.ConnectResponse(go_away=go_away)))
        self._stop()

    def _fail(self, error: BaseException) -> None:
        if not self.ended:
            self._queue.clear()
            self.error = error
            self._stop()

    def drop(self) -> None:
        """Ends the stream without GoAway. Messages that were not sent are dropped."""
        if not self.ended:
            self._queue.clear()
            self._bytes = 0
            self._stop()

    @property
    def ended(self) -> bool:
        return self._end_event.is_set()

    def _stop(self) -> None:
        """Marks the end. The writer still sends the messages in the queue."""
        self._end_event.set()
        self._changed.set()

    async def next(self) -> bytes | None:
        """The next message to write, encoded; None: the stream has ended."""
        while not self._queue:
            if self.ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        data = self._queue.popleft().data
        self._bytes -= len(data)
        return data

    async def until_pending_below(self, limit: int) -> None:
        """Waits until at most ``limit`` received bytes are not acknowledged."""
        while self.rules is not None and self.rules.pending_bytes > limit:
            self._acknowledged.clear()
            await self._acknowledged.wait()

    async def until_ended(self) -> None:
        await self._end_event.wait()
