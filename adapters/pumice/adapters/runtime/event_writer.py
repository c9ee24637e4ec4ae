"""The event writer: writes events after binds and statuses, a few at a time.

Events of one object are written in order and one after the other, with growing delays after
failures. A few workers write the events: a task for each event of a thousand binds would slow down
the binds. Events that do not fit into the queue, and events that fail too often, are dropped and
counted.
"""

import asyncio
import logging
import random
from collections import deque
from typing import Final

from pumice.adapters.runtime.buffer import ResumeBuffer
from pumice.adapters.runtime.call_limiter import CallLimiter, CallPriority
from pumice.adapters.runtime.clock import Clock, end_tasks
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import ObjectKey
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.world import ApplyCode, StatusUpdater
from pumice.adapters.runtime.world_calls import TRANSIENT, UpdateCalls
from pumice.v1.object_pb2 import KIND_POD, KIND_POD_GROUP
from pumice.v1.status_pb2 import Event

log = logging.getLogger(__name__)

# A worker pauses after an event that took longer than the first figure. The pause grows with the square
# of the time that the event took.
_QUICK_SECONDS: Final = 0.005
_LONGEST_PAUSE_SECONDS: Final = 0.5
# Events about pods and PodGroups that wait.
_WAITS: Final = {(KIND_POD, "FailedScheduling"), (KIND_POD_GROUP, "Unschedulable")}


class EventWriter:
    """Writes events in the order of arrival."""

    def __init__(
        self,
        updater: StatusUpdater,
        buffer: ResumeBuffer,
        limiter: CallLimiter,
        options: RuntimeOptions,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics,
    ) -> None:
        self._updater, self._buffer, self._limiter = updater, buffer, limiter
        self._options, self._clock, self._metrics = options, clock, metrics
        self._calls = UpdateCalls("event", options, clock, rng, metrics)
        self._events: dict[ObjectKey, deque[Event]] = {}
        # Objects whose next event can be written, and those whose next event has to wait.
        self._ready: deque[ObjectKey] = deque()
        self._delayed: dict[ObjectKey, asyncio.Task[None]] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._count = 0
        self._is_dropping = False
        metrics.gauge_from("event_queue_length", lambda: self._count)

    def add_from_core(self, event: Event) -> None:
        """Writes an event of the core; one about a wait after a delay, and only if it still holds."""
        self.add(event, self._options.waiting_report_seconds if _is_wait(event) else 0.0)

    def add(self, event: Event, delay: float = 0.0) -> None:
        """Writes an event; after a delay only if the pod has no later event and no node by then."""
        if self._is_full():
            return
        self._count += 1
        key = (event.kind, event.uid)
        waiting = self._events.get(key)
        if waiting is not None:
            waiting.append(event)
            return
        self._events[key] = deque([event])
        if delay:
            self._write_later(key, 0, delay)
        else:
            self._make_ready(key)

    @property
    def is_idle(self) -> bool:
        return not self._events

    async def stop(self) -> None:
        await end_tasks(*self._delayed.values(), *self._workers)

    def _is_full(self) -> bool:
        """Whether an event has to be dropped; logs it once until the queue is half empty."""
        limit = self._options.event_queue_size
        if self._count < limit:
            self._is_dropping = self._is_dropping and self._count > limit // 2
            return False
        self._metrics.count("dropped_events", cause="queue full")
        if not self._is_dropping:
            self._is_dropping = True
            log.warning("events are dropped: %d wait to be written already", limit)
        return True

    def _make_ready(self, key: ObjectKey) -> None:
        self._ready.append(key)
        if len(self._workers) < self._options.event_writers:
            worker = asyncio.get_running_loop().create_task(self._write_ready())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _write_ready(self) -> None:
        """Writes events until none is ready. A server that is busy with other calls gets few."""
        while self._ready:
            async with self._limiter.hold(CallPriority.EVENT):
                if not self._ready:
                    return
                began = self._clock.now()
                key = self._ready.popleft()
                delay = await self._write_first(key, 0)
            pause = (seconds := self._clock.now() - began) * seconds / _QUICK_SECONDS
            if delay is not None:
                self._write_later(key, 1, delay)
            elif self._events[key]:
                self._ready.append(key)
            else:
                del self._events[key]
            if pause > _QUICK_SECONDS and self._ready:
                await self._clock.sleep(min(pause, _LONGEST_PAUSE_SECONDS))

    def _write_later(self, key: ObjectKey, failures: int, delay: float) -> None:
        task = asyncio.get_running_loop().create_task(self._write_all(key, failures, delay))
        self._delayed[key] = task

    async def _write_all(self, key: ObjectKey, failures: int, delay: float) -> None:
        """Writes the events of one object after a delay, and after a longer one where that fails."""
        waiting = self._events[key]
        await self._clock.sleep(delay)
        if not failures:
            self._drop_overtaken(key, waiting)
        while waiting:
            async with self._limiter.hold(CallPriority.EVENT):
                again = await self._write_first(key, failures)
            failures = 0 if again is None else failures + 1
            if again is not None:
                await self._clock.sleep(again)
        del self._events[key]
        del self._delayed[key]

    async def _write_first(self, key: ObjectKey, failures: int) -> float | None:
        """Writes the first event of an object; returns the delay before it has to be tried again."""
        waiting = self._events[key]
        result = await self._calls.make(key, self._updater.write_event(waiting[0]))
        if result.code in TRANSIENT and failures + 1 < self._options.event_tries:
            return self._calls.delay(failures + 1, result)
        event = waiting.popleft()
        self._count -= 1
        if result.code is not ApplyCode.DONE:
            cause = "given up" if result.code in TRANSIENT else "refused"
            self._metrics.count("dropped_events", cause=cause)
        self._calls.log_failure(key, result, f" ({event.reason}: {event.message})")
        return None

    def _drop_overtaken(self, key: ObjectKey, waiting: deque[Event]) -> None:
        """Drops events about a wait before a later event, and all of them once the pod is bound."""
        while waiting and _is_wait(waiting[0]) and (len(waiting) > 1 or self._is_bound(key)):
            waiting.popleft()
            self._count -= 1
            self._metrics.count("dropped_events", cause="overtaken")

    def _is_bound(self, key: ObjectKey) -> bool:
        held = self._buffer.get(*key) if key[0] == KIND_POD else None
        return held is not None and bool(held.message().pod.node_name)


def _is_wait(event: Event) -> bool:
    return (event.kind, event.reason) in _WAITS
