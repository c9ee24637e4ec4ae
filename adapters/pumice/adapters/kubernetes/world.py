"""A Kubernetes cluster as a World."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, Protocol

from pumice.adapters.kubernetes.binder import KubernetesBinder
from pumice.adapters.kubernetes.claim_writer import ClaimWriter
from pumice.adapters.kubernetes.configuration import (
    CONFIG_MAPS,
    ConfigMapStore,
    ConfigurationFeed,
    ConfigurationFile,
)
from pumice.adapters.kubernetes.definitions import DEFINITIONS, Definitions
from pumice.adapters.kubernetes.device_claims import DeviceClaimBinder
from pumice.adapters.kubernetes.errors import (
    CONFLICT,
    NOT_FOUND,
    ApiError,
    KubernetesError,
    one_line,
)
from pumice.adapters.kubernetes.events import EventRecorder
from pumice.adapters.kubernetes.evictor import KubernetesEvictor
from pumice.adapters.kubernetes.group_precedence import GroupPrecedence
from pumice.adapters.kubernetes.node_locks import NodeLockBinder
from pumice.adapters.kubernetes.object_head import Head, HeadMetadata
from pumice.adapters.kubernetes.object_index import ObjectIndex
from pumice.adapters.kubernetes.object_store import (
    InvalidObject,
    ObjectStore,
    WorldEventQueue,
)
from pumice.adapters.kubernetes.options import KubernetesOptions
from pumice.adapters.kubernetes.queues import QueueMaker
from pumice.adapters.kubernetes.reading import ObjectReader
from pumice.adapters.kubernetes.reflector import Reflector, Store
from pumice.adapters.kubernetes.reservations import ReservationWriter
from pumice.adapters.kubernetes.reserved_objects import ReservedObjects
from pumice.adapters.kubernetes.resources import QUEUES, Resource
from pumice.adapters.kubernetes.retries import RetryPolicy
from pumice.adapters.kubernetes.selection import Source
from pumice.adapters.kubernetes.session import ApiSession, Fence
from pumice.adapters.kubernetes.statuses import KubernetesStatusUpdater
from pumice.adapters.kubernetes.usage_poller import UsagePoller
from pumice.adapters.kubernetes.volumes import VolumeBinder
from pumice.adapters.runtime.clock import Backoff, Clock, end_tasks
from pumice.adapters.runtime.health import Health
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import KindNumber
from pumice.adapters.runtime.world import ConfigurationSeen, Reading, Synced, WorldEvent
from pumice.v1.cluster_service_pb2 import (
    CAPABILITY_EVICT,
    CAPABILITY_QUESTIONS,
    CAPABILITY_RESOURCE_CLAIMS,
    CAPABILITY_SHARED_DEVICES,
    CAPABILITY_VOLUMES,
    Capability,
)
from pumice.v1.status_pb2 import Event

log = logging.getLogger(__name__)

_BAD_OBJECT = "InvalidObject"
_NOT_LEADING_SECONDS = 1.0
# Delays while the default queue cannot be made.
_QUEUE_BACKOFF = Backoff(1.0, 60.0)
# Limit of events about invalid objects that wait.
_MOST_BAD_EVENTS = 1000


class Named(Protocol):
    """What an event is about."""

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...


class KubernetesWorld:
    """Watches a Kubernetes cluster and writes to it."""

    def __init__(
        self,
        api: ApiSession,
        options: KubernetesOptions,
        clock: Clock,
        metrics: Metrics,
        *,
        may_act: Fence = lambda: True,
        health: Health | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._api, self._options = api, options
        self._clock, self._metrics, self._may_act = clock, metrics, may_act
        self._rng = rng or random.Random()
        self._retries = RetryPolicy(clock, metrics)
        self._queue = WorldEventQueue()
        self._index = ObjectIndex()
        self._precedence = GroupPrecedence()
        self._definitions = Definitions(clock, self._rng)
        # Events of objects that cannot be read, by uid, until they are written.
        self._bad: dict[str, Event] = {}
        self._config_map: HeadMetadata | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] | None = None
        self._compose_writers()
        self._usage = UsagePoller(api, self._queue.put, clock, metrics, self._rng)
        self._reflectors: list[Reflector] = []
        metrics.gauge_from("watch_queue_length", lambda: len(self._queue))
        if health is not None:
            health.add("watches", self._why_stale)

    def _compose_writers(self) -> None:
        api, clock, fence = self._api, self._clock, self._may_act
        seconds, component = self._options.call_seconds, self._options.component
        self._reader = ObjectReader(api, self._options.selection, self._index, seconds)
        self._volumes = VolumeBinder(
            ReservationWriter(api, fence, seconds),
            self._reader.read_pod,
            self._index,
            clock,
            self._metrics,
            seconds,
            self._options.volume_seconds,
        )
        self._claims = DeviceClaimBinder(
            ClaimWriter(api, fence, seconds), self._reader.read_pod, clock, self._metrics
        )
        self._locks = NodeLockBinder(
            ReservedObjects(api, fence, seconds), self._reader.read_pod, clock, self._metrics
        )
        reserved = (self._volumes, self._claims, self._locks)
        self._binder = KubernetesBinder(
            api, self._reader, *reserved, self._index, self._metrics, fence, seconds
        )
        self._evictor = KubernetesEvictor(api, clock, fence, component, seconds)
        self._events = EventRecorder(
            api, self._index, component, clock, self._metrics, fence, seconds
        )
        self._statuses = KubernetesStatusUpdater(
            api, self._index, self._events, clock, fence, seconds
        )

    # The World protocol.

    @property
    def capabilities(self) -> Sequence[Capability.ValueType]:
        always = (
            CAPABILITY_EVICT,
            CAPABILITY_VOLUMES,
            CAPABILITY_RESOURCE_CLAIMS,
            CAPABILITY_SHARED_DEVICES,
        )
        # A shadow tells nobody what it would do.
        return always if self._options.read_only else (*always, CAPABILITY_QUESTIONS)

    @property
    def binder(self) -> KubernetesBinder:
        return self._binder

    @property
    def evictor(self) -> KubernetesEvictor:
        return self._evictor

    @property
    def status_updater(self) -> KubernetesStatusUpdater:
        return self._statuses

    async def read_pod(self, namespace: str, name: str) -> Reading:
        return await self._reader.read_pod(namespace, name)

    async def read_object(self, kind: KindNumber, namespace: str, name: str) -> Reading:
        return await self._reader.read_object(kind, namespace, name)

    async def watch(self) -> AsyncIterator[WorldEvent]:
        self._failed = asyncio.get_running_loop().create_future()
        try:
            self._start_watching()
            async for event in self._queue:
                if self._failed.done():
                    self._failed.result()
                yield event
        finally:
            await end_tasks(*self._tasks)
            await self._events.stop()
            await self._volumes.close()
            await self._claims.close()
            await self._locks.close()
            self._failed.cancel()

    # Watching.

    def _start_watching(self) -> None:
        self._start(self._watch_definitions())
        reflectors = self._reflectors = [
            self._reflector(source, self._store(source))
            for source in self._options.selection.sources(self._options.resources)
        ]
        self._start(self._volumes.run())
        self._start(self._claims.run())
        self._start(self._locks.run())
        self._start(self._usage.run())
        told = self._start_configuration()
        for reflector in reflectors:
            self._start(reflector.run())
        self._start(self._report_synced([told, *(r.listed for r in reflectors)]))
        if self._options.make_queues:
            self._start(self._make_queues(reflectors))

    def _store(self, source: Source) -> ObjectStore:
        return ObjectStore(
            source,
            self._queue,
            self._options.selection,
            self._precedence,
            self._index,
            self._metrics,
            self._report_bad,
        )

    def _reflector(
        self, source: Source, store: Store, namespace: str = "", *, metadata_only: bool = False
    ) -> Reflector:
        return Reflector(
            source,
            store,
            self._api,
            self._definitions,
            self._retries,
            self._clock,
            self._rng,
            self._metrics,
            namespace=namespace,
            metadata_only=metadata_only,
            page_size=self._options.page_size,
        )

    async def _watch_definitions(self) -> None:
        reflector = self._reflector(Source(DEFINITIONS), self._definitions, metadata_only=True)
        try:
            await reflector.run()
        except KubernetesError as error:
            # Missing resources are then polled.
            self._definitions.is_blind = True
            log.warning("definitions cannot be watched: %s", one_line(error))

    def _start_configuration(self) -> asyncio.Event:
        options = self._options
        feed = ConfigurationFeed(options.configuration, self._see_configuration)
        if options.scheduler_conf is not None:
            file = ConfigurationFile(
                options.scheduler_conf, feed, self._clock, options.file_poll_seconds
            )
            file.read()
            self._start(file.run())
        elif options.config_map is not None:
            store = ConfigMapStore(options.config_map, feed, self._see_config_map)
            reflector = self._reflector(store.source, store, namespace=options.config_map.namespace)
            self._start(reflector.run())
        else:
            feed.put("", "")
        return feed.is_known

    def _see_configuration(self, event: WorldEvent) -> None:
        if isinstance(event, ConfigurationSeen):
            self._usage.configure(event.configuration.scheduler_conf)
        self._queue.put(event)

    def _see_config_map(self, head: Head) -> None:
        self._config_map = head.metadata
        self._index.resources[head.metadata.uid] = CONFIG_MAPS

    async def report_refused_configuration(self, problem: str) -> None:
        """A warning event on the ConfigMap that the configuration was read from."""
        if self._config_map is not None:
            where = self._config_map
            message = f"the scheduler configuration is refused: {problem}"
            self._report(CONFIG_MAPS.kind, where, "InvalidConfiguration", message)

    async def _report_synced(self, read: Sequence[asyncio.Event]) -> None:
        began = self._clock.now()
        for part in read:
            await part.wait()
        log.info("the cluster was read in %.1f s", self._clock.now() - began)
        self._queue.put(Synced())

    async def _make_queues(self, reflectors: Sequence[Reflector]) -> None:
        """Creates the default queue once the cluster has a queue resource."""
        maker = QueueMaker(self._api, self._retries, self._options.default_queue)
        by_resource = {reflector.resource: reflector for reflector in reflectors}
        places = [by_resource[resource] for resource in QUEUES if resource in by_resource]
        await asyncio.gather(*(place.listed.wait() for place in places))
        failures = 0
        while True:
            place = await _first_found(places)
            try:
                await maker.make(place)
                return
            except ApiError as error:
                failures += 1
                # A definition that comes or goes is no problem.
                if error.status not in (NOT_FOUND, CONFLICT) and failures & (failures - 1) == 0:
                    log.error("the default queue cannot be created: %s", one_line(error))
                await self._clock.sleep(_QUEUE_BACKOFF.delay(failures, self._rng))

    def _why_stale(self) -> str:
        """Which resources are not listed yet, or not watched at the moment."""
        if not self._reflectors:
            return "watching has not begun"
        problems = ((r.resource.full_name, r.why_stale()) for r in self._reflectors)
        return "; ".join(f"{name}: {problem}" for name, problem in problems if problem)

    # Warning events.

    def _report_bad(self, bad: InvalidObject) -> None:
        message = f"the scheduler cannot read this object: {bad.problem}"
        self._report(bad.resource.kind, bad, _BAD_OBJECT, message)

    def _report(self, kind: KindNumber, about: Named, reason: str, message: str) -> None:
        """Queues a warning event, the last one for each object."""
        if self._options.read_only or not (about.uid and about.name):
            return
        event = Event(
            kind=kind,
            namespace=about.namespace,
            name=about.name,
            uid=about.uid,
            warning=True,
            reason=reason,
            message=message,
        )
        if len(self._bad) >= _MOST_BAD_EVENTS and about.uid not in self._bad:
            self._metrics.count("dropped_events", cause="queue full")
            return
        self._bad[about.uid] = event
        if len(self._bad) == 1:
            self._start(self._write_reports())

    async def _write_reports(self) -> None:
        while self._bad:
            # Only the leader writes; this adapter may lead later.
            while not self._may_act():
                await self._clock.sleep(_NOT_LEADING_SECONDS)
            uid, event = next(iter(self._bad.items()))
            await self._write_report(event)
            if self._bad.get(uid) is event:
                del self._bad[uid]

    async def _write_report(self, event: Event) -> None:
        try:
            async for attempt in self._retries.retrying(f"event on {event.name}", tries=5):
                with attempt:
                    await self._events.write(event)
        except KubernetesError as error:
            log.warning("no event on %s %s: %s", event.namespace, event.name, one_line(error))

    def _start(self, work: "Coroutine[Any, Any, None]") -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and self._failed is not None and not self._failed.done():
            # Without one of its parts the world would be incomplete, so it ends.
            self._failed.set_exception(error)
            self._queue.put(Synced())


async def _first_found(places: Sequence[Reflector]) -> Resource:
    """Waits for the first of the resources that the API server has."""
    waits = [asyncio.ensure_future(place.found.wait()) for place in places]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end_tasks(*waits)
    return next(place.resource for place in places if place.found.is_set())
