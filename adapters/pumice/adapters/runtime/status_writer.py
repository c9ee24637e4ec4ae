"""The status writer: level-triggered, coalesced per object, only on change; then the events.

A newer status replaces one that waits. A few workers write the events: in order and one after the
other per object, with growing delays after failures. A task for each event of a thousand binds would
slow down the binds. Events that do not fit into the queue, and events that fail too often, are
dropped and counted.

The status of a pod or PodGroup that waits is written after a short delay, and not at all if the pod
was bound or the gang placed meanwhile: a session may see a gang before all of its pods exist. Statuses
of PodGroups that only change counters or conditions are also delayed, since more of them follow while
pods are bound and start. The admission of a PodGroup and the end of a scheduling gate do not wait for
binds: controllers create the pods of a Job only after it is admitted.
"""

import asyncio
import logging
import random
from collections import deque
from dataclasses import dataclass
from typing import Final, TypeAlias

from pumice.adapters.runtime.buffer import ResumeBuffer
from pumice.adapters.runtime.call_limiter import CallLimiter, CallPriority
from pumice.adapters.runtime.clock import Clock, end_tasks, within
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import KindNumber, shown_kind
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.status_changes import (
    has_new_phase,
    is_minor,
    is_same,
    is_written,
    lets_pods_follow,
    may_wait,
    subject,
)
from pumice.adapters.runtime.status_delays import Delay, StatusDelays
from pumice.adapters.runtime.world import ApplyCode, ApplyResult, StatusUpdater
from pumice.v1.cluster_service_pb2 import StatusBatch
from pumice.v1.object_pb2 import KIND_POD, KIND_POD_GROUP
from pumice.v1.status_pb2 import Event, StatusChange

log = logging.getLogger(__name__)

StatusKey: TypeAlias = tuple[KindNumber, str]

# A worker pauses after an event that took longer than the first figure. The pause grows with the square
# of the time that the event took.
_QUICK_SECONDS: Final = 0.005
_LONGEST_PAUSE_SECONDS: Final = 0.5
# Events about pods and PodGroups that wait.
_WAITS = {(KIND_POD, "FailedScheduling"), (KIND_POD_GROUP, "Unschedulable")}
_AGAIN = {
    ApplyCode.CONFLICT,
    ApplyCode.THROTTLED,
    ApplyCode.SERVER_ERROR,
    ApplyCode.TIMED_OUT,
}
# The object was deleted meanwhile, which is usual.
_GONE = {ApplyCode.NOT_FOUND, ApplyCode.OTHER_UID}


@dataclass(slots=True)
class _Pending:
    """The newest status of an object that is not written yet."""

    change: StatusChange | None
    # How long it waits for a newer one.
    delay: Delay
    task: "asyncio.Task[None] | None" = None

    @property
    def priority(self) -> CallPriority:
        is_awaited = self.change is not None and lets_pods_follow(self.change)
        return CallPriority.ADMISSION if is_awaited else CallPriority.STATUS

    def is_empty(self) -> bool:
        return self.change is None

    def take(self) -> StatusChange | None:
        change, self.change = self.change, None
        return change

    def put_back(self, change: StatusChange) -> None:
        """Restores a status, unless a newer one has arrived."""
        if self.change is None:
            self.change = change


@dataclass(slots=True)
class _Unseen:
    """A write on a version of an object that the watch has not shown yet."""

    revision: int
    # None: it is not known whether the write took effect.
    written: StatusChange | None = None


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
        self._delays = StatusDelays(limiter, clock, options.waiting_report_seconds)
        self._statuses: dict[StatusKey, _Pending] = {}
        # The last write of each object, until the watch shows it.
        self._unseen: dict[StatusKey, _Unseen] = {}
        self._events: dict[StatusKey, deque[Event]] = {}
        # Objects whose next event can be written, and those whose next event has to wait.
        self._ready: deque[StatusKey] = deque()
        self._event_tasks: dict[StatusKey, asyncio.Task[None]] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._event_count = 0
        self._is_dropping = False
        metrics.gauge_from("event_queue_length", lambda: self._event_count)
        # The last write was refused because this adapter does not lead.
        self._is_deposed = False

    def take(self, batch: StatusBatch) -> None:
        for change in batch.changes:
            self._take_change(change)
        for event in batch.events:
            delay = self._options.waiting_report_seconds if _is_wait(event) else 0.0
            self.take_event(event, delay)

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
        if delay:
            self._write_later(key, 0, delay)
        else:
            self._make_ready(key)

    def _is_full(self) -> bool:
        """Whether an event has to be dropped; logs it once until the queue is half empty."""
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

    def forget_wait(self, uid: str) -> None:
        """Drops the waiting status of a pod that is bound now."""
        key = (KIND_POD, uid)
        pending = self._statuses.get(key)
        if pending is not None and pending.change is not None and pending.change.HasField("pod"):
            pending.change = None

    @property
    def is_idle(self) -> bool:
        return not (self._statuses or self._events)

    async def stop(self) -> None:
        tasks = [p.task for p in self._statuses.values() if p.task is not None]
        await self._delays.stop()
        await end_tasks(*tasks, *self._event_tasks.values(), *self._workers)

    def _take_change(self, change: StatusChange) -> None:
        key = subject(change)
        if key is None:
            return
        pending = self._statuses.get(key)
        if pending is not None:
            if pending.change is not None:
                self._metrics.count("coalesced_statuses", kind=shown_kind(key[0]))
            pending.change = change
        else:
            delay = Delay(lambda: self._is_minor(key))
            pending = self._statuses[key] = _Pending(change, delay)
        if not pending.delay.is_over and not may_wait(change, self._buffer):
            pending.delay.end()
        pending.delay.is_short = has_new_phase(change, self._buffer)
        if pending.task is not None:
            return
        pending.task = asyncio.get_running_loop().create_task(self._write_status(key, pending))

    async def _write_status(self, key: StatusKey, pending: _Pending) -> None:
        failures = 0
        await self._delays.wait(pending.delay)
        while not pending.is_empty():
            async with self._limiter.hold(pending.priority):
                # Taken only now, so that the newest status is written.
                change = pending.take()
                if change is None or self._is_written(key, change):
                    continue
                result = await self._call_status(change)
            self._count("status_writes", key, result)
            if result.code is ApplyCode.DONE:
                self._note_written(key, change)
            if result.code not in _AGAIN:
                failures = 0
                self._log(result, "status of %s %s: %s", *_shown(key), _said(result))
                continue
            failures += 1
            if failures >= self._options.status_tries and pending.is_empty():
                # The core sends the status again with the next change of the object.
                log.error("status of %s %s given up: %s", *_shown(key), _said(result))
                break
            pending.put_back(change)
            await self._clock.sleep(self._delay(failures, result))
        del self._statuses[key]

    def _is_minor(self, key: StatusKey) -> bool:
        pending = self._statuses.get(key)
        change = None if pending is None else pending.change
        return change is not None and is_minor(change, self._buffer)

    def _is_bound(self, key: StatusKey) -> bool:
        held = self._buffer.get(*key) if key[0] == KIND_POD else None
        return held is not None and bool(held.message().pod.node_name)

    def _is_written(self, key: StatusKey, change: StatusChange) -> bool:
        held = self._buffer.get(*key)
        revision = 0 if held is None else held.revision
        last = self._unseen.get(key)
        # Until the watch shows the last write, the buffer has an older status.
        if last is not None and last.revision == revision:
            if held is not None and last.written is not None and is_same(last.written, change):
                return True
            last.written = None
            return False
        if is_written(change, self._buffer):
            self._unseen.pop(key, None)
            return True
        self._unseen[key] = _Unseen(revision)
        return False

    def _note_written(self, key: StatusKey, change: StatusChange) -> None:
        last = self._unseen.get(key)
        if last is not None:
            last.written = change

    # Events.

    def _make_ready(self, key: StatusKey) -> None:
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
                delay = await self._write_first_event(key, 0)
            pause = (seconds := self._clock.now() - began) * seconds / _QUICK_SECONDS
            if delay is not None:
                self._write_later(key, 1, delay)
            elif self._events[key]:
                self._ready.append(key)
            else:
                del self._events[key]
            if pause > _QUICK_SECONDS and self._ready:
                await self._clock.sleep(min(pause, _LONGEST_PAUSE_SECONDS))

    def _write_later(self, key: StatusKey, failures: int, delay: float) -> None:
        task = asyncio.get_running_loop().create_task(self._write_events(key, failures, delay))
        self._event_tasks[key] = task

    async def _write_events(self, key: StatusKey, failures: int, delay: float) -> None:
        """Writes the events of one object after a delay, and after a longer one where that fails."""
        waiting = self._events[key]
        await self._clock.sleep(delay)
        if not failures:
            self._drop_overtaken(key, waiting)
        while waiting:
            async with self._limiter.hold(CallPriority.EVENT):
                again = await self._write_first_event(key, failures)
            failures = 0 if again is None else failures + 1
            if again is not None:
                await self._clock.sleep(again)
        del self._events[key]
        del self._event_tasks[key]

    async def _write_first_event(self, key: StatusKey, failures: int) -> float | None:
        """Writes the first event of an object; returns the delay before it has to be tried again."""
        waiting = self._events[key]
        result = await self._call_event(waiting[0])
        self._count("event_writes", key, result)
        if result.code in _AGAIN and failures + 1 < self._options.event_tries:
            return self._delay(failures + 1, result)
        event = waiting.popleft()
        self._event_count -= 1
        if result.code is not ApplyCode.DONE:
            cause = "given up" if result.code in _AGAIN else "refused"
            self._metrics.count("dropped_events", cause=cause)
        text = f"{event.reason}: {event.message}"
        self._log(result, "event of %s %s not written (%s): %s", *_shown(key), _said(result), text)
        return None

    def _drop_overtaken(self, key: StatusKey, waiting: deque[Event]) -> None:
        """Drops events about a wait before a later event, and all of them once the pod is bound."""
        while waiting and _is_wait(waiting[0]) and (len(waiting) > 1 or self._is_bound(key)):
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
                log.info("statuses and events are dropped: this adapter is no longer the leader")
            self._is_deposed = True
            return
        self._is_deposed = False
        if result.code is not ApplyCode.DONE:
            log.log(logging.DEBUG if result.code in _GONE else logging.WARNING, text, *shown)

    def _delay(self, failures: int, result: ApplyResult) -> float:
        delay = self._options.status_backoff.delay(failures, self._rng)
        return max(delay, result.retry_after_seconds)

    def _count(self, name: str, key: StatusKey, result: ApplyResult) -> None:
        self._metrics.count(name, kind=shown_kind(key[0]), result=result.code.value)


def _is_wait(event: Event) -> bool:
    return (event.kind, event.reason) in _WAITS


def _failure(error: Exception) -> ApplyResult:
    if isinstance(error, TimeoutError):
        return ApplyResult(ApplyCode.TIMED_OUT, str(error))
    log.exception("the status updater failed", exc_info=error)
    return ApplyResult(ApplyCode.SERVER_ERROR, f"{type(error).__name__}: {error}")


def _shown(key: StatusKey) -> tuple[str, str]:
    return shown_kind(key[0]), key[1]


def _said(result: ApplyResult) -> str:
    return f"{result.code.value} {result.reason}".rstrip()
