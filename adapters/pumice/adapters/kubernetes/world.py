"""A Kubernetes cluster as a World."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any

from pumice.adapters.kubernetes.binder import KubernetesBinder
from pumice.adapters.kubernetes.claim_writer import ClaimWriter
from pumice.adapters.kubernetes.configuration import (
    CONFIG_MAPS,
    ConfigurationFeed,
    ConfigurationFile,
    configuration_store,
)
from pumice.adapters.kubernetes.confirmations import BindConfirmations
from pumice.adapters.kubernetes.definitions import DEFINITIONS, Definitions
from pumice.adapters.kubernetes.device_claims import DeviceClaimBinder
from pumice.adapters.kubernetes.device_data import DeviceDataWatcher
from pumice.adapters.kubernetes.errors import (
    KubernetesError,
    one_line,
)
from pumice.adapters.kubernetes.events import EventRecorder
from pumice.adapters.kubernetes.evictor import KubernetesEvictor
from pumice.adapters.kubernetes.extended_claims import ExtendedClaimWriter
from pumice.adapters.kubernetes.group_precedence import GroupPrecedence
from pumice.adapters.kubernetes.missing_rights import GuardedCalls
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
from pumice.adapters.kubernetes.retries import RetryPolicy
from pumice.adapters.kubernetes.selection import Source
from pumice.adapters.kubernetes.session import ApiSession, Fence
from pumice.adapters.kubernetes.statuses import KubernetesStatusUpdater
from pumice.adapters.kubernetes.usage_poller import UsagePoller
from pumice.adapters.kubernetes.volumes import VolumeBinder
from pumice.adapters.kubernetes.warning_events import Named, WarningEvents
from pumice.adapters.runtime.clock import Clock, end_tasks
from pumice.adapters.runtime.health import Health
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import KindNumber
from pumice.adapters.runtime.world import ConfigurationSeen, Reading, Synced, WorldEvent
from pumice.v1.cluster_service_pb2 import (
    CAPABILITY_EVICT,
    CAPABILITY_EXTENDED_RESOURCE_CLAIMS,
    CAPABILITY_QUESTIONS,
    CAPABILITY_RESOURCE_CLAIMS,
    CAPABILITY_SHARED_DEVICES,
    CAPABILITY_VOLUMES,
    Capability,
)

log = logging.getLogger(__name__)

_BAD_OBJECT = "InvalidObject"


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
        self._confirmations = BindConfirmations(clock)
        self._precedence = GroupPrecedence()
        self._definitions = Definitions(clock, self._rng)
        self._config_map: HeadMetadata | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] | None = None
        self._compose_writers()
        self._usage = UsagePoller(api, self._queue.put, clock, metrics, self._rng)
        self._devices = DeviceDataWatcher(self._reflector, self._queue.put, clock)
        self._reflectors: list[Reflector] = []
        metrics.gauge_from("watch_queue_length", lambda: len(self._queue))
        if health is not None:
            health.add("watches", self._why_stale)

    def _compose_writers(self) -> None:
        api, clock, fence, metrics = self._api, self._clock, self._may_act, self._metrics
        seconds, component = self._options.call_seconds, self._options.component
        self._reader = ObjectReader(api, self._options.selection, self._index, seconds)
        self._volumes = VolumeBinder(
            ReservationWriter(api, fence, seconds),
            self._reader.read_pod,
            self._index,
            clock,
            metrics,
            seconds,
            self._options.volume_seconds,
        )
        writers = ClaimWriter(api, fence, seconds), ExtendedClaimWriter(api, fence, seconds)
        self._claims = DeviceClaimBinder(*writers, self._reader.read_pod, clock, metrics)
        self._locks = NodeLockBinder(
            ReservedObjects(api, fence, seconds), self._reader.read_pod, clock, metrics
        )
        reserved = (self._volumes, self._claims, self._locks)
        self._binder = KubernetesBinder(
            api, self._reader, *reserved, self._index, metrics, fence, seconds, self._confirmations
        )
        self._evictor = KubernetesEvictor(api, clock, fence, component, seconds)
        guarded = GuardedCalls(api, clock, self._rng, metrics)
        self._events = EventRecorder(
            guarded, self._index, component, clock, metrics, fence, seconds
        )
        self._warnings = WarningEvents(self._events, self._retries, fence, clock, metrics)
        self._statuses = KubernetesStatusUpdater(
            guarded, self._index, self._events, clock, fence, seconds
        )

    # The World protocol.

    @property
    def capabilities(self) -> Sequence[Capability.ValueType]:
        always = (
            CAPABILITY_EVICT,
            CAPABILITY_VOLUMES,
            CAPABILITY_RESOURCE_CLAIMS,
            CAPABILITY_EXTENDED_RESOURCE_CLAIMS,
            CAPABILITY_SHARED_DEVICES,
        )
        # A shadow must not call extenders.
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

    def release_events(self) -> None:
        self._confirmations.release_all()

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
        if not self._options.read_only:
            self._start(self._api.open_connections())
            self._start(self._confirmations.run())
        self._start(self._volumes.run())
        self._start(self._claims.run())
        self._start(self._locks.run())
        self._start(self._usage.run())
        configured = self._start_configuration()
        self._start(self._devices.run())
        for reflector in reflectors:
            self._start(reflector.run())
        read = (configured, *(reflector.listed for reflector in reflectors), self._devices.is_known)
        self._start(self._report_synced(read))
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
            self._confirmations,
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
            # Missing resources are polled instead.
            self._definitions.is_unknown = True
            log.warning("definitions cannot be watched: %s", one_line(error))

    def _start_configuration(self) -> asyncio.Event:
        options = self._options
        feed = ConfigurationFeed(options.configuration, self._handle_configuration)
        if options.scheduler_conf is not None:
            file = ConfigurationFile(
                options.scheduler_conf, feed, self._clock, options.file_poll_seconds
            )
            file.read()
            self._start(file.run())
        elif options.config_map is not None:
            store = configuration_store(options.config_map, feed, self._note_config_map)
            reflector = self._reflector(store.source, store, namespace=options.config_map.namespace)
            self._start(reflector.run())
        else:
            feed.put("", "")
        return feed.is_known

    def _handle_configuration(self, event: WorldEvent) -> None:
        if isinstance(event, ConfigurationSeen):
            self._usage.configure(event.configuration.scheduler_conf)
            self._devices.handle(event)
        else:
            self._queue.put(event)

    def _note_config_map(self, head: Head) -> None:
        self._config_map = head.metadata
        self._index.resources[head.metadata.uid] = CONFIG_MAPS

    async def report_refused_configuration(self, problem: str) -> None:
        """Writes a warning event on the ConfigMap with the configuration."""
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
        maker = QueueMaker(self._api, self._retries, self._options.default_queue)
        await maker.run(reflectors, self._clock, self._rng)

    def _why_stale(self) -> str:
        """The resources that are not listed yet or not watched now."""
        if not self._reflectors:
            return "watching has not begun"
        problems = ((r.resource.full_name, r.why_stale()) for r in self._reflectors)
        return "; ".join(f"{name}: {problem}" for name, problem in problems if problem)

    def _report_bad(self, bad: InvalidObject) -> None:
        message = f"the scheduler cannot read this object: {bad.problem}"
        self._report(bad.resource.kind, bad, _BAD_OBJECT, message)

    def _report(self, kind: KindNumber, about: Named, reason: str, message: str) -> None:
        if not self._options.read_only and self._warnings.put(kind, about, reason, message):
            self._start(self._warnings.write())

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
            # Without one of its tasks the world is incomplete, so it ends.
            self._failed.set_exception(error)
            self._queue.put(Synced())
