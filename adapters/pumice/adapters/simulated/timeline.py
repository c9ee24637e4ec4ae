"""Simulated time: actions that happen at their moment, faster or slower than life."""

import asyncio
import heapq
from collections.abc import Callable
from typing import Any, TypeAlias

from pumice.adapters.runtime.clock import Clock, end_tasks

Action: TypeAlias = Callable[[], None]


class Timeline:
    """A calendar of actions, each with its simulated second."""

    def __init__(self, clock: Clock, speed: float) -> None:
        self._clock = clock
        self._speed = speed
        self._begin = clock.now()
        self._calendar: list[tuple[float, int, Action]] = []
        self._count = 0
        self._changed = asyncio.Event()

    def now(self) -> float:
        return (self._clock.now() - self._begin) * self._speed

    def at(self, second: float, action: Action) -> None:
        self._count += 1
        heapq.heappush(self._calendar, (second, self._count, action))
        self._changed.set()

    def after(self, seconds: float, action: Action) -> None:
        self.at(self.now() + seconds, action)

    async def run(self, is_over: Callable[[], bool]) -> None:
        """Does what is due, until it is over."""
        while not is_over():
            self._changed.clear()
            if self._calendar and self._calendar[0][0] <= self.now():
                heapq.heappop(self._calendar)[2]()
                # A calendar that is behind must not keep everybody else from their turn.
                await asyncio.sleep(0)
            else:
                await self._wait()

    async def _wait(self) -> None:
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._changed.wait())]
        if self._calendar:
            seconds = (self._calendar[0][0] - self.now()) / self._speed
            waits.append(asyncio.ensure_future(self._clock.sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(*waits)
