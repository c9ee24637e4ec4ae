"""The status writer: level-triggered, coalesced per object, only on change.

The status of a pod or PodGroup that waits is written after a short delay, and not at all if the pod
was bound or the gang placed meanwhile: a session may see a gang before all of its pods exist. Statuses
of PodGroups that only change counters or conditions are also delayed, since more of them follow while
pods are bound and start. The admission of a PodGroup and the end of a scheduling gate do not wait for
binds: controllers create the pods of a Job only after it is admitted.

A status is tried again until it is written, or until the watch reports that its object was deleted.
The core does not send it again before the object changes, and a PodGroup that is not admitted may
never change. While a definition of a resource is changed, the API server may not find an object that
exists, or refuse a valid status.
"""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Final

from pumice.adapters.runtime.buffer import ResumeBuffer
from pumice.adapters.runtime.call_limiter import CallLimiter, CallPriority
from pumice.adapters.runtime.clock import Clock, end_tasks
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import KindNumber, ObjectKey, shown_kind
from pumice.adapters.runtime.options import RuntimeOptions
from pumice.adapters.runtime.status_changes import (
    is_same,
    is_written,
    lets_pods_follow,
    subject,
    urgency_of,
)
from pumice.adapters.runtime.status_delays import Delay, StatusDelays
from pumice.adapters.runtime.world import ApplyCode, StatusUpdater
from pumice.adapters.runtime.world_calls import TRANSIENT, UpdateCalls
from pumice.v1.object_pb2 import KIND_POD
from pumice.v1.status_pb2 import StatusChange

# A lease that is renewed late is lost for a moment, and rights may be granted later.
_AGAIN: Final = TRANSIENT | {
    ApplyCode.NOT_LEADING,
    ApplyCode.FORBIDDEN,
    ApplyCode.WITHHELD,
}
# The fourth failure in a row is logged, then the eighth, and so on.
_LOGGED_FAILURES: Final = 4
# Results after which the same status may be written as long as the watch has the object.
_AGAIN_IF_HELD: Final = frozenset({ApplyCode.NOT_FOUND, ApplyCode.OTHER_UID, ApplyCode.INVALID})


@dataclass(slots=True)
class _Pending:
    """The newest status of an object that is not written yet."""

    change: StatusChange | None
    # How long it waits for a newer one.
    delay: Delay = field(default_factory=Delay)
    task: "asyncio.Task[None] | None" = None
    # The priority with which it waits for a slot; None: it does not.
    queued_as: CallPriority | None = None
    is_dropped: bool = False
    # Whether its object does not allow it. A newer one is tried at once.
    is_refused: bool = False

    @property
    def priority(self) -> CallPriority:
        is_awaited = self.change is not None and lets_pods_follow(self.change)
        return CallPriority.ADMISSION if is_awaited else CallPriority.STATUS

    def put(self, change: StatusChange) -> None:
        self.change, self.is_dropped = change, False

    def drop(self) -> None:
        """Drops the status, even if its write is in flight and fails."""
        self.change, self.is_dropped = None, True
        self.delay.end()

    def pop(self) -> StatusChange | None:
        change, self.change = self.change, None
        return change

    def put_back(self, change: StatusChange) -> None:
        """Restores a status, unless a newer one has arrived, or it was dropped meanwhile."""
        if self.change is None and not self.is_dropped:
            self.change = change


@dataclass(slots=True)
class _Unseen:
    """A write on a version of an object that the watch has not shown yet."""

    revision: int
    # None: it is not known whether the write took effect.
    written: StatusChange | None = None


class StatusWriter:
    """Writes the newest status of each object, after binds."""

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
        self._clock, self._metrics = clock, metrics
        self._calls = UpdateCalls("status", options, clock, rng, metrics)
        self._delays = StatusDelays(limiter, clock, options.waiting_report_seconds)
        self._pending: dict[ObjectKey, _Pending] = {}
        # The last write of each object, until the watch shows it.
        self._unseen: dict[ObjectKey, _Unseen] = {}

    def add(self, change: StatusChange) -> None:
        """Writes a status; it replaces one of the same object that is not written yet."""
        key = subject(change)
        if key is None:
            return
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = _Pending(change)
        else:
            if pending.change is not None:
                self._metrics.count("coalesced_statuses", kind=shown_kind(key[0]))
            pending.put(change)
        if not pending.delay.is_over:
            pending.delay.set_urgency(urgency_of(change, self._buffer))
        is_overdue = pending.queued_as is not None and pending.priority < pending.queued_as
        if is_overdue or pending.is_refused:
            # This status need not wait for binds, or for a later try, as the one that it replaces does.
            assert pending.task is not None
            pending.task.cancel()
            pending.task = pending.queued_as = None
            pending.is_refused = False
        if pending.task is None:
            pending.task = asyncio.get_running_loop().create_task(self._write(key, pending))

    def forget(self, kind: KindNumber, uid: str) -> None:
        """Drops the status of a deleted object."""
        self._unseen.pop((kind, uid), None)
        pending = self._pending.get((kind, uid))
        if pending is None:
            return
        pending.drop()
        if pending.is_refused and pending.task is not None:
            pending.task.cancel()
            del self._pending[kind, uid]

    def forget_wait(self, uid: str) -> None:
        """Drops the waiting status of a pod that is bound now."""
        pending = self._pending.get((KIND_POD, uid))
        if pending is not None and pending.change is not None and pending.change.HasField("pod"):
            pending.drop()

    def end_delays(self) -> None:
        """Writes all statuses now, because the process ends."""
        for pending in self._pending.values():
            pending.delay.end()

    def drop_all(self) -> None:
        """Drops all statuses. The core of the next leader computes them again."""
        for pending in self._pending.values():
            pending.drop()

    @property
    def is_idle(self) -> bool:
        """Whether no status waits, except for those that are refused."""
        return all(pending.is_refused for pending in self._pending.values())

    async def stop(self) -> None:
        tasks = [p.task for p in self._pending.values() if p.task is not None]
        await self._delays.stop()
        await end_tasks(*tasks)

    async def _write(self, key: ObjectKey, pending: _Pending) -> None:
        failures = 0
        await self._delays.wait(pending.delay)
        while pending.change is not None:
            pending.queued_as = pending.priority
            async with self._limiter.hold(pending.queued_as):
                pending.queued_as = None
                # Only now, so that the newest status is written.
                change = pending.pop()
                if change is None or self._is_written(key, change):
                    continue
                result = await self._calls.make(key, self._updater.write_status(change))
            if result.code is ApplyCode.DONE:
                self._note_written(key, change)
            if not self._is_tried_again(key, result.code):
                failures = 0
                self._calls.log_failure(key, result)
                continue
            failures += 1
            is_refused = result.code is ApplyCode.INVALID
            if failures >= (1 if is_refused else _LOGGED_FAILURES) and failures.bit_count() == 1:
                self._calls.log_failure(key, result, f" ({failures} tries)", is_lasting=True)
            pending.put_back(change)
            if is_refused and pending.change is not change:
                failures = 0
                continue
            pending.is_refused = is_refused
            await self._clock.sleep(self._calls.delay(failures, result))
            pending.is_refused = False
        del self._pending[key]

    def _is_tried_again(self, key: ObjectKey, code: ApplyCode) -> bool:
        is_held = self._buffer.get(*key) is not None
        return code in _AGAIN or (code in _AGAIN_IF_HELD and is_held)

    def _is_written(self, key: ObjectKey, change: StatusChange) -> bool:
        held = self._buffer.get(*key)
        if held is None:
            # The object was deleted, or the watch has not shown it yet.
            return False
        last = self._unseen.get(key)
        # Until the watch shows the last write, the buffer has an older status.
        if last is not None and last.revision == held.revision:
            if last.written is not None and is_same(last.written, change):
                return True
            last.written = None
            return False
        if is_written(change, self._buffer):
            self._unseen.pop(key, None)
            return True
        self._unseen[key] = _Unseen(held.revision)
        return False

    def _note_written(self, key: ObjectKey, change: StatusChange) -> None:
        last = self._unseen.get(key)
        if last is not None:
            last.written = change
