"""The core's side of a stream: the queue of messages to an adapter."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from pumice.server.limits import Limits
from pumice.server.rules import StreamRules
from pumice.v1 import cluster_service_pb2


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
        self._loop = loop
        self._queue: deque[cluster_service_pb2.ConnectResponse] = deque()
        self._bytes = 0
        self._end_event = asyncio.Event()
        self._changed = asyncio.Event()
        self.finished = asyncio.Event()
        # Set when ops were acknowledged.
        self._acknowledged = asyncio.Event()

    # On any thread.

    def send(self, *responses: cluster_service_pb2.ConnectResponse) -> None:
        self._call(self._put, responses)

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

    def _put(self, responses: tuple[cluster_service_pb2.ConnectResponse, ...]) -> None:
        if self.ended:
            return
        # The limit applies to the bytes that waited before: a session with more decisions than the
        # limit would otherwise end every stream on which they are sent.
        if self._bytes > self._limit:
            reason = cluster_service_pb2.GO_AWAY_REASON_TOO_SLOW
            self._end(reason, f"{self._bytes} bytes are queued and not read")
            return
        for response in responses:
            if response.HasField("ack"):
                self._drop_unsent_ack()
                if self.rules is not None:
                    self.rules.acknowledge(response.ack.applied_seq)
                    self._acknowledged.set()
            self._queue.append(response)
            self._bytes += response.ByteSize()
        self._changed.set()

    def _drop_unsent_ack(self) -> None:
        """Drops an unsent Ack without rejections and warnings, because the next Ack replaces it."""
        last = self._queue[-1] if self._queue else None
        if (
            last is not None
            and last.HasField("ack")
            and not (last.ack.rejected or last.ack.warnings)
        ):
            self._queue.pop()
            self._bytes -= last.ByteSize()

    def _end(self, reason: cluster_service_pb2.GoAwayReason.ValueType, message: str) -> None:
        if self.ended:
            return
        self._queue.clear()
        self._bytes = 0
        go_away = cluster_service_pb2.GoAway(reason=reason, message=message)
        self._queue.append(cluster_service_pb2.ConnectResponse(go_away=go_away))
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

    async def next(self) -> cluster_service_pb2.ConnectResponse | None:
        """The next message to write; None: the stream has ended."""
        while not self._queue:
            if self.ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        response = self._queue.popleft()
        self._bytes -= response.ByteSize()
        return response

    async def until_pending_below(self, limit: int) -> None:
        """Waits until at most ``limit`` received bytes are not acknowledged."""
        while self.rules is not None and self.rules.pending_bytes > limit:
            self._acknowledged.clear()
            await self._acknowledged.wait()

    async def until_ended(self) -> None:
        await self._end_event.wait()
