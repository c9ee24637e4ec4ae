"""A limit on calls in flight. Statuses and events wait for binds, and events for statuses.

A status or an event costs the API server as much as a bind does, so none begins while a bind is in
flight or waits for its turn. Binds that never end must not stop statuses for ever: after a while a few
of the places are for them. Even without binds they leave places free, so that a bind begins at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Final

from pumice.adapters.runtime.clock import Clock, SystemClock

# So long statuses and events wait for binds that follow each other without a gap.
POSTPONED_SECONDS: Final = 3.0
# One place in so many is for statuses and events: without binds, and beside binds after that time.
_ALONE_IN: Final = 2
_BESIDE_IN: Final = 8
_LOOK_SECONDS: Final = 1.0


class CallPriority(IntEnum):
    """Which call begins first when another one ends."""

    APPLY = 0
    STATUS = 1
    EVENT = 2


class CallLimiter:
    """Admits calls by priority, and within a priority in the order of arrival."""

    def __init__(self, size: int, clock: Clock | None = None) -> None:
        self._free = self._size = size
        self._clock = clock or SystemClock()
        self._queues: tuple[deque[asyncio.Future[None]], ...] = tuple(deque() for _ in CallPriority)
        # Calls in flight: apply calls, and all others.
        self._applying = self._others = 0
        # When the first of the apply calls that followed each other without a gap began.
        self._applying_since = 0.0
        self._waking: asyncio.Task[None] | None = None
        # Whether apply calls are about to ask for a place.
        self.expects_apply: Callable[[], bool] = lambda: False

    @property
    def postpones_others(self) -> bool:
        """Whether statuses and events wait for binds."""
        return self._places_for_others() == 0

    def hold(self, priority: CallPriority) -> "_Hold":
        """A context in which the caller has a place."""
        return _Hold(self, priority)

    async def acquire(self, priority: CallPriority) -> None:
        """Waits for a place; whoever got one has to release it."""
        if not self.acquire_at_once(priority):
            await self._wait(priority)

    def acquire_at_once(self, priority: CallPriority) -> bool:
        """Takes a place if one is free and nobody is ahead; returns whether it did."""
        if any(self._queues[: priority + 1]) or not self._may_begin(priority):
            return False
        self._take(priority)
        return True

    def release(self, priority: CallPriority) -> None:
        self._free += 1
        if priority is CallPriority.APPLY:
            self._applying -= 1
        else:
            self._others -= 1
        self._admit()

    def _may_begin(self, priority: CallPriority) -> bool:
        if priority is CallPriority.APPLY:
            return self._free > 0
        return self._free > 0 and self._others < self._places_for_others()

    def _places_for_others(self) -> int:
        if not (self._applying or self._queues[CallPriority.APPLY] or self.expects_apply()):
            return max(1, self._size // _ALONE_IN)
        is_long = self._applying and self._clock.now() - self._applying_since >= POSTPONED_SECONDS
        return max(1, self._size // _BESIDE_IN) if is_long else 0

    def _take(self, priority: CallPriority) -> None:
        self._free -= 1
        if priority is not CallPriority.APPLY:
            self._others += 1
            return
        if not self._applying:
            self._applying_since = self._clock.now()
        self._applying += 1

    def _admit(self) -> None:
        for priority, queue in zip(CallPriority, self._queues, strict=True):
            while queue and self._may_begin(priority):
                turn = queue.popleft()
                if not turn.done():
                    self._take(priority)
                    turn.set_result(None)
            if queue and priority is CallPriority.APPLY:
                return

    async def _wait(self, priority: CallPriority) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues[priority].append(turn)
        if priority is not CallPriority.APPLY and self._waking is None:
            self._waking = asyncio.get_running_loop().create_task(self._admit_in_time())
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._queues[priority]:
                self._queues[priority].remove(turn)
            elif not turn.cancelled():
                # It was admitted in the same moment: the next one is.
                self.release(priority)
            raise

    async def _admit_in_time(self) -> None:
        """Admits statuses and events that have waited long enough, also while no call ends."""
        try:
            while any(self._queues[CallPriority.STATUS :]):
                await self._clock.sleep(_LOOK_SECONDS)
                self._admit()
        finally:
            self._waking = None


class _Hold:
    """A place in a limiter for the time of a context; cheaper than a generator for each call."""

    __slots__ = ("_limiter", "_priority")

    def __init__(self, limiter: CallLimiter, priority: CallPriority) -> None:
        self._limiter, self._priority = limiter, priority

    async def __aenter__(self) -> None:
        await self._limiter.acquire(self._priority)

    async def __aexit__(self, *_: object) -> None:
        self._limiter.release(self._priority)
