"""The simulated cluster as a World. It outlives the runtime that serves it, as a real one would."""

from collections.abc import AsyncGenerator, Sequence
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
from pumice.adapters.simulated.hands import SimulatedHands
from pumice.adapters.simulated.journal import Entry, FileJournal, Journal, NoJournal
from pumice.adapters.simulated.life import ClusterLife
from pumice.adapters.simulated.options import SimulationOptions
from pumice.adapters.simulated.report import SimulationReport
from pumice.adapters.simulated.store import ObjectStore
from pumice.adapters.simulated.timeline import Timeline
from pumice.v1.cluster_service_pb2 import CAPABILITY_EVICT, Capability
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.object_pb2 import KIND_POD, ObjectRef
from pumice.v1.status_pb2 import Event


class SimulatedWorld:
    """A seeded cluster. Run `live` beside whoever watches it.

    With a state file it outlives its process too: whoever starts with the file goes on where the
    cluster was. Raises StateError for a file that it cannot go on from.
    """

    def __init__(
        self, options: SimulationOptions, clock: Clock | None = None, state: Path | None = None
    ) -> None:
        self.options = options
        clock = clock or SystemClock()
        self._report = SimulationReport()
        self.store = ObjectStore()
        self.timeline = Timeline(clock, options.speed)
        self._life = ClusterLife(options, self.store, self.timeline, self._report)
        self._api = SimulatedApi(options, self.store, self._life, self.timeline, self._report)
        self._journal: Journal = NoJournal() if state is None else FileJournal(state, options)
        self._hands = SimulatedHands(options, clock, self._perform, self._journal.flushed)
        self._life.begin()
        for entry in self._journal.past():
            self.timeline.catch_up(entry.second)
            if entry.argument is not None:
                self._api.answer(entry.argument)
        self.timeline.go_on()

    async def live(self) -> None:
        """Moves on until all jobs are done or the time is up; then every watch ends."""
        try:
            await self.timeline.run(lambda: self._life.is_over, self._note_time)
        finally:
            self.store.close()

    async def settled(self) -> None:
        """When all that happened until now would survive the process."""
        await self._journal.flushed()

    def report(self) -> SimulationReport:
        return self._life.close_report()

    @property
    def events(self) -> list[Event]:
        """The first events that were written, for tests and demonstrations."""
        return self._api.events

    def _perform(self, call: str, argument: Message) -> ApplyResult:
        second = self.timeline.present()
        self.timeline.catch_up(second)
        self._journal.write(Entry(second, call, argument))
        return self._api.answer(argument)

    def _note_time(self) -> None:
        self._journal.write(Entry(self.timeline.now()))

    # The World protocol.

    @property
    def capabilities(self) -> Sequence[Capability.ValueType]:
        return (CAPABILITY_EVICT,)

    @property
    def binder(self) -> SimulatedHands:
        return self._hands

    @property
    def evictor(self) -> SimulatedHands:
        return self._hands

    @property
    def status_updater(self) -> SimulatedHands:
        return self._hands

    async def watch(self) -> AsyncGenerator[WorldEvent]:
        async with aclosing(self.store.watch(ConfigurationSeen(self._configuration()))) as events:
            async for event in events:
                # Nobody may see what a restart could take back.
                await self._journal.flushed()
                yield event

    async def read_pod(self, namespace: str, name: str) -> Reading:
        return await self.read_object(KIND_POD, namespace, name)

    async def read_object(self, kind: KindNumber, namespace: str, name: str) -> Reading:
        found = self.store.read(kind, namespace, name)
        uid = "" if found.object is None else identity(found.object).uid
        if self._perform("read", ObjectRef(kind=kind, uid=uid)).code is not ApplyCode.DONE:
            raise ReadError("the server is in trouble")
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
