"""RecordingService: streams the recording of a cluster."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from pumice.server import errors
from pumice.server.clusters import Cluster, Clusters
from pumice.server.core_environment import CoreEnvironment
from pumice.server.served import ServedCluster
from pumice.server.service import abort
from pumice.v1 import delta_pb2
from pumice.v1 import recording_service_pb2 as pb
from pumice.v1.recording_pb2 import RecordingEntry
from pumice.v1.recording_service_pb2_grpc import RecordingServiceServicer

_SECOND_NS = 1_000_000_000
MAX_RECORDINGS = 8
# Size of a message, below the message limit. Larger batches are split.
_MESSAGE_BYTES = 1024 * 1024
# Bytes that may be queued for a slow caller.
MAX_WAITING_BYTES = 256 * 1024 * 1024


class StreamListener:
    """The queue of entries for one caller. The recorder's thread adds entries."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._entries: deque[RecordingEntry] = deque()
        self._waiting_bytes = 0
        self._ended = False
        self.was_lost = False
        self._changed = asyncio.Event()

    # On the recorder's thread.

    def put(self, entry: RecordingEntry) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._put, entry, entry.ByteSize())

    def end(self, *, lost: bool) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end, lost)

    # On the loop.

    def _put(self, entry: RecordingEntry, size: int) -> None:
        if self._ended:
            return
        self._waiting_bytes += size
        self._entries.extend(_split(entry) if size > _MESSAGE_BYTES else (entry,))
        if self._waiting_bytes > MAX_WAITING_BYTES:
            self._end(True)
        self._changed.set()

    def _end(self, lost: bool) -> None:
        if not self._ended:
            self._ended, self.was_lost = True, lost
            self._changed.set()

    async def next(self) -> pb.RecordResponse | None:
        """The next entries; None: the recording has ended."""
        while not self._entries:
            if self._ended:
                return None
            self._changed.clear()
            await self._changed.wait()
        response, size = pb.RecordResponse(), 0
        while self._entries and (not size or size < _MESSAGE_BYTES):
            entry = self._entries.popleft()
            response.entries.append(entry)
            size += entry.ByteSize()
        self._waiting_bytes -= size
        return response


def _split(entry: RecordingEntry) -> list[RecordingEntry]:
    """Splits a large batch. No session runs between the parts, so the meaning stays the same."""
    batch = entry.delta_batch
    if len(batch.ops) < 2 or entry.ByteSize() <= _MESSAGE_BYTES:
        return [entry]
    half = len(batch.ops) // 2
    parts = ((batch.first_seq, batch.ops[:half]), (batch.first_seq + half, batch.ops[half:]))
    return [
        piece
        for first_seq, ops in parts
        for piece in _split(
            RecordingEntry(
                delta_batch=delta_pb2.DeltaBatch(first_seq=first_seq, ops=ops),
                entry_time=entry.entry_time,
            )
        )
    ]


class RecordingServicer(RecordingServiceServicer):
    """Serves Record."""

    def __init__(self, clusters: Clusters, env: CoreEnvironment) -> None:
        self._clusters = clusters
        self._env = env
        self._running = 0

    async def Record(  # noqa: N802
        self, request: pb.RecordRequest, context: Any
    ) -> AsyncIterator[pb.RecordResponse]:
        try:
            cluster = self._clusters.find(request.cluster)
            if self._running >= MAX_RECORDINGS:
                raise errors.LimitError("recordings at once", MAX_RECORDINGS, self._running + 1)
            self._running += 1
            try:
                async for response in self._listen(cluster, request):
                    yield response
            finally:
                self._running -= 1
        except errors.ServiceError as error:
            await abort(context, error)

    async def _listen(
        self, cluster: Cluster, request: pb.RecordRequest
    ) -> AsyncIterator[pb.RecordResponse]:
        loop = asyncio.get_running_loop()
        listener = StreamListener(loop)
        await cluster.owner.call(lambda served: self._begin(cluster, served, listener))
        ending = None
        if request.HasField("duration"):
            seconds = request.duration.ToNanoseconds() / _SECOND_NS
            ending = loop.call_later(seconds, lambda: listener.end(lost=False))
        try:
            while (response := await listener.next()) is not None:
                yield response
        finally:
            if ending is not None:
                ending.cancel()
            cluster.recorder.remove_listener(listener)
        if listener.was_lost:
            limit = MAX_WAITING_BYTES
            raise errors.LimitError("bytes waiting for a recording", limit, limit + 1)

    def _begin(self, cluster: Cluster, served: ServedCluster, listener: StreamListener) -> None:
        if not served.is_settled:
            raise errors.NotReadyError(cluster.name)
        with served.views.while_busy(served.state):
            cluster.recorder.add_listener(listener, served.state, self._env.clock.now_ns())
