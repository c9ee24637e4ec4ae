"""A limit on calls in flight. Binds go before statuses, and statuses before events."""

import asyncio
from collections import deque
from enum import IntEnum


class CallPriority(IntEnum):
    """Which call begins first when another one ends."""

    APPLY = 0
    STATUS = 1
    EVENT = 2


class CallLimiter:
    """Admits calls by priority, and within a priority in the order of arrival."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._queues: tuple[deque[asyncio.Future[None]], ...] = tuple(deque() for _ in CallPriority)

    def hold(self, priority: CallPriority) -> "_Hold":
        """A context in which the caller has a place."""
        return _Hold(self, priority)

    async def acquire(self, priority: CallPriority) -> None:
        """Waits for a place; whoever got one has to release it."""
        if not self.acquire_at_once(priority):
            await self._wait(priority)

    def acquire_at_once(self, priority: CallPriority) -> bool:
        """Takes a place if one is free and nobody is ahead; returns whether it did."""
        if not self._free or any(self._queues[: priority + 1]):
            return False
        self._free -= 1
        return True

    async def _wait(self, priority: CallPriority) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues[priority].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._queues[priority]:
                self._queues[priority].remove(turn)
            elif not turn.cancelled():
                # It was admitted in the same moment: the next one is.
                self.release()
            raise

    def release(self) -> None:
        for queue in self._queues:
            while queue:
                turn = queue.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1


class _Hold:
    """A place in a limiter for the time of a context; cheaper than a generator for each call."""

    __slots__ = ("_limiter", "_priority")

    def __init__(self, limiter: CallLimiter, priority: CallPriority) -> None:
        self._limiter, self._priority = limiter, priority

    async def __aenter__(self) -> None:
        await self._limiter.acquire(self._priority)

    async def __aexit__(self, *_: object) -> None:
        self._limiter.release()
