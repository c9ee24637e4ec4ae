"""Simulated time: actions that happen at their moment, faster or slower than life."""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pumice.adapters.runtime.clock import Clock, end_tasks

Argument: TypeAlias = str | int

# A wait that rounding made too short to move a clock would be waited for ever.
_ROUNDING_SECONDS = 1e-6


@dataclass(frozen=True, slots=True, order=True)
class Appointment:
    """One entry of the calendar; those of one second come in the order in which they were made."""

    second: float
    number: int
    action: str
    arguments: tuple[Argument, ...]


class Timeline:
    """A calendar of actions, each with its simulated second.

    Every action happens at its own second, however late the machine is: what the cluster becomes
    depends on the calendar and on the seconds at which it was called, and on nothing else.
    """

    def __init__(self, clock: Clock, speed: float) -> None:
        self._clock = clock
        self._speed = speed
        self._begin = clock.now()
        self._base = 0.0
        self._now = 0.0
        self._calendar: list[Appointment] = []
        self._count = 0
        self._changed = asyncio.Event()
        self._actions: dict[str, Callable[..., None]] = {}

    def teach(self, **actions: Callable[..., None]) -> None:
        """What the names in the calendar mean."""
        self._actions.update(actions)

    def now(self) -> float:
        """The second up to which everything has happened."""
        return self._now

    def present(self) -> float:
        """The second that the clock shows, which nothing may have happened at yet."""
        return max(self._now, self._base + (self._clock.now() - self._begin) * self._speed)

    def go_on(self) -> None:
        """From here on time passes again, whatever the clock did meanwhile."""
        self._base, self._begin = self._now, self._clock.now()

    def at(self, second: float, action: str, *arguments: Argument) -> None:
        self._count += 1
        heapq.heappush(self._calendar, Appointment(second, self._count, action, arguments))
        self._changed.set()

    def after(self, seconds: float, action: str, *arguments: Argument) -> None:
        self.at(self._now + seconds, action, *arguments)

    def catch_up(self, second: float) -> None:
        """Does all that is due until then."""
        while self._is_due(second):
            self._do_next()
        self._now = max(self._now, second)

    async def run(self, is_over: Callable[[], bool], moved: Callable[[], None]) -> None:
        """Does what is due, until it is over; says so after each action."""
        while not is_over():
            self._changed.clear()
            if self._is_due(self.present()):
                self._do_next()
                moved()
                # A calendar that is behind must not keep everybody else from their turn.
                await asyncio.sleep(0)
            else:
                await self._wait()

    def _is_due(self, second: float) -> bool:
        return bool(self._calendar) and self._calendar[0].second <= second + _ROUNDING_SECONDS

    def _do_next(self) -> None:
        due = heapq.heappop(self._calendar)
        self._now = max(self._now, due.second)
        self._actions[due.action](*due.arguments)

    async def _wait(self) -> None:
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._changed.wait())]
        if self._calendar:
            seconds = (self._calendar[0].second - self.present()) / self._speed
            waits.append(asyncio.ensure_future(self._clock.sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(*waits)
