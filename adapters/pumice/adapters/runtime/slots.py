"""A bounded number of calls in flight, in which binds go before statuses, statuses before events."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import IntEnum


class Rank(IntEnum):
    """Who goes first when a slot becomes free."""

    APPLY = 0
    STATUS = 1
    EVENT = 2


class CallSlots:
    """Hands out slots by rank, and within a rank in the order in which they were asked for."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._queues: tuple[deque[asyncio.Future[None]], ...] = tuple(deque() for _ in Rank)

    @asynccontextmanager
    async def hold(self, rank: Rank) -> AsyncIterator[None]:
        await self._acquire(rank)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, rank: Rank) -> None:
        ahead = any(self._queues[higher] for higher in range(rank + 1))
        if self._free and not ahead:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues[rank].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._queues[rank]:
                self._queues[rank].remove(turn)
            elif not turn.cancelled():
                # The slot was given in the same moment: pass it on.
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
