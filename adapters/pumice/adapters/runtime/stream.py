"""One stream to the core, from Hello to its end.

Two loops share it: one writes what the outbox holds, within the credit the core gives; the other
reads and hands on. Neither waits for a cluster: decisions and statuses go to queues of their own.
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
_LAST_WORDS_SECONDS: Final = 1.0
# Outcomes and pods that only confirm binds, and reports of nodes, wait for so many times as long as
# other ops. A message costs a core as much as twenty such ops.
_FLUSHES_IN_WAIT: Final = 10


class _StreamOver(Exception):  # noqa: N818 - the usual end of a stream is no error
    """Carries the end of the stream out of the loops."""

    def __init__(self, end: StreamEnd) -> None:
        super().__init__(end.reason)
        self.end = end


def _as_it_is(request: bytes) -> bytes:
    return request


@dataclass(slots=True)
class _Credit:
    """The highest number that may be sent."""

    floor: int = 0
    limit: int = 0

    def start(self, after_seq: int, credit: int) -> None:
        self.floor, self.limit = after_seq, after_seq + credit

    def acknowledged(self, seq: int, credit: int) -> None:
        # An Ack of ops before the snapshot gives no credit for it.
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
        # How long an apply call takes at present.
        self._call_seconds = call_seconds
        self._hello, self._outbox, self._inbox = hello, outbox, inbox
        self._options, self._clock, self._metrics = options, clock, metrics
        # Batches come encoded from the outbox, so the serializer passes bytes on.
        connect = channel.stream_stream(
            METHOD, request_serializer=_as_it_is, response_deserializer=ConnectResponse.FromString
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
        """Ends the stream as a broken network would."""
        self._is_cut = True
        self._call.cancel()

    async def run(self) -> StreamEnd:
        """Serves the stream until it ends."""
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._greet()
            tasks = [asyncio.create_task(loop()) for loop in (self._read, self._write, self._tick)]
            end = await self._first_end(tasks)
        except _StreamOver as over:
            end = over.end
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            end = await self._end_by_status()
        except asyncio.CancelledError:
            # Cancelling the call cancels the tasks that wait for it. A cancellation of this task
            # has to be passed on, also when the stream was cut at the same moment.
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
            # A failed write has no reason; the GoAway or the status has one.
            last_words = asyncio.create_task(self._clock.sleep(_LAST_WORDS_SECONDS))
            await asyncio.wait([reader, last_words], return_when=asyncio.FIRST_COMPLETED)
            await end_tasks(last_words)
        for task in tasks:
            if task.done():
                task.result()
        raise AssertionError("the loops of a stream end by raising")

    async def _end_by_status(self) -> StreamEnd:
        code, text = await self._call.code(), await self._call.details()
        detail = read_status_details(await self._call.trailing_metadata())
        return end_of_status(code, text or "", detail, welcomed=self.welcomed)

    # Hello and Welcome.

    async def _greet(self) -> None:
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
            reason = f"cannot go on after op {welcome.resume_after_seq}"
            end = StreamEnd(NextStep.NEW_INCARNATION, reason, is_refusal=True)
            raise _StreamOver(end)

    # Writing.

    async def _write(self) -> None:
        if self._wants_snapshot:
            await self._inbox.close(tell=False)
            # A core that gets a snapshot needs no outcomes of earlier decisions.
            self._inbox.forget_reported()
            await self._put_begin([])
        while True:
            self._wake.clear()
            await self._put_marks()
            if not await self._put_batch():
                await self._wake.wait()

    async def _put_marks(self) -> None:
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
        kinds = self._inbox.take_wanted_kinds()
        if kinds:
            await self._inbox.close(tell=True)
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
        batch = self._outbox.take(room, limits.batch_bytes, limits.max_message_bytes)
        for held in self._outbox.take_oversized():
            self._metrics.count("oversized_objects")
            log.error("%s is too large to be sent; the core does not see it", held.identity)
        if batch is None:
            # The last object of a snapshot may have been deleted before it was sent.
            return self._outbox.in_snapshot
        self._metrics.count("batches")
        self._metrics.count("ops", len(batch.ops))
        await self._call.write(batch_request(batch.first_seq, batch.ops))
        return True

    async def _wait_for_more(self) -> None:
        """Waits for ops that share the batch; longer while all only tell what the core assumes.

        While apply calls are slow, news waits longer too, up to half the time of a call: a decision
        would begin hardly sooner, and every batch costs the core a message each way.
        """
        outbox, flush = self._outbox, self._options.flush_seconds
        if not flush:
            return
        flushes = min(max(1, int(self._call_seconds() / 2 / flush)), _FLUSHES_IN_WAIT)
        for pause in (flushes, *[1] * (_FLUSHES_IN_WAIT - flushes)):
            if outbox.in_snapshot or outbox.waiting_bytes >= self._limits.batch_bytes:
                return
            await self._clock.sleep(pause * flush)
            if outbox.has_news:
                return

    async def _put(self, request: ConnectRequest) -> None:
        await self._call.write(request.SerializeToString())

    async def _tick(self) -> None:
        interval = self._limits.digest_interval.ToTimedelta().total_seconds()
        while True:
            await self._clock.sleep(interval or _DEFAULT_DIGEST_SECONDS)
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
                    self._inbox.take_ack(ack)
                    self._credit.acknowledged(ack.applied_seq, ack.credit)
                case "go_away":
                    end = end_of_goaway(message.go_away)
                    self._inbox.drop_queued(fenced=end.next is not NextStep.AGAIN)
                    raise _StreamOver(end)
                case _:
                    self._inbox.take(message)
            self._wake.set()

    async def _next(self) -> ConnectResponse:
        message = await self._call.read()
        if isinstance(message, ConnectResponse):
            return message
        raise _StreamOver(await self._end_by_status())
