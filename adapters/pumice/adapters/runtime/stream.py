"""One stream to the core, from Hello to its end.

Two loops share it. One writes the ops of the outbox, within the credit of the core. The other reads
messages and passes them on. Neither waits for a cluster, because decisions and statuses have queues.
A timer makes a digest due at regular intervals.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import grpc
import grpc.aio

from pumice.adapters.runtime.clock import Clock, end_tasks, within
from pumice.adapters.runtime.encoding import batch_request
from pumice.adapters.runtime.inbox import Inbox
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import KindNumber
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.outbox import Outbox
from pumice.adapters.runtime.stream_end import NextStep, StreamEnd, end_of_goaway, end_of_status
from pumice.client.details import read_status_details
from pumice.v1.cluster_service_pb2 import (
    WELCOME_MODE_RESUME,
    ConnectRequest,
    ConnectResponse,
    Digest,
    Hello,
    Limits,
    Welcome,
)

log = logging.getLogger(__name__)

METHOD: Final = "/pumice.v1.ClusterService/Connect"
_DEFAULT_LIMITS: Final = Limits(max_message_bytes=4 << 20, batch_bytes=512 << 10, credit=10_000)
_DEFAULT_DIGEST_SECONDS: Final = 60.0
_END_REASON_SECONDS: Final = 1.0
# Factor for the delay of outcomes and pods that only confirm binds, and of reports of nodes. A
# message costs a core as much as twenty such ops.
_FLUSHES_IN_WAIT: Final = 10


class _StreamOver(Exception):  # noqa: N818 - the usual end of a stream is no error
    """Ends the loops of the stream."""

    def __init__(self, end: StreamEnd) -> None:
        super().__init__(end.reason)
        self.end = end


def _unchanged(request: bytes) -> bytes:
    return request


@dataclass(slots=True)
class _Credit:
    """The credit: the highest sequence number that may be sent."""

    floor: int = 0
    limit: int = 0

    def start(self, after_seq: int, credit: int) -> None:
        self.floor, self.limit = after_seq, after_seq + credit

    def acknowledged(self, seq: int, credit: int) -> None:
        # An Ack of ops before the snapshot gives no credit for the snapshot.
        if seq >= self.floor:
            self.limit = seq + credit


class CoreStream:
    """Runs the protocol over one channel."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        hello: Hello,
        outbox: Outbox,
        inbox: Inbox,
        options: RuntimeOptions,
        clock: Clock,
        metrics: Metrics,
        call_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.welcomed = False
        # The mean duration of recent apply calls.
        self._call_seconds = call_seconds
        self._hello, self._outbox, self._inbox = hello, outbox, inbox
        self._options, self._clock, self._metrics = options, clock, metrics
        # The outbox encodes batches, so the serializer returns the bytes unchanged.
        connect = channel.stream_stream(
            METHOD, request_serializer=_unchanged, response_deserializer=ConnectResponse.FromString
        )
        self._call: grpc.aio.StreamStreamCall[bytes, ConnectResponse] = connect()
        self._limits = _DEFAULT_LIMITS
        self._credit = _Credit()
        self._wake = asyncio.Event()
        self._wants_snapshot = False
        self._digest_is_due = False
        self._was_useful = False
        self._is_cut = False

    def wake(self) -> None:
        """Wakes the writer after new ops."""
        self._wake.set()

    def cut(self) -> None:
        """Ends the stream like a network failure."""
        self._is_cut = True
        self._call.cancel()

    async def run(self) -> StreamEnd:
        """Serves the stream until it ends."""
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._exchange_hello()
            tasks = [asyncio.create_task(loop()) for loop in (self._read, self._write, self._tick)]
            end = await self._first_end(tasks)
        except _StreamOver as over:
            end = over.end
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            end = await self._end_by_status()
        except asyncio.CancelledError:
            # Cancelling the call cancels the tasks that wait for it. A cancellation of this task
            # must be passed on, even if the stream was cut at the same moment.
            task = asyncio.current_task()
            if not self._is_cut or (task is not None and task.cancelling()):
                raise
            end = StreamEnd(NextStep.AGAIN, "the stream was cut")
        finally:
            await end_tasks(*tasks)
            self._call.cancel()
        return replace(end, was_useful=self._was_useful)

    async def _first_end(self, tasks: list[asyncio.Task[None]]) -> StreamEnd:
        reader = tasks[0]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not reader.done():
            # A failed write has no reason, but the GoAway or the status has one.
            end_timer = asyncio.create_task(self._clock.sleep(_END_REASON_SECONDS))
            await asyncio.wait([reader, end_timer], return_when=asyncio.FIRST_COMPLETED)
            await end_tasks(end_timer)
        for task in tasks:
            if task.done():
                task.result()
        raise AssertionError("the loops of a stream end by raising")

    async def _end_by_status(self) -> StreamEnd:
        code, text = await self._call.code(), await self._call.details()
        detail = read_status_details(await self._call.trailing_metadata())
        return end_of_status(code, text or "", detail, welcomed=self.welcomed)

    # Hello and Welcome.

    async def _exchange_hello(self) -> None:
        await self._put(ConnectRequest(hello=self._hello))
        try:
            seconds = self._options.welcome_timeout_seconds
            message = await within(self._clock, seconds, self._next())
        except TimeoutError:
            raise _StreamOver(StreamEnd(NextStep.AGAIN, "no Welcome from the core")) from None
        if message.HasField("go_away"):
            raise _StreamOver(end_of_goaway(message.go_away))
        if not message.HasField("welcome"):
            raise _StreamOver(StreamEnd(NextStep.AGAIN, "the core did not begin with Welcome"))
        self._begin(message.welcome)

    def _begin(self, welcome: Welcome) -> None:
        self.welcomed = True
        self._limits = Limits()
        self._limits.CopyFrom(_DEFAULT_LIMITS)
        self._limits.MergeFrom(welcome.limits)
        resumes = welcome.mode == WELCOME_MODE_RESUME
        mode = "resume" if resumes else "snapshot"
        self._metrics.count("streams", mode=mode)
        log.info("core %s accepts the stream (%s)", welcome.core_id, mode)
        if not resumes:
            self._wants_snapshot = True
        elif self._outbox.resume(welcome.resume_after_seq):
            self._inbox.open(0)
            self._credit.start(welcome.resume_after_seq, self._limits.credit)
        else:
            reason = f"cannot resume after op {welcome.resume_after_seq}"
            end = StreamEnd(NextStep.NEW_INCARNATION, reason, is_refusal=True)
            raise _StreamOver(end)

    # Writing.

    async def _write(self) -> None:
        if self._wants_snapshot:
            await self._inbox.close(report=False)
            # A core that gets a snapshot needs no outcomes of earlier decisions.
            self._inbox.forget_reported()
            await self._put_begin([])
        while True:
            self._wake.clear()
            await self._put_markers()
            if not await self._put_batch():
                await self._wake.wait()

    async def _put_markers(self) -> None:
        """Sends markers and digests."""
        end = self._outbox.end_snapshot()
        if end is not None:
            await self._put(ConnectRequest(snapshot_end=end))
            self._inbox.open(end.seq)
        if self._outbox.in_snapshot or self._outbox.is_resending:
            return
        if self._digest_is_due:
            self._digest_is_due = False
            digest = Digest(seq=self._outbox.last_seq, digests=self._outbox.digests())
            await self._put(ConnectRequest(digest=digest))
        kinds = self._inbox.pop_wanted_kinds()
        if kinds:
            await self._inbox.close(report=True)
            await self._put_begin(kinds)

    async def _put_begin(self, kinds: list[KindNumber]) -> None:
        begin = self._outbox.begin_snapshot(kinds)
        if not kinds:
            self._credit.start(begin.first_seq - 1, self._limits.credit)
        self._metrics.count("snapshots", kinds="some" if kinds else "all")
        await self._put(ConnectRequest(snapshot_begin=begin))
        self._wake.set()

    async def _put_batch(self) -> bool:
        room = self._credit.limit - self._outbox.next_seq + 1
        if room <= 0 or not self._outbox.has_work:
            return False
        await self._wait_for_more()
        limits = self._limits
        batch = self._outbox.next_batch(room, limits.batch_bytes, limits.max_message_bytes)
        for held in self._outbox.pop_oversized():
            self._metrics.count("oversized_objects")
            log.error("%s is too large to be sent, so the core does not have it", held.identity)
        if batch is None:
            # The last object of a snapshot may have been deleted before it was sent.
            return self._outbox.in_snapshot
        self._metrics.count("batches")
        self._metrics.count("ops", len(batch.ops))
        await self._call.write(batch_request(batch.first_seq, batch.ops))
        return True

    async def _wait_for_more(self) -> None:
        """Waits for more ops for the batch; longer if all of them confirm assumptions.

        While apply calls are slow, other ops wait too, up to half the duration of a call: decisions
        would hardly begin sooner, and every batch costs the core one message in each direction.
        """
        outbox, flush = self._outbox, self._options.flush_seconds
        if not flush:
            return
        flushes = min(max(1, int(self._call_seconds() / 2 / flush)), _FLUSHES_IN_WAIT)
        for pause in (flushes, *[1] * (_FLUSHES_IN_WAIT - flushes)):
            if outbox.in_snapshot or outbox.waiting_bytes >= self._limits.batch_bytes:
                return
            await self._clock.sleep(pause * flush)
            if outbox.has_urgent_work:
                return

    async def _put(self, request: ConnectRequest) -> None:
        await self._call.write(request.SerializeToString())

    async def _tick(self) -> None:
        interval = self._limits.digest_interval.ToTimedelta().total_seconds()
        while True:
            await self._clock.sleep(interval if interval > 0 else _DEFAULT_DIGEST_SECONDS)
            self._digest_is_due = True
            self._wake.set()

    # Reading.

    async def _read(self) -> None:
        while True:
            message = await self._next()
            match message.WhichOneof("message"):
                case "ack":
                    ack = message.ack
                    self._was_useful = True
                    self._inbox.handle_ack(ack)
                    self._credit.acknowledged(ack.applied_seq, ack.credit)
                case "go_away":
                    end = end_of_goaway(message.go_away)
                    self._inbox.drop_queued(fenced=end.next is not NextStep.AGAIN)
                    raise _StreamOver(end)
                case _:
                    self._inbox.handle(message)
            self._wake.set()

    async def _next(self) -> ConnectResponse:
        message = await self._call.read()
        if isinstance(message, ConnectResponse):
            return message
        raise _StreamOver(await self._end_by_status())
