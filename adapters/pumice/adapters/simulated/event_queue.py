"""The event queue of a simulated cluster."""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pumice.adapters.runtime.clock import Clock, end_tasks

Argument: TypeAlias = str | int

# Rounding can make a wait too short to advance a clock; without this it would never end.
_ROUNDING_SECONDS = 1e-6


@dataclass(frozen=True, slots=True, order=True)
class QueuedEvent:
    """An event. Events of the same second happen in the order in which they were queued."""

    second: float
    number: int
    handler: str
    arguments: tuple[Argument, ...]


class EventQueue:
    """Events of a simulation, in the order of their simulated seconds.

    Every event happens at its own second, even if the machine is late, so that the state of the
    cluster depends only on the events and on the seconds of calls.
    """

    def __init__(self, clock: Clock, speed: float) -> None:
        self._clock = clock
        self._speed = speed
        self._start = clock.now()
        self._start_second = 0.0
        self._second = 0.0
        self._events: list[QueuedEvent] = []
        self._count = 0
        self._changed = asyncio.Event()
        self._handlers: dict[str, Callable[..., None]] = {}

    def register(self, **handlers: Callable[..., None]) -> None:
        """Sets the handlers of events by their names."""
        self._handlers.update(handlers)

    @property
    def second(self) -> float:
        """The second up to which all events have happened."""
        return self._second

    def clock_second(self) -> float:
        """The simulated second that the clock shows."""
        elapsed = (self._clock.now() - self._start) * self._speed
        return max(self._second, self._start_second + elapsed)

    def resume(self) -> None:
        """Continues from the current second, regardless of the time that has passed."""
        self._start_second, self._start = self._second, self._clock.now()

    def at(self, second: float, handler: str, *arguments: Argument) -> None:
        self._count += 1
        heapq.heappush(self._events, QueuedEvent(second, self._count, handler, arguments))
        self._changed.set()

    def after(self, seconds: float, handler: str, *arguments: Argument) -> None:
        self.at(self._second + seconds, handler, *arguments)

    def run_until(self, second: float) -> None:
        while self._is_due(second):
            self._handle_next()
        self._second = max(self._second, second)

    async def run(self, is_over: Callable[[], bool], handled: Callable[[], None]) -> None:
        """Handles events when they are due; calls ``handled`` after each."""
        while not is_over():
            self._changed.clear()
            if self._is_due(self.clock_second()):
                self._handle_next()
                handled()
                # A queue that is late must not block the event loop.
                await asyncio.sleep(0)
            else:
                await self._wait()

    def _is_due(self, second: float) -> bool:
        return bool(self._events) and self._events[0].second <= second + _ROUNDING_SECONDS

    def _handle_next(self) -> None:
        event = heapq.heappop(self._events)
        self._second = max(self._second, event.second)
        self._handlers[event.handler](*event.arguments)

    async def _wait(self) -> None:
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._changed.wait())]
        if self._events:
            seconds = (self._events[0].second - self.clock_second()) / self._speed
            waits.append(asyncio.ensure_future(self._clock.sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(*waits)
