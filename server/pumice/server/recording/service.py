"""RecordingService: the recording of a cluster as a stream."""

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
# A message of this size stays under the limit; larger batches are cut in two.
_MESSAGE_BYTES = 1024 * 1024
# Bytes that may wait for a slow caller.
MAX_WAITING_BYTES = 256 * 1024 * 1024


class StreamListener:
    """Entries that wait for one caller; the recorder adds them from its thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._entries: deque[RecordingEntry] = deque()
        self._waiting_bytes = 0
        self._ended = False
        self.was_lost = False
        self._news = asyncio.Event()

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
        self._entries.extend(_cut(entry) if size > _MESSAGE_BYTES else (entry,))
        if self._waiting_bytes > MAX_WAITING_BYTES:
            self._end(True)
        self._news.set()

    def _end(self, lost: bool) -> None:
        if not self._ended:
            self._ended, self.was_lost = True, lost
            self._news.set()

    async def next(self) -> pb.RecordResponse | None:
        """Some entries; None when there will be no more."""
        while not self._entries:
            if self._ended:
                return None
            self._news.clear()
            await self._news.wait()
        response, size = pb.RecordResponse(), 0
        while self._entries and (not size or size < _MESSAGE_BYTES):
            entry = self._entries.popleft()
            response.entries.append(entry)
            size += entry.ByteSize()
        self._waiting_bytes -= size
        return response


def _cut(entry: RecordingEntry) -> list[RecordingEntry]:
    """Splits a large batch: no session runs between the parts, so they mean the same."""
    batch = entry.delta_batch
    if len(batch.ops) < 2 or entry.ByteSize() <= _MESSAGE_BYTES:
        return [entry]
    half = len(batch.ops) // 2
    parts = ((batch.first_seq, batch.ops[:half]), (batch.first_seq + half, batch.ops[half:]))
    return [
        piece
        for first_seq, ops in parts
        for piece in _cut(
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
        await cluster.owner.ask(lambda served: self._begin(cluster, served, listener))
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
            cluster.recorder.leave(listener)
        if listener.was_lost:
            limit = MAX_WAITING_BYTES
            raise errors.LimitError("bytes waiting for a recording", limit, limit + 1)

    def _begin(self, cluster: Cluster, served: ServedCluster, listener: StreamListener) -> None:
        if not served.is_settled:
            raise errors.NotReadyError(cluster.name)
        with served.views.while_busy(served.state):
            cluster.recorder.listen(listener, served.state, self._env.clock.now_ns())
