"""A limit on calls in flight. Binds go before statuses, and statuses before events."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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

    @asynccontextmanager
    async def hold(self, priority: CallPriority) -> AsyncIterator[None]:
        await self._acquire(priority)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, priority: CallPriority) -> None:
        ahead = any(self._queues[higher] for higher in range(priority + 1))
        if self._free and not ahead:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues[priority].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._queues[priority]:
                self._queues[priority].remove(turn)
            elif not turn.cancelled():
                # It was admitted in the same moment: the next one is.
                self._release()
            raise

    def _release(self) -> None:
        for queue in self._queues:
            while queue:
                turn = queue.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1
