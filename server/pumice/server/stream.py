"""The core's side of an adapter's stream: the queue of messages to send, and its end."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from pumice.server.limits import Limits
from pumice.server.rules import StreamRules
from pumice.v1 import cluster_service_pb2


class AdapterStream:
    """The queue of messages to one adapter. Owner threads of clusters add to it."""

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
        # Set when the owner has said how the stream begins.
        self.rules: StreamRules | None = None
        self.error: BaseException | None = None
        self._limit = limits.outgoing_bytes
        self._loop = loop
        self._queue: deque[cluster_service_pb2.ConnectResponse] = deque()
        self._bytes = 0
        self._end_event = asyncio.Event()
        self._news = asyncio.Event()
        self.finished = asyncio.Event()
        # Set when something was acknowledged.
        self._acknowledged = asyncio.Event()

    # From any thread.

    def send(self, *responses: cluster_service_pb2.ConnectResponse) -> None:
        self._call(self._put, responses)

    def end(self, reason: cluster_service_pb2.GoAwayReason.ValueType, message: str) -> None:
        """Sends GoAway and ends; messages that were not sent are dropped."""
        self._call(self._end, reason, message)

    def fail(self, error: BaseException) -> None:
        """Ends with an error."""
        self._call(self._fail, error)

    def _call(self, function: object, *arguments: object) -> None:
        # The loop is gone when the process ends before its owners do.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)  # type: ignore[arg-type]

    # On the loop.

    def _put(self, responses: tuple[cluster_service_pb2.ConnectResponse, ...]) -> None:
        if self.ended:
            return
        # What waited before counts, not what comes now: a session whose decisions are more than
        # the limit would otherwise end every stream that they are sent on.
        if self._bytes > self._limit:
            reason = cluster_service_pb2.GO_AWAY_REASON_TOO_SLOW
            self._end(reason, f"{self._bytes} bytes wait to be read")
            return
        for response in responses:
            if response.HasField("ack"):
                self._overtake()
                if self.rules is not None:
                    self.rules.acknowledged(response.ack.applied_seq)
                    self._acknowledged.set()
            self._queue.append(response)
            self._bytes += response.ByteSize()
        self._news.set()

    def _overtake(self) -> None:
        """Drops an unsent Ack without rejections or warnings: the next Ack replaces it."""
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
        farewell = cluster_service_pb2.GoAway(reason=reason, message=message)
        self._queue.append(cluster_service_pb2.ConnectResponse(go_away=farewell))
        self._stop()

    def _fail(self, error: BaseException) -> None:
        if not self.ended:
            self._queue.clear()
            self.error = error
            self._stop()

    def drop(self) -> None:
        """Ends without GoAway; messages that were not sent are dropped."""
        if not self.ended:
            self._queue.clear()
            self._bytes = 0
            self._stop()

    @property
    def ended(self) -> bool:
        return self._end_event.is_set()

    def _stop(self) -> None:
        """Lets the writer send what is queued, and then end."""
        self._end_event.set()
        self._news.set()

    async def next(self) -> cluster_service_pb2.ConnectResponse | None:
        """The next message to write; None when there will be no more."""
        while not self._queue:
            if self.ended:
                return None
            self._news.clear()
            await self._news.wait()
        response = self._queue.popleft()
        self._bytes -= response.ByteSize()
        return response

    async def until_pending_below(self, limit: int) -> None:
        """Waits until fewer bytes than that are received and not acknowledged."""
        while self.rules is not None and self.rules.pending_bytes > limit:
            self._acknowledged.clear()
            await self._acknowledged.wait()

    async def until_ended(self) -> None:
        await self._end_event.wait()
