"""The status writer: level-triggered, coalesced per object, only on change; then the events.

A status that waits is replaced by a newer one. Events are written in order, one after the other per
object, with growing delays after failures. Events beyond the length of the queue, and events that
fail too often, are dropped and counted.

That a pod waits is written a moment later, and not at all if the pod was bound meanwhile: a session
may see a gang before all of its pods exist.
"""

import asyncio
import logging
import random
from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

from pumice.adapters.runtime.buffer import ResumeBuffer
from pumice.adapters.runtime.call_limiter import CallLimiter, CallPriority
from pumice.adapters.runtime.clock import Clock, end_tasks, within
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import KindNumber, shown_kind
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.status_changes import is_written, subject
from pumice.adapters.runtime.world import ApplyCode, ApplyResult, StatusUpdater
from pumice.v1.cluster_service_pb2 import StatusBatch
from pumice.v1.object_pb2 import KIND_POD
from pumice.v1.status_pb2 import Event, StatusChange

log = logging.getLogger(__name__)

StatusKey: TypeAlias = tuple[KindNumber, str]

# The reason of events of pods that wait.
_WAITS = "FailedScheduling"
_AGAIN = {
    ApplyCode.CONFLICT,
    ApplyCode.THROTTLED,
    ApplyCode.SERVER_ERROR,
    ApplyCode.TIMED_OUT,
}


@dataclass(slots=True)
class _Pending:
    """The newest status of an object that is not written yet."""

    change: StatusChange | None
    task: "asyncio.Task[None] | None" = None

    def is_empty(self) -> bool:
        return self.change is None

    def take(self) -> StatusChange | None:
        change, self.change = self.change, None
        return change

    def put_back(self, change: StatusChange) -> None:
        """Restores a status, unless a newer one has arrived."""
        if self.change is None:
            self.change = change


class StatusWriter:
    """Writes statuses after binds, and events after statuses."""

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
        self._options, self._clock, self._rng, self._metrics = options, clock, rng, metrics
        self._statuses: dict[StatusKey, _Pending] = {}
        # The version of the object on which its last status was written.
        self._unseen: dict[StatusKey, int] = {}
        self._events: dict[StatusKey, deque[Event]] = {}
        self._event_tasks: dict[StatusKey, asyncio.Task[None]] = {}
        self._event_count = 0
        self._is_dropping = False
        metrics.gauge_from("event_queue_length", lambda: self._event_count)
        # The last write was refused because this adapter does not lead.
        self._is_deposed = False

    def take(self, batch: StatusBatch) -> None:
        for change in batch.changes:
            self._take_change(change)
        for event in batch.events:
            is_wait = event.kind == KIND_POD and event.reason == _WAITS
            self.take_event(event, self._options.waiting_report_seconds if is_wait else 0.0)

    def take_event(self, event: Event, delay: float = 0.0) -> None:
        """Writes an event; after a delay only if the pod has no later event and no node by then."""
        if self._is_full():
            return
        self._event_count += 1
        key = (event.kind, event.uid)
        waiting = self._events.get(key)
        if waiting is not None:
            waiting.append(event)
            return
        self._events[key] = deque([event])
        self._event_tasks[key] = asyncio.get_running_loop().create_task(
            self._write_events(key, delay)
        )

    def _is_full(self) -> bool:
        """Whether an event has to be dropped; says so once until the queue is half empty."""
        limit = self._options.event_queue_size
        if self._event_count < limit:
            self._is_dropping = self._is_dropping and self._event_count > limit // 2
            return False
        self._metrics.count("dropped_events", cause="queue full")
        if not self._is_dropping:
            self._is_dropping = True
            log.warning("events are dropped: %d wait to be written already", limit)
        return True

    def forget(self, kind: KindNumber, uid: str) -> None:
        """Drops the status of a deleted object."""
        self._unseen.pop((kind, uid), None)
        pending = self._statuses.get((kind, uid))
        if pending is not None:
            pending.change = None

    @property
    def is_idle(self) -> bool:
        return not (self._statuses or self._events)

    async def stop(self) -> None:
        tasks = [p.task for p in self._statuses.values() if p.task is not None]
        await end_tasks(*tasks, *self._event_tasks.values())

    def _take_change(self, change: StatusChange) -> None:
        key = subject(change)
        if key is None:
            return
        pending = self._statuses.get(key)
        if pending is not None:
            if pending.change is not None:
                self._metrics.count("coalesced_statuses", kind=shown_kind(key[0]))
            pending.change = change
            return
        pending = _Pending(change)
        self._statuses[key] = pending
        pending.task = asyncio.get_running_loop().create_task(self._write_status(key, pending))

    async def _write_status(self, key: StatusKey, pending: _Pending) -> None:
        failures = 0
        delay = self._options.waiting_report_seconds
        if delay and pending.change is not None and pending.change.HasField("pod"):
            await self._clock.sleep(delay)
        while not pending.is_empty():
            async with self._limiter.hold(CallPriority.STATUS):
                # Taken only now, so that the newest status is written.
                change = pending.take()
                if change is None or self._is_written(key, change):
                    continue
                result = await self._call_status(change)
            self._count("status_writes", key, result)
            if result.code not in _AGAIN:
                failures = 0
                self._log(result, "status of %s %s: %s", *_shown(key), _said(result))
                continue
            failures += 1
            if failures >= self._options.status_tries and pending.is_empty():
                # The next change of the object brings its status again.
                log.error("status of %s %s given up: %s", *_shown(key), _said(result))
                break
            pending.put_back(change)
            await self._clock.sleep(self._delay(failures, result))
        del self._statuses[key]

    def _is_bound(self, key: StatusKey) -> bool:
        held = self._buffer.get(*key) if key[0] == KIND_POD else None
        return held is not None and bool(held.message().pod.node_name)

    def _is_written(self, key: StatusKey, change: StatusChange) -> bool:
        held = self._buffer.get(*key)
        revision = 0 if held is None else held.revision
        # Until the watch shows the last write, the buffer has an older status.
        if self._unseen.get(key) == revision:
            return False
        if is_written(change, self._buffer):
            self._unseen.pop(key, None)
            return True
        self._unseen[key] = revision
        return False

    async def _write_events(self, key: StatusKey, delay: float) -> None:
        waiting = self._events[key]
        failures = 0
        if delay:
            await self._clock.sleep(delay)
            self._drop_overtaken(key, waiting)
        while waiting:
            async with self._limiter.hold(CallPriority.EVENT):
                result = await self._call_event(waiting[0])
            self._count("event_writes", key, result)
            if result.code in _AGAIN and failures + 1 < self._options.event_tries:
                failures += 1
                await self._clock.sleep(self._delay(failures, result))
                continue
            failures = 0
            event = waiting.popleft()
            self._event_count -= 1
            if result.code is not ApplyCode.DONE:
                cause = "given up" if result.code in _AGAIN else "refused"
                self._metrics.count("dropped_events", cause=cause)
            text = f"{event.reason}: {event.message}"
            self._log(
                result, "event of %s %s not written (%s): %s", *_shown(key), _said(result), text
            )
        del self._events[key]
        del self._event_tasks[key]

    def _drop_overtaken(self, key: StatusKey, waiting: deque[Event]) -> None:
        """Drops events that a pod waits before a later event, and all of them once it is bound."""
        while waiting and waiting[0].reason == _WAITS and (len(waiting) > 1 or self._is_bound(key)):
            waiting.popleft()
            self._event_count -= 1
            self._metrics.count("dropped_events", cause="overtaken")

    async def _call_status(self, change: StatusChange) -> ApplyResult:
        try:
            call = self._updater.write_status(change)
            return await within(self._clock, self._options.call_timeout_seconds, call)
        except Exception as error:
            return _failure(error)

    async def _call_event(self, event: Event) -> ApplyResult:
        try:
            call = self._updater.write_event(event)
            return await within(self._clock, self._options.call_timeout_seconds, call)
        except Exception as error:
            return _failure(error)

    def _log(self, result: ApplyResult, text: str, *shown: str) -> None:
        """Logs why a write failed; for the writes of a deposed leader only once."""
        if result.code is ApplyCode.NOT_LEADING:
            if not self._is_deposed:
                log.info("statuses and events are dropped: this adapter does not lead any more")
            self._is_deposed = True
            return
        self._is_deposed = False
        if result.code is not ApplyCode.DONE:
            log.warning(text, *shown)

    def _delay(self, failures: int, result: ApplyResult) -> float:
        delay = self._options.status_backoff.delay(failures, self._rng)
        return max(delay, result.retry_after_seconds)

    def _count(self, name: str, key: StatusKey, result: ApplyResult) -> None:
        self._metrics.count(name, kind=shown_kind(key[0]), result=result.code.value)


def _failure(error: Exception) -> ApplyResult:
    if isinstance(error, TimeoutError):
        return ApplyResult(ApplyCode.TIMED_OUT, str(error))
    log.exception("the status updater raised", exc_info=error)
    return ApplyResult(ApplyCode.SERVER_ERROR, f"{type(error).__name__}: {error}")


def _shown(key: StatusKey) -> tuple[str, str]:
    return shown_kind(key[0]), key[1]


def _said(result: ApplyResult) -> str:
    return f"{result.code.value} {result.reason}".rstrip()
