"""The adapter runtime: connects a world to a core."""

import asyncio
import logging
import random
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import grpc

from pumice.adapters.runtime.apply import ApplyPool
from pumice.adapters.runtime.buffer import ResumeBuffer
from pumice.adapters.runtime.call_limiter import CallLimiter
from pumice.adapters.runtime.clock import Clock, SystemClock, end_tasks, within
from pumice.adapters.runtime.configurations import ConfigurationKeeper, ConfigurationStore
from pumice.adapters.runtime.connect import ChannelFactory
from pumice.adapters.runtime.epochs import Epochs, ExclusiveEpochs, ProcessEpochs
from pumice.adapters.runtime.errors import RefusedError, ReplacedError
from pumice.adapters.runtime.event_handler import WorldEventHandler
from pumice.adapters.runtime.event_writer import EventWriter
from pumice.adapters.runtime.executor import DecisionExecutor
from pumice.adapters.runtime.foreign_binds import ForeignBinds
from pumice.adapters.runtime.inbox import Inbox
from pumice.adapters.runtime.ledger import Ledger
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.outbox import Outbox
from pumice.adapters.runtime.questions import QuestionAnswerer
from pumice.adapters.runtime.resync import ResyncQueue
from pumice.adapters.runtime.status_writer import StatusWriter
from pumice.adapters.runtime.stream import CoreStream
from pumice.adapters.runtime.stream_end import NextStep, ReconnectPolicy, StreamEnd
from pumice.adapters.runtime.unseen_decisions import UnseenDecisions
from pumice.adapters.runtime.world import DataSeen, DelaysEvents, World, WorldEvent
from pumice.v1.cluster_service_pb2 import Hello
from pumice.v1.decision_pb2 import Bind, Evict

log = logging.getLogger(__name__)

PROTOCOL = 1
_UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED.name
_RESYNC_READERS = 4


def random_incarnation() -> str:
    return secrets.token_hex(16)


class AdapterRuntime:
    """Streams a world to a core and applies its decisions, across restarts of both."""

    def __init__(
        self,
        world: World,
        open_channel: ChannelFactory,
        options: RuntimeOptions,
        *,
        epochs: Epochs | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        metrics: Metrics | None = None,
        configurations: ConfigurationStore | None = None,
        new_incarnation: Callable[[], str] = random_incarnation,
    ) -> None:
        self.metrics = metrics or Metrics()
        self._world, self._open_channel, self._options = world, open_channel, options
        self._clock: Clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self._epochs = ExclusiveEpochs(
            epochs or ProcessEpochs(self._clock), options.other_scheduler_check_seconds, self._clock
        )
        self._new_incarnation = new_incarnation
        self._incarnation = ""
        self._epoch = 0
        self._stream: CoreStream | None = None
        # Whether a core has accepted this adapter before.
        self._is_known = False
        self._drain_requested = asyncio.Event()
        self._compose(configurations)

    def _compose(self, configurations: ConfigurationStore | None) -> None:
        options, clock, rng, metrics = self._options, self._clock, self._rng, self.metrics
        self._buffer = ResumeBuffer()
        self._outbox = Outbox(self._buffer, self._wake)
        self._ledger = Ledger(self._buffer.group)
        self.configurations = ConfigurationKeeper(
            self._buffer,
            self._outbox,
            configurations,
            clock,
            metrics,
            use_default=options.default_configuration,
        )
        limiter = self._limiter = CallLimiter(options.calls_in_flight, clock)
        updater = self._world.status_updater
        self._statuses = StatusWriter(updater, self._buffer, limiter, options, clock, rng, metrics)
        self._events = EventWriter(updater, self._buffer, limiter, options, clock, rng, metrics)
        self._foreign = ForeignBinds(
            options.scheduler_names,
            self._epochs.may_act,
            self._events.add,
            clock,
            metrics,
        )
        self._epochs.foreign = self._foreign
        self._unseen = UnseenDecisions()
        self._handler = WorldEventHandler(
            self._buffer,
            self._outbox,
            self.configurations,
            self._statuses,
            self._foreign,
            self._unseen,
            metrics,
        )
        self._resync = ResyncQueue(
            self._world, self._handler, options.resync_backoff, clock, rng, metrics
        )
        executor = DecisionExecutor(
            self._world,
            self._ledger,
            limiter,
            options.call_timeout_seconds,
            clock,
            metrics,
            self._epochs.may_act,
            self._note_call,
        )
        self._pool = ApplyPool(
            executor, self._ledger, self._resync, self._outbox.report, options, clock, rng, metrics
        )
        limiter.expects_apply = self._pool.has_queued
        self._pool.announce = self._events.add
        self._pool.on_end = self._note_end
        self._handler.on_apply_timeout = self._pool.set_apply_timeout
        publish = lambda data: self._handler.handle(DataSeen(data))  # noqa: E731
        self._questions = QuestionAnswerer(publish, clock, metrics)

    def _note_call(self, order: Bind | Evict) -> None:
        self._unseen.begin(order)
        if isinstance(order, Bind):
            self._foreign.note_bind(order)

    def _note_end(self, order: Bind | Evict, is_applied: bool) -> None:
        self._unseen.end(order, is_applied=is_applied)
        if is_applied and isinstance(order, Bind):
            self._statuses.forget_wait(order.uid)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be sent, acknowledged, applied or written."""
        return (
            self._is_reported and self._pool.is_idle and self._is_written and not len(self._resync)
        )

    @property
    def _is_written(self) -> bool:
        """Whether every status and event is written."""
        return self._statuses.is_idle and self._events.is_idle

    @property
    def _is_reported(self) -> bool:
        """Whether the core has acknowledged every op."""
        outbox = self._outbox
        return not outbox.has_work and outbox.acknowledged_seq == outbox.last_seq

    @property
    def is_connected(self) -> bool:
        """Whether a core has accepted the stream."""
        return self._stream is not None and self._stream.welcomed

    @property
    def unacknowledged(self) -> tuple[int, int]:
        """The last acknowledged op, and the number of ops sent after it."""
        outbox = self._outbox
        return outbox.acknowledged_seq, outbox.last_seq - outbox.acknowledged_seq

    @property
    def is_served(self) -> bool:
        """Whether a core has accepted the stream and the snapshot, so that it can decide."""
        return self.is_connected and not self._outbox.in_snapshot

    def cut(self) -> None:
        """Breaks the current stream, like a network failure."""
        if self._stream is not None:
            self._stream.cut()

    def drain(self) -> None:
        """Makes `run` end: no new decisions, begun gangs are completed, outcomes are reported."""
        self._drain_requested.set()

    async def finish_calls(self) -> None:
        """Drops decisions that have not begun, and waits for the others, up to a limit."""
        self._ledger.forget_incomplete()
        await self._pool.pause(report=False)

    async def run(self) -> None:
        """Runs until the world ends or is drained. Raises AdapterError if it cannot continue."""
        watch = asyncio.create_task(self._watch(self._world.watch()))
        keepers = [
            asyncio.create_task(self._serve()),
            *(asyncio.create_task(self._resync.run()) for _ in range(_RESYNC_READERS)),
        ]
        drain = asyncio.create_task(self._drain_requested.wait())
        try:
            tasks = [watch, drain, *keepers]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if drain.done():
                await self._drain()
            else:
                await self._send_last_ops()
        finally:
            await end_tasks(watch, drain, *keepers)
            await self._questions.close()
            await self._pool.stop()
            await self._statuses.stop()
            await self._events.stop()
            await self.configurations.stop()

    # The world.

    async def _watch(self, events: AsyncIterator[WorldEvent]) -> None:
        async for event in events:
            self._handler.handle(event)
        self._handler.synced.set()

    async def _drain(self) -> None:
        began = self._clock.now()
        self._ledger.forget_incomplete()
        complete = await self._pool.close(self._options.shutdown_timeout_seconds)
        self._limiter.expect_no_more_binds()
        self._statuses.end_delays()
        reported = await self._until(
            lambda: self._is_written and (self._is_reported or not self.is_served),
            self._options.report_timeout_seconds,
        )
        log.info(
            "drained in %.2f s: decisions in flight %s, their outcomes and events %s",
            self._clock.now() - began,
            "completed" if complete else "not completed in time",
            "reported" if reported else "not all reported in time",
        )

    async def _send_last_ops(self) -> None:
        """Waits until the core has acknowledged the last ops of a world that ended."""
        seconds = self._options.last_ops_timeout_seconds
        if not await self._until(lambda: self.is_idle, seconds):
            log.warning("the world ended before the core acknowledged the last ops")

    async def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        async def waited() -> None:
            while not condition():
                await self._clock.sleep(0.01)

        try:
            await within(self._clock, seconds, waited())
        except TimeoutError:
            return False
        return True

    # The core.

    async def _serve(self) -> None:
        await self._handler.synced.wait()
        options = self._options
        policy = ReconnectPolicy(options.reconnect, options.refusal_backoff, self._rng)
        while True:
            if not self._epochs.may_act():
                # The core of the next leader computes decisions and statuses again.
                self._drop_queued()
            epoch = await self._epochs.current()
            if epoch != self._epoch:
                self._drop_queued()
                self._epoch = epoch
                self._begin_incarnation()
            began = self._clock.now()
            end = await self._serve_one_stream()
            delay = policy.delay_after(end, self._clock.now() - began)
            self.metrics.count("stream_ends", next=end.next.value)
            if end.is_refusal:
                log.warning(
                    "the core ended the stream (%s); the next one begins in %.1f s",
                    end.reason,
                    delay,
                )
            elif policy.failures & (policy.failures - 1) == 0:
                # Attempts to reach an absent core are logged at powers of two.
                log.info("the stream ended (%s), attempt %d", end.reason, policy.failures)
            await self._act_on_end(end)
            await self._clock.sleep(delay)

    async def _serve_one_stream(self) -> StreamEnd:
        if isinstance(self._world, DelaysEvents):
            self._world.release_events()
            # The watch handles them before the next stream begins.
            await asyncio.sleep(0)
        channel = self._open_channel()
        inbox = Inbox(
            self._epoch,
            self._buffer,
            self._outbox,
            self._ledger,
            self._pool,
            self._statuses,
            self._events,
            self._resync,
            self.configurations,
            self._questions,
            self._handler.show_applied,
            self.metrics,
        )
        stream = CoreStream(
            channel,
            self._hello(),
            self._outbox,
            inbox,
            self._options,
            self._clock,
            self.metrics,
            lambda: self._limiter.apply_durations.mean,
        )
        self._stream = stream
        try:
            return await stream.run()
        finally:
            self._stream = None
            self._is_known = self._is_known or stream.welcomed
            self._ledger.forget_incomplete()
            await channel.close()

    async def _act_on_end(self, end: StreamEnd) -> None:
        refused = end.next is NextStep.STOP_REFUSED and end.code == _UNAUTHENTICATED
        if refused and self._is_known:
            # A token was rotated, and one side does not have the new token yet.
            end = replace(end, next=NextStep.AGAIN)
        match end.next:
            case NextStep.STOP_REPLACED:
                raise ReplacedError
            case NextStep.STOP_REFUSED:
                raise RefusedError(end.code, end.reason)
            case NextStep.NEW_EPOCH:
                self._drop_queued()
                await self._epochs.renew(self._epoch)
            case NextStep.NEW_INCARNATION:
                self._begin_incarnation()
            case NextStep.AGAIN if self._outbox.in_snapshot:
                # After an incomplete snapshot the stream cannot be resumed.
                self._begin_incarnation()
            case NextStep.AGAIN:
                pass

    def _drop_queued(self) -> None:
        """Drops decisions and statuses of an earlier epoch: another adapter may have led since."""
        self._pool.drop_queued(report=False)
        self._statuses.drop_all()

    def _begin_incarnation(self) -> None:
        self._incarnation = self._new_incarnation()
        self._outbox.reset()

    def _hello(self) -> Hello:
        return Hello(
            cluster=self._options.cluster,
            adapter_id=self._options.adapter_id,
            incarnation=self._incarnation,
            epoch=self._epoch,
            min_protocol=PROTOCOL,
            max_protocol=PROTOCOL,
            capabilities=self._world.capabilities,
            last_acknowledged_seq=self._outbox.acknowledged_seq,
            digests=self._outbox.acknowledged_digests(),
            held_decision_ids=self._ledger.held_ids(),
            adapter_version=self._options.adapter_version,
        )

    def _wake(self) -> None:
        if self._stream is not None:
            self._stream.wake()
