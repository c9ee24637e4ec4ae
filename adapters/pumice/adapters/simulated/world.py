"""The simulated cluster as a World. It outlives the runtime that serves it, as a real one would."""

from collections.abc import AsyncIterator, Sequence

from google.protobuf.duration_pb2 import Duration

from pumice.adapters.runtime.clock import Clock, SystemClock
from pumice.adapters.runtime.objects import KindNumber
from pumice.adapters.runtime.world import ConfigurationSeen, ReadError, Reading, WorldEvent
from pumice.adapters.simulated.chance import Chance
from pumice.adapters.simulated.hands import SimulatedHands
from pumice.adapters.simulated.life import ClusterLife
from pumice.adapters.simulated.options import SimulationOptions
from pumice.adapters.simulated.report import SimulationReport
from pumice.adapters.simulated.store import ObjectStore
from pumice.adapters.simulated.timeline import Timeline
from pumice.v1.cluster_service_pb2 import CAPABILITY_EVICT, Capability
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.object_pb2 import KIND_POD
from pumice.v1.status_pb2 import Event


class SimulatedWorld:
    """A seeded cluster in memory. Run `live` beside whoever watches it."""

    def __init__(self, options: SimulationOptions, clock: Clock | None = None) -> None:
        self.options = options
        self._clock: Clock = clock or SystemClock()
        self._report = SimulationReport()
        self.store = ObjectStore()
        self.timeline = Timeline(self._clock, options.speed)
        self._life = ClusterLife(options, self.store, self.timeline, self._report)
        self._hands = SimulatedHands(
            options, self.store, self._life, self.timeline, self._clock, self._report
        )
        self._chance = Chance(options.seed)
        self._reads = 0
        self._life.begin()

    async def live(self) -> None:
        """Moves on until all jobs are done or the time is up; then every watch ends."""
        try:
            await self.timeline.run(lambda: self._life.is_over)
        finally:
            self.store.close()

    def report(self) -> SimulationReport:
        return self._life.close_report()

    @property
    def events(self) -> list[Event]:
        """The first events that were written, for tests and demonstrations."""
        return self._hands.events

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

    def watch(self) -> AsyncIterator[WorldEvent]:
        return self.store.watch(ConfigurationSeen(self._configuration()))

    async def read_pod(self, namespace: str, name: str) -> Reading:
        return await self.read_object(KIND_POD, namespace, name)

    async def read_object(self, kind: KindNumber, namespace: str, name: str) -> Reading:
        self._report.count_call("read")
        self._reads += 1
        rate = self.options.trouble.server_errors
        if rate and self._chance.draw("read", namespace, name, self._reads) < rate:
            raise ReadError("the server is in trouble")
        return self.store.read(kind, namespace, name)

    def _configuration(self) -> Configuration:
        configuration = Configuration(scheduler_conf=self.options.scheduler_conf)
        if self.options.schedule_period:
            period = Duration()
            period.FromNanoseconds(int(self.options.schedule_period * 1e9))
            configuration.schedule_period.CopyFrom(period)
        return configuration
