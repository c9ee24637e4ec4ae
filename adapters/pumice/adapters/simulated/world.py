"""The simulated cluster as a World."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from pumice.adapters.runtime.clock import Clock, SystemClock
from pumice.adapters.runtime.objects import KindNumber, identity
from pumice.adapters.runtime.world import (
    ApplyCode,
    ApplyResult,
    ConfigurationSeen,
    ReadError,
    Reading,
    WorldEvent,
)
from pumice.adapters.simulated.api import SimulatedApi
from pumice.adapters.simulated.controller import ClusterController
from pumice.adapters.simulated.event_queue import EventQueue
from pumice.adapters.simulated.journal import Entry, FileJournal, Journal, NoJournal
from pumice.adapters.simulated.options import SimulationOptions
from pumice.adapters.simulated.report import SimulationReport
from pumice.adapters.simulated.seeded_random import SeededRandom
from pumice.adapters.simulated.store import ObjectStore
from pumice.adapters.simulated.timestamps import Timestamps
from pumice.v1.cluster_service_pb2 import CAPABILITY_EVICT, Capability
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.decision_pb2 import Bind, Evict
from pumice.v1.object_pb2 import KIND_POD, ObjectRef
from pumice.v1.status_pb2 import Event, StatusChange


class SimulatedCalls:
    """Calls of the simulated API server. A call returns when its result is durable."""

    def __init__(
        self,
        options: SimulationOptions,
        clock: Clock,
        perform: Callable[[str, Message], ApplyResult],
        flushed: Callable[[], Awaitable[None]],
    ) -> None:
        self._options, self._clock = options, clock
        self._perform, self._flushed = perform, flushed
        self._random = SeededRandom(options.seed)
        self._binds = 0

    async def bind(self, order: Bind) -> ApplyResult:
        self._binds += 1
        rate = self._options.faults.slow_binds
        is_slow = rate > 0 and self._random.draw("slow", order.uid, self._binds) < rate
        return await self._call("bind", order, is_slow=is_slow)

    async def evict(self, order: Evict) -> ApplyResult:
        return await self._call("evict", order)

    async def write_status(self, change: StatusChange) -> ApplyResult:
        return await self._call("status", change)

    async def write_event(self, event: Event) -> ApplyResult:
        return await self._call("event", event)

    async def _call(self, call: str, argument: Message, *, is_slow: bool = False) -> ApplyResult:
        options = self._options
        seconds = options.slow_call_seconds if is_slow else options.call_seconds
        if seconds:
            await self._clock.sleep(seconds)
        result = self._perform(call, argument)
        await self._flushed()
        return result


class SimulatedWorld:
    """A cluster that depends on its options and on the calls of the runtime.

    With a state file the cluster survives its process. Raises StateError for a file from which it
    cannot be restored.
    """

    def __init__(
        self, options: SimulationOptions, clock: Clock | None = None, state: Path | None = None
    ) -> None:
        self.options = options
        clock = clock or SystemClock()
        self._report = SimulationReport()
        self.store = ObjectStore()
        self.event_queue = EventQueue(clock, options.speed)
        now_ms = clock.unix_ms()
        self._journal: Journal = (
            NoJournal(now_ms) if state is None else FileJournal(state, options, now_ms)
        )
        self.timestamps = Timestamps(self._journal.start_unix_ms, options.speed)
        shared = (self.event_queue, self.timestamps)
        self._controller = ClusterController(options, self.store, *shared, self._report)
        self._api = SimulatedApi(options, self.store, self._controller, *shared, self._report)
        self._calls = SimulatedCalls(options, clock, self._perform, self._journal.flushed)
        self._controller.begin()
        for entry in self._journal.entries():
            self.event_queue.run_until(entry.second)
            if entry.argument is not None:
                self._api.answer(entry.argument)
        self.event_queue.resume()

    async def run(self) -> None:
        """Handles events until all jobs are done or the time is up; then every watch ends."""
        try:
            await self.event_queue.run(lambda: self._controller.is_over, self._write_time)
        finally:
            self.store.close()

    async def flushed(self) -> None:
        """Returns when the state of the cluster is on disk."""
        await self._journal.flushed()

    def report(self) -> SimulationReport:
        return self._controller.current_report()

    @property
    def events(self) -> list[Event]:
        """The first events that were written."""
        return self._api.written_events

    def _perform(self, call: str, argument: Message) -> ApplyResult:
        second = self.event_queue.clock_second()
        self.event_queue.run_until(second)
        self._journal.write(Entry(second, call, argument))
        return self._api.answer(argument)

    def _write_time(self) -> None:
        self._journal.write(Entry(self.event_queue.second))

    @property
    def capabilities(self) -> Sequence[Capability.ValueType]:
        return (CAPABILITY_EVICT,)

    @property
    def binder(self) -> SimulatedCalls:
        return self._calls

    @property
    def evictor(self) -> SimulatedCalls:
        return self._calls

    @property
    def status_updater(self) -> SimulatedCalls:
        return self._calls

    async def watch(self) -> AsyncGenerator[WorldEvent]:
        async with aclosing(self.store.watch(ConfigurationSeen(self._configuration()))) as events:
            async for event in events:
                # A restart must not undo changes that a watcher has seen.
                await self._journal.flushed()
                yield event

    async def read_pod(self, namespace: str, name: str) -> Reading:
        return await self.read_object(KIND_POD, namespace, name)

    async def read_object(self, kind: KindNumber, namespace: str, name: str) -> Reading:
        found = self.store.read(kind, namespace, name)
        uid = "" if found.object is None else identity(found.object).uid
        if self._perform("read", ObjectRef(kind=kind, uid=uid)).code is not ApplyCode.DONE:
            raise ReadError("the server failed")
        found = self.store.read(kind, namespace, name)
        await self._journal.flushed()
        return found

    def _configuration(self) -> Configuration:
        configuration = Configuration(scheduler_conf=self.options.scheduler_conf)
        if self.options.schedule_period:
            period = Duration()
            period.FromNanoseconds(int(self.options.schedule_period * 1e9))
            configuration.schedule_period.CopyFrom(period)
        return configuration
