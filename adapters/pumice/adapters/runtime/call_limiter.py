"""Limits calls in flight. Statuses and events wait for binds, and events for statuses.

Only statuses that pods wait for, such as the admission of a PodGroup, run beside binds.

A status or an event costs the API server as much as a bind, so none begins while a bind is in flight
or queued. Binds without a gap must not stop statuses for ever, so after some time a few slots are
reserved for statuses. Without binds, statuses and events leave slots free, so that a bind can begin
at once. Only a few events are in flight at a time. Each waits for the one before it, so a busy
server gets few events, and an idle one gets many.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from pumice.adapters.runtime.clock import Clock, SystemClock
from pumice.adapters.runtime.durations import RecentDurations

# Time that statuses and events wait for binds without a gap.
STATUSES_POSTPONED_SECONDS: Final = 3.0
EVENTS_POSTPONED_SECONDS: Final = 30.0
# Events are not written in shorter gaps between binds: more binds follow in the next session.
EVENT_GAP_SECONDS: Final = 0.5
_CHECK_SECONDS: Final = 1.0


class CallPriority(IntEnum):
    """The priority of a call. The lowest value begins first."""

    # Statuses that pods wait for. They use a part of the slots, and binds use the others.
    ADMISSION = 0
    APPLY = 1
    STATUS = 2
    EVENT = 3


@dataclass(frozen=True, slots=True)
class _Share:
    """The slots that calls other than binds may use."""

    # Time that they wait for binds without a gap, and the length of a gap.
    postponed_seconds: float
    gap_seconds: float
    # Divisor for the number of slots: without binds, and beside binds after that time.
    alone_divisor: int
    beside_divisor: int
    # The calls that are counted against the slots without binds. Beside binds, each priority has its
    # own slots, so that statuses without end do not stop events.
    counted: tuple[CallPriority, ...]


_PRIORITIES: Final = tuple(CallPriority)
_REPORTS: Final = (CallPriority.STATUS, CallPriority.EVENT)
_SHARES: Final = {
    CallPriority.ADMISSION: _Share(0.0, 0.0, 2, 4, (CallPriority.ADMISSION,)),
    CallPriority.STATUS: _Share(STATUSES_POSTPONED_SECONDS, 0.0, 2, 8, _REPORTS),
    CallPriority.EVENT: _Share(EVENTS_POSTPONED_SECONDS, EVENT_GAP_SECONDS, 16, 32, _REPORTS),
}


class CallLimiter:
    """Admits calls by priority and order of arrival."""

    def __init__(self, size: int, clock: Clock | None = None) -> None:
        self._free = self._size = size
        self.clock = clock or SystemClock()
        self._queues: tuple[deque[asyncio.Future[None]], ...] = tuple(deque() for _ in _PRIORITIES)
        # Calls in flight by priority.
        self._in_flight = [0] * len(_PRIORITIES)
        # Start of the current series of apply calls: without any gap, and without a gap that is long
        # enough for events; and the end of the last apply call.
        self._applying_since = self._busy_since = 0.0
        self._applied_at = -EVENT_GAP_SECONDS
        self._waking: asyncio.Task[None] | None = None
        # Number of apply calls so far, and the durations of the last ones.
        self.apply_count = 0
        self.apply_durations = RecentDurations(self.clock)
        # Whether apply calls are about to request a slot.
        self.expects_apply: Callable[[], bool] = lambda: False

    @property
    def postpones_others(self) -> bool:
        """Whether statuses wait for binds."""
        return self._slots(CallPriority.STATUS)[0] == 0

    def hold(self, priority: CallPriority) -> "_Hold":
        """A context in which the caller holds a slot."""
        return _Hold(self, priority)

    async def acquire(self, priority: CallPriority) -> None:
        """Waits for a slot. The caller must release it."""
        if not self.acquire_at_once(priority):
            await self._wait(priority)

    def acquire_at_once(self, priority: CallPriority) -> bool:
        """Acquires a slot if one is free and no call is ahead; returns whether it did."""
        # Waiting admissions have used their share, so binds need not wait for them.
        first = min(priority, CallPriority.APPLY)
        if any(self._queues[first : priority + 1]) or not self._may_begin(priority):
            return False
        self._begin(priority)
        return True

    def release(self, priority: CallPriority) -> None:
        if priority is CallPriority.APPLY:
            self._applied_at = self.clock.now()
        self._free += 1
        self._in_flight[priority] -= 1
        self._admit()

    def expect_no_more_binds(self) -> None:
        """Makes statuses and events begin without a gap after the last bind."""
        self._applied_at = -EVENT_GAP_SECONDS
        self._admit()

    def _may_begin(self, priority: CallPriority) -> bool:
        if not self._free:
            return False
        if priority is CallPriority.APPLY:
            return True
        slots, counted = self._slots(priority)
        return sum(self._in_flight[one] for one in counted) < slots

    def _slots(self, priority: CallPriority) -> tuple[int, tuple[CallPriority, ...]]:
        """The slots of a priority other than APPLY, and the calls that are counted against them."""
        share, now = _SHARES[priority], self.clock.now()
        is_applying = self._in_flight[CallPriority.APPLY] > 0 or (
            now - self._applied_at < share.gap_seconds
        )
        if not (is_applying or self._queues[CallPriority.APPLY] or self.expects_apply()):
            return max(1, self._size // share.alone_divisor), share.counted
        since = self._busy_since if share.gap_seconds else self._applying_since
        waited = now - since if is_applying else 0.0
        is_due = waited >= share.postponed_seconds
        return max(1, self._size // share.beside_divisor) if is_due else 0, (priority,)

    def _begin(self, priority: CallPriority) -> None:
        if priority is CallPriority.APPLY:
            self.apply_count += 1
            now = self.clock.now()
            if not self._in_flight[priority]:
                self._applying_since = now
                if now - self._applied_at >= EVENT_GAP_SECONDS:
                    self._busy_since = now
        self._free -= 1
        self._in_flight[priority] += 1

    def _admit(self) -> None:
        for priority, queue in zip(_PRIORITIES, self._queues, strict=True):
            while queue and self._may_begin(priority):
                turn = queue.popleft()
                if not turn.done():
                    self._begin(priority)
                    turn.set_result(None)
            if queue and priority is CallPriority.APPLY:
                return

    async def _wait(self, priority: CallPriority) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues[priority].append(turn)
        if priority > CallPriority.APPLY and self._waking is None:
            self._waking = asyncio.get_running_loop().create_task(self._admit_regularly())
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._queues[priority]:
                self._queues[priority].remove(turn)
            elif not turn.cancelled():
                # It was admitted at the same moment, so the next call is admitted instead.
                self.release(priority)
            raise

    async def _admit_regularly(self) -> None:
        """Admits statuses and events that have waited long enough, even while no call ends."""
        try:
            while any(self._queues[CallPriority.STATUS :]):
                await self.clock.sleep(_CHECK_SECONDS)
                self._admit()
        finally:
            self._waking = None


class _Hold:
    """A slot for the duration of a context. It is cheaper than a generator for each call."""

    __slots__ = ("_began", "_limiter", "_priority")

    def __init__(self, limiter: CallLimiter, priority: CallPriority) -> None:
        self._limiter, self._priority = limiter, priority

    async def __aenter__(self) -> None:
        await self._limiter.acquire(self._priority)
        self._began = self._limiter.clock.now()

    async def __aexit__(self, *_: object) -> None:
        if self._priority is CallPriority.APPLY:
            self._limiter.apply_durations.add_since(self._began)
        self._limiter.release(self._priority)
