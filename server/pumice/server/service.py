"""ClusterService: the streams of adapters. Streams run on the loop, engines on owner threads."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar

import grpc

from pumice.server import errors
from pumice.server.clusters import Cluster, Clusters
from pumice.server.core_environment import CoreEnvironment
from pumice.server.decoding import received
from pumice.server.object_sizes import large_ops
from pumice.server.peers import PeerCounts, peer_of
from pumice.server.received_batches import ReceivedBatch
from pumice.server.rules import StreamRules, check_epoch, check_hello, check_kinds
from pumice.server.status import grpc_status
from pumice.server.stream import AdapterStream
from pumice.v1 import cluster_service_pb2, cluster_service_pb2_grpc, delta_pb2

log = logging.getLogger("pumice.server")
T = TypeVar("T")
Method = Callable[[Any, Any, Any], Awaitable[T]]
_SECOND_NS = 1_000_000_000
_FIRST_MESSAGE_SECONDS = 5.0


def unexpected_error(error: BaseException) -> BaseException | None:
    """The error if its traceback should be logged, otherwise None."""
    return None if isinstance(error, errors.ServiceError) else error


async def abort(context: Any, error: BaseException) -> None:
    """Ends a call with the status of an error."""
    status = grpc_status(error)
    if status.code is grpc.StatusCode.INTERNAL:
        log.error("call failed: %s", error, exc_info=unexpected_error(error))
    await context.abort(status.code, status.details, status.trailing_metadata)


def abort_on_error(method: Method[T]) -> Method[T]:
    """Ends the call with a status when the method raises an error."""

    @wraps(method)
    async def call(self: Any, request: Any, context: Any) -> T:
        try:
            return await method(self, request, context)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await abort(context, error)
            raise

    return call


async def wait_for_first_message(requests: AsyncIterator[Any]) -> None:
    """Waits for the first message before a stream is refused.

    A client that is refused while it sends its first message would see a failed write instead of
    the status.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(_FIRST_MESSAGE_SECONDS):
            await anext(aiter(requests), None)


class _NotReadError(Exception):
    """The adapter does not read its responses."""


class ClusterServicer(cluster_service_pb2_grpc.ClusterServiceServicer):
    """Serves Connect."""

    def __init__(self, clusters: Clusters, env: CoreEnvironment) -> None:
        self._clusters = clusters
        self._env = env
        self._streams = PeerCounts("streams", env.limits.streams_per_peer)
        self._snapshots = PeerCounts("unfinished snapshots", env.limits.snapshots_per_peer)
        self._open: set[AdapterStream] = set()
        # Timeouts of streams that have not sent Hello, by peer, the oldest first.
        self._silent: dict[str, deque[asyncio.Timeout]] = {}
        self.draining = False

    async def Connect(  # type: ignore[override]  # noqa: N802
        self, request_iterator: AsyncIterator[cluster_service_pb2.ConnectRequest], context: Any
    ) -> None:
        try:
            if self.draining:
                await wait_for_first_message(request_iterator)
                raise errors.ShuttingDownError
            peer = peer_of(context)
            first = await self._receive_hello(request_iterator, peer)
            with self._streams.acquired(peer):
                await self._serve(first, request_iterator, context)
        except _NotReadError:
            # A status cannot be sent either, so the call is cancelled.
            raise asyncio.CancelledError from None
        except Exception as error:
            await abort(context, error)

    async def _receive_hello(
        self, requests: AsyncIterator[cluster_service_pb2.ConnectRequest], peer: str
    ) -> cluster_service_pb2.ConnectRequest:
        """Waits for Hello, up to a timeout. Of too many silent streams, the oldest one is ended."""
        limits, silent = self._env.limits, self._silent.setdefault(peer, deque())
        if len(silent) >= limits.streams_per_peer:
            silent.popleft().reschedule(0.0)
        try:
            async with asyncio.timeout(limits.hello_timeout_ns / _SECOND_NS) as timer:
                silent.append(timer)
                first = await anext(aiter(requests), None)
        except TimeoutError:
            raise errors.HelloTimeoutError from None
        finally:
            if timer in silent:
                silent.remove(timer)
            if not silent:
                self._silent.pop(peer, None)
        if first is None:
            raise errors.HelloMissingError
        return first

    async def _serve(
        self,
        first: cluster_service_pb2.ConnectRequest,
        requests: AsyncIterator[cluster_service_pb2.ConnectRequest],
        context: Any,
    ) -> None:
        limits = self._env.limits
        hello, now_ns = check_hello(first), self._env.clock.now_ns()
        check_epoch(hello.epoch, self._clusters.epoch_of(hello.cluster), now_ns, limits)
        cluster = self._clusters.of(hello.cluster)
        loop = asyncio.get_running_loop()
        stream = AdapterStream(hello, peer_of(context), limits, loop, now_ns)
        cluster.admit(stream)
        gauge = self._env.metrics.streams.labels(cluster.name)
        self._open.add(stream)
        gauge.inc()
        try:
            await self._exchange(cluster, stream, requests, context)
        finally:
            gauge.dec()
            self._open.discard(stream)
            stream.finished.set()
            cluster.release(stream)
        if stream.error is not None:
            raise stream.error

    async def _exchange(
        self,
        cluster: Cluster,
        stream: AdapterStream,
        requests: AsyncIterator[cluster_service_pb2.ConnectRequest],
        context: Any,
    ) -> None:
        """Reads and writes concurrently until one side ends the stream."""
        reading = asyncio.create_task(self._read(cluster, stream, requests))
        writing = asyncio.create_task(_write(stream, context))
        ending = asyncio.create_task(stream.until_ended())
        tasks = (reading, writing, ending)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            # A call allows one write at a time, so the status is sent after the last write.
            if not ending.done():
                stream.drop()
            await asyncio.wait((writing,), timeout=self._env.limits.go_away_ns / _SECOND_NS)
            if not writing.done():
                raise _NotReadError
            if reading.done() and not reading.cancelled():
                reading.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(
        self,
        cluster: Cluster,
        stream: AdapterStream,
        requests: AsyncIterator[cluster_service_pb2.ConnectRequest],
    ) -> None:
        served = cluster.served
        resume_after = await cluster.owner.call(lambda _: served.attach(stream))
        credit = self._env.limits.credit
        stream.rules = StreamRules(stream.hello.incarnation, credit, resume_after)
        holds_snapshot = False
        try:
            async for request in requests:
                pending = stream.rules.pending_bytes
                self._handle(cluster, stream, stream.rules, request)
                if stream.rules.pending_bytes == pending:
                    # Credit does not limit markers, digests and duplicates, so each of them is
                    # processed before the next message is read.
                    with suppress(errors.NotReadyError):
                        await cluster.owner.call(lambda _: None)
                await stream.until_pending_below(self._env.limits.credit_bytes)
                if stream.rules.in_snapshot != holds_snapshot:
                    holds_snapshot = not holds_snapshot
                    if holds_snapshot:
                        self._snapshots.acquire(stream.peer)
                    else:
                        self._snapshots.release(stream.peer)
        finally:
            if holds_snapshot:
                self._snapshots.release(stream.peer)

    def _handle(
        self,
        cluster: Cluster,
        stream: AdapterStream,
        rules: StreamRules,
        request: cluster_service_pb2.ConnectRequest,
    ) -> None:
        served, post = cluster.served, cluster.owner.post
        match request.WhichOneof("message"):
            case "hello":
                raise errors.HelloRepeatedError
            case "delta_batch":
                batch = request.delta_batch
                message = received.get()
                large = large_ops(message.op_sizes, batch.first_seq)
                first_seq, new = rules.new_ops(batch, message.size)
                last_seq = rules.received
                if len(new) < len(batch.ops):
                    batch = delta_pb2.DeltaBatch(first_seq=first_seq, ops=new)
                post(ReceivedBatch(served, stream, batch, last_seq, large))
            case "snapshot_begin":
                begin = request.snapshot_begin
                rules.begin_snapshot(begin)
                kinds: list[int] = list(begin.kinds)
                post(lambda: served.begin_snapshot(stream, begin.first_seq, kinds))
            case "snapshot_end":
                end = request.snapshot_end
                rules.end_snapshot(end)
                post(lambda: served.end_snapshot(stream, end.seq, list(end.digests)))
            case "digest":
                digest = request.digest
                check_kinds(len(digest.digests))
                post(lambda: served.compare_digests(stream, digest.seq, list(digest.digests)))
            case _:
                # A message type that this core does not know is ignored.
                pass

    async def drain(self) -> None:
        """Refuses new streams, and ends the current ones with GoAway."""
        self.draining = True
        reason = cluster_service_pb2.GO_AWAY_REASON_SHUTTING_DOWN
        streams = list(self._open)
        for stream in streams:
            stream.end(reason, "the core is shutting down")
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * self._env.limits.go_away_ns / _SECOND_NS):
                for stream in streams:
                    await stream.finished.wait()


async def _write(stream: AdapterStream, context: Any) -> None:
    while (data := await stream.next()) is not None:
        await context.write(data)
