"""A recording as a World. Decisions have no effect on it."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence

from pumice.adapters.runtime.clock import Clock, SystemClock
from pumice.adapters.runtime.objects import KindNumber, identity
from pumice.adapters.runtime.world import (
    DONE,
    ApplyResult,
    ConfigurationSeen,
    DataSeen,
    ObjectGone,
    ObjectSeen,
    Reading,
    Synced,
    WorldEvent,
)
from pumice.recordings import Recording
from pumice.recordings.changes import Change, Changes, SnapshotComplete
from pumice.v1.cluster_service_pb2 import CAPABILITY_EVICT, CAPABILITY_VOLUMES, Capability
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.decision_pb2 import Bind, Evict
from pumice.v1.object_pb2 import KIND_POD, Kind
from pumice.v1.status_pb2 import Event, StatusChange

_SECOND_NS = 1_000_000_000
# Time for the core's decisions after the last change.
_LINGER_SECONDS = 1.5


class ConfirmingCalls:
    """Confirms and counts all decisions, without an effect."""

    def __init__(self) -> None:
        self.binds = 0
        self.evictions = 0
        self.statuses = 0

    async def bind(self, order: Bind) -> ApplyResult:
        self.binds += 1
        return DONE

    async def evict(self, order: Evict) -> ApplyResult:
        self.evictions += 1
        return DONE

    async def write_status(self, change: StatusChange) -> ApplyResult:
        self.statuses += 1
        return DONE

    async def write_event(self, event: Event) -> ApplyResult:
        return DONE


class ReplayWorld:
    """Streams the changes of a recording at a speed, and ends with the recording."""

    def __init__(
        self,
        recording: Recording,
        speed: float = 1.0,
        scheduler_conf: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._recording, self._speed = recording, speed
        self._scheduler_conf = scheduler_conf
        self._clock: Clock = clock or SystemClock()
        self._changes = Changes()
        self._remaining: Iterator[Change | SnapshotComplete] = self._changes.read(
            recording.entries()
        )
        self._configuration: Configuration | None = None
        # The start of the replay, in recorded time and by the clock.
        self._start: tuple[int, float] | None = None
        # Set when a core has the first snapshot, for which the replay waits.
        self.is_served: asyncio.Event | None = None
        self.calls = ConfirmingCalls()
        self.changes = 0

    @property
    def capabilities(self) -> Sequence[Capability.ValueType]:
        return (CAPABILITY_EVICT, CAPABILITY_VOLUMES)

    @property
    def binder(self) -> ConfirmingCalls:
        return self.calls

    @property
    def evictor(self) -> ConfirmingCalls:
        return self.calls

    @property
    def status_updater(self) -> ConfirmingCalls:
        return self.calls

    async def watch(self) -> AsyncGenerator[WorldEvent]:
        """Yields the current objects, and then the remaining changes."""
        if self._configuration is not None:
            yield ConfigurationSeen(self._configuration)
        for held in list(self._changes.held.values()):
            yield ObjectSeen(held)
        if self._start is not None:
            yield Synced()
        for change in self._remaining:
            if isinstance(change, SnapshotComplete):
                self._start = (change.at_ns, self._clock.now())
                yield Synced()
                if self.is_served is not None:
                    await self.is_served.wait()
                    self._start = (change.at_ns, self._clock.now())
                continue
            await self._wait_until(change.at_ns)
            self.changes += 1
            yield self._event(change)
        if self._start is None:
            yield Synced()
        if self.is_served is not None:
            await self.is_served.wait()
            await self._clock.sleep(_LINGER_SECONDS)

    async def _wait_until(self, at_ns: int) -> None:
        if self._start is None:
            return
        start_ns, start = self._start
        due = start + (at_ns - start_ns) / _SECOND_NS / self._speed
        if due > self._clock.now():
            await self._clock.sleep(due - self._clock.now())

    def _event(self, change: Change) -> WorldEvent:
        if change.configuration is not None:
            self._configuration = Configuration()
            self._configuration.CopyFrom(change.configuration)
            if self._scheduler_conf is not None:
                self._configuration.scheduler_conf = self._scheduler_conf
            return ConfigurationSeen(self._configuration)
        if change.data is not None:
            return DataSeen(change.data)
        if change.object is not None:
            return ObjectSeen(change.object)
        return ObjectGone(Kind.ValueType(change.kind), change.uid)

    async def read_pod(self, namespace: str, name: str) -> Reading:
        return await self.read_object(KIND_POD, namespace, name)

    async def read_object(self, kind: KindNumber, namespace: str, name: str) -> Reading:
        for (number, _), held in self._changes.held.items():
            if number == kind:
                found = identity(held)
                if (found.namespace, found.name) == (namespace, name):
                    return Reading(held)
        return Reading(None)
