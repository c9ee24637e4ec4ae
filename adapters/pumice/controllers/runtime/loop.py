"""The loop: watches, work queues and workers of all controllers.

Watches run from the start, also on a standby. Workers run while this process leads. Each controller
has a work queue; one worker at a time reconciles a key. When a plan fails, the key is reconciled again
from the newest state, with backoff.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pumice.adapters.kubernetes.definitions import DEFINITIONS, Definitions
from pumice.adapters.kubernetes.errors import KubernetesError, one_line
from pumice.adapters.kubernetes.events import EventRecorder
from pumice.adapters.kubernetes.missing_rights import GuardedCalls
from pumice.adapters.kubernetes.object_index import ObjectIndex
from pumice.adapters.kubernetes.reflector import Reflector, Store
from pumice.adapters.kubernetes.retries import RetryPolicy
from pumice.adapters.kubernetes.selection import Source
from pumice.adapters.kubernetes.session import ApiSession, Fence
from pumice.adapters.runtime.clock import Backoff, Clock, end_tasks
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.work_queue import WorkQueue
from pumice.controllers.runtime.cache import ObjectCache
from pumice.controllers.runtime.controller import Caches, Controller
from pumice.controllers.runtime.event_queue import EventQueue
from pumice.controllers.runtime.failures import Failure
from pumice.controllers.runtime.objects import Key, Manifest, shown_key
from pumice.controllers.runtime.on_demand import OnDemandReflector
from pumice.controllers.runtime.performing import Performer
from pumice.controllers.runtime.watches import Change, Watch

log = logging.getLogger(__name__)

_COMPONENT: Final = "vc-controller-manager"
# Delays between attempts to reconcile a key that fails.
RETRY_BACKOFF: Final = Backoff(0.05, 120.0)
# Longest delay after an outage of the API server. An outage ends for all keys at once, and a longer
# delay would outlast it.
_OUTAGE_SECONDS: Final = 10.0
# Delay of a key whose calls were not made because the lease was not renewed in time. The workers end
# when the loss of the lease is noticed; if the lease is renewed first, they continue.
_NOT_LEADING_SECONDS: Final = 0.2
# Other work continues after the keys of so many objects.
_KEYS_AT_ONCE: Final = 100
# The next attempt usually resolves a conflict. A conflict with a delay of this length is logged as a
# warning.
_LASTING_CONFLICT_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """Settings of the loop."""

    # Keys that a controller reconciles concurrently, by the controller's name.
    workers: Mapping[str, int] = field(default_factory=dict)
    default_workers: int = 64
    # Timeout of a call. It must end before another process can lead.
    call_seconds: float = 4.0
    page_size: int = 500


class _Running:
    """A controller with its work queue."""

    def __init__(
        self, controller: Controller[Any], caches: Caches, clock: Clock, rng: random.Random
    ) -> None:
        self.controller = controller
        self.queue: WorkQueue[Key] = WorkQueue(RETRY_BACKOFF, clock, rng)
        self._caches = caches
        # A standby enqueues no keys: nobody would take those of deleted objects.
        self._is_working = False

    def handle(self, change: Change[Any]) -> None:
        try:
            self.controller.track(change, self._caches)
            keys = self.controller.keys(change, self._caches) if self._is_working else ()
            if keys:
                seconds = self.controller.delay_seconds(change)
                for key in keys:
                    self.queue.add_after(key, seconds)
        except Exception:
            self._log_bug(change)

    async def begin(self) -> None:
        """Enqueues the keys of all objects that exist, and from now on those of changes."""
        self._is_working = True
        for watch in self.controller.watches:
            for number, obj in enumerate(list(self._caches[watch])):
                change = Change(watch, None, obj)
                try:
                    for key in self.controller.keys(change, self._caches):
                        self.queue.add(key)
                except Exception:
                    self._log_bug(change)
                if number % _KEYS_AT_ONCE == 0:
                    await asyncio.sleep(0)

    def end(self) -> None:
        self._is_working = False

    def _log_bug(self, change: Change[Any]) -> None:
        """Logs an error of a controller. The watch and all other controllers continue."""
        log.exception("%s: %s", self.controller.name, shown_key(change.latest.metadata.key))


class ControllerLoop:
    """Runs controllers over one API session."""

    def __init__(
        self,
        controllers: Sequence[Controller[Any]],
        api: ApiSession,
        options: LoopOptions,
        clock: Clock,
        metrics: Metrics,
        *,
        may_act: Fence = lambda: True,
        rng: random.Random | None = None,
    ) -> None:
        self._api, self._options = api, options
        self._clock, self._metrics, self._may_act = clock, metrics, may_act
        self._rng = rng or random.Random()
        self._retries = RetryPolicy(clock, metrics)
        self._definitions = Definitions(clock, self._rng)
        self._by_watch: dict[Watch[Any], ObjectCache[Any]] = {}
        self.caches = Caches(self._by_watch)
        self._running = [self._add(controller) for controller in controllers]
        self._reflectors = self._all_reflectors()
        guarded = GuardedCalls(api, clock, self._rng, metrics)
        recorder = EventRecorder(
            guarded, ObjectIndex(), _COMPONENT, clock, metrics, may_act, options.call_seconds
        )
        self._events = EventQueue(recorder, metrics, may_act)
        by_resource: dict[Any, list[ObjectCache[Any]]] = {}
        for watch, cache in self._by_watch.items():
            by_resource.setdefault(watch.resource, []).append(cache)
        self._performer = Performer(
            guarded, by_resource, self._events, metrics, may_act, options.call_seconds
        )
        self._in_flight: set[asyncio.Task[None]] = set()
        self._draining = asyncio.Event()

    def _add(self, controller: Controller[Any]) -> _Running:
        running = _Running(controller, self.caches, self._clock, self._rng)
        for watch in controller.watches:
            cache = self._by_watch.get(watch)
            if cache is None:
                cache = self._by_watch[watch] = ObjectCache(watch, self._metrics)
            else:
                cache.add_indexes(watch)
            cache.listeners.append(running.handle)
        return running

    def _all_reflectors(self) -> list[Reflector | OnDemandReflector]:
        always = {
            watch: self._reflector(watch.source, cache, watch)
            for watch, cache in self._by_watch.items()
            if watch.needed_by is None
        }
        on_demand = [
            OnDemandReflector(
                partial(self._reflector, watch.source, cache, watch),
                cache,
                self._by_watch[watch.needed_by],
                always[watch.needed_by].listed,
                self._clock,
            )
            for watch, cache in self._by_watch.items()
            if watch.needed_by is not None
        ]
        return [*always.values(), *on_demand]

    def _reflector(self, source: Source, store: Store, watch: Watch[Any] | None) -> Reflector:
        return Reflector(
            source,
            store,
            self._api,
            self._definitions,
            self._retries,
            self._clock,
            self._rng,
            self._metrics,
            metadata_only=watch is None or watch.metadata_only,
            page_size=self._options.page_size,
        )

    # Watching, also on a standby.

    async def watch(self) -> None:
        """Keeps the caches up to date, until it is cancelled."""
        await _together([self._watch_definitions(), *(r.run() for r in self._reflectors)])

    async def _watch_definitions(self) -> None:
        try:
            await self._reflector(Source(DEFINITIONS), self._definitions, None).run()
        except KubernetesError as error:
            # Without this watch, the reflectors poll for resources that are not defined yet.
            self._definitions.is_unknown = True
            log.warning("CustomResourceDefinitions cannot be watched: %s", one_line(error))
            await asyncio.Event().wait()

    def why_stale(self) -> str:
        """The resources that are not listed yet, or not watched at the moment; "": none."""
        problems = ((r.resource.full_name, r.why_stale()) for r in self._reflectors)
        return "; ".join(f"{name}: {problem}" for name, problem in problems if problem)

    def on_created(self, listener: Callable[[Manifest, Manifest], None]) -> None:
        """Calls a function with the body and the metadata of every created object that a cache holds."""
        self._performer.on_created = listener

    def watches(self, watch: Watch[Any]) -> bool:
        """Whether a controller declares this watch with these indexes."""
        cache = self._by_watch.get(watch)
        return cache is not None and cache.has_indexes(watch)

    # Working, while this process leads.

    async def work(self) -> None:
        """Reconciles keys until it is cancelled or drained."""
        for reflector in self._reflectors:
            await reflector.listed.wait()
        log.info("reconciling begins")
        try:
            await self._work()
        finally:
            for one in self._running:
                one.end()

    async def _work(self) -> None:
        events = asyncio.create_task(self._events.run())
        tasks = [asyncio.create_task(self._dispatch(one)) for one in self._running]
        tasks += [
            asyncio.create_task(one.controller.poll(self._api, self._clock, one.queue.add))
            for one in self._running
        ]
        drained = asyncio.create_task(self._draining.wait())
        try:
            await asyncio.wait([*tasks, drained], return_when=asyncio.FIRST_COMPLETED)
            await end_tasks(drained, *(task for task in tasks if not task.done()))
            for task in tasks:
                if not task.cancelled():
                    task.result()
            await self._finish()
        finally:
            await end_tasks(events, drained, *tasks, *self._in_flight)

    async def _finish(self) -> None:
        """Waits for the acts in flight, and for the events about them."""
        while self._in_flight:
            await asyncio.wait(self._in_flight)
        await self._events.drain()

    def drain(self) -> None:
        """Stops taking keys; `work` returns when the keys in flight are reconciled."""
        self._draining.set()

    async def _dispatch(self, running: _Running) -> None:
        """Takes keys from the queue, and reconciles a bounded number of them concurrently."""
        await running.begin()
        name = running.controller.name
        free = asyncio.Semaphore(self._options.workers.get(name, self._options.default_workers))
        while True:
            await free.acquire()
            key = await running.queue.get()
            self._metrics.gauge("queue_length", len(running.queue), controller=name)
            task = asyncio.create_task(self._reconcile(running, key))
            self._in_flight.add(task)
            task.add_done_callback(self._in_flight.discard)
            task.add_done_callback(lambda _: free.release())

    async def _reconcile(self, running: _Running, key: Key) -> None:
        name, queue = running.controller.name, running.queue
        result = "failed"
        try:
            result = await self._reconcile_once(running, key)
        except asyncio.CancelledError:
            # This process lost the lease. No other process may have reconciled the key before this
            # one leads again.
            queue.add(key)
            raise
        except Exception:
            # A bug. The key is retried, and all other keys continue.
            log.exception("%s: %s", name, shown_key(key))
            queue.retry(key)
        finally:
            queue.done(key)
            self._metrics.count("reconciles", controller=name, result=result)

    async def _reconcile_once(self, running: _Running, key: Key) -> str:
        controller, queue = running.controller, running.queue
        observed = controller.observe(key, self.caches, self._clock.unix_ms())
        if observed is None:
            queue.forget(key)
            return "absent"
        plan = controller.reconcile(observed)
        failure = await self._performer.perform(plan.stages)
        if failure is not None and failure.is_not_leading:
            # The key did not fail, so its delay does not grow.
            queue.add_after(key, _NOT_LEADING_SECONDS)
            return "not leading"
        if failure is not None and not failure.is_conflict and plan.on_failure:
            await self._performer.perform((plan.on_failure,))
        if failure is None and plan.problem:
            failure = Failure(plan.problem)
        if failure is not None:
            most = _OUTAGE_SECONDS if failure.is_outage else RETRY_BACKOFF.ceiling_seconds
            delay = queue.retry(key, failure.retry_after, most)
            is_expected = failure.is_withheld or (
                failure.is_conflict and delay < _LASTING_CONFLICT_SECONDS
            )
            log.log(
                logging.DEBUG if is_expected else logging.WARNING,
                "%s: %s: %s; retry in %.1f s",
                controller.name,
                shown_key(key),
                failure.text,
                delay,
            )
            return "failed"
        queue.forget(key)
        if plan.again_seconds is not None:
            queue.add_after(key, plan.again_seconds)
        return "acted" if plan.stages else "unchanged"


async def _together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Runs all coroutines; the first failure cancels the others."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        await end_tasks(*tasks)
