"""Delays of statuses that nobody needs at once. One timer serves all statuses that wait.

A status that waits is replaced by a newer one, so each delay saves writes while binds are made.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final

from pumice.adapters.runtime.call_limiter import CallLimiter
from pumice.adapters.runtime.clock import Clock, end_tasks
from pumice.adapters.runtime.status_changes import Urgency

# Ticks of the timer in one delay.
_TICKS: Final = 4
# The most delays of a status while binds are in flight, and of a minor change while binds are made.
_MOST_DELAYS: Final = 4
_MOST_DELAYS_OF_MINOR: Final = 60
# A tick ends a delay that has so much of its time behind it: clocks are not exact.
_COMPLETE: Final = 0.99


@dataclass(slots=True, eq=False)
class Delay:
    """The delay of one status."""

    urgency: Urgency = Urgency.SOON
    # Whether the status is to be written now.
    is_over: bool = False
    since: float = 0.0
    waiter: "asyncio.Future[None] | None" = None

    def set_urgency(self, urgency: Urgency) -> None:
        """Sets the urgency of the newest status; ends the delay of one that is to be written at once."""
        self.urgency = urgency
        if urgency is Urgency.AT_ONCE:
            self.end()

    def end(self) -> None:
        """Ends the delay, or prevents it."""
        self.is_over = True
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


class StatusDelays:
    """Ends delays when no binds are made, or after the longest delay."""

    def __init__(self, limiter: CallLimiter, clock: Clock, seconds: float) -> None:
        self._limiter, self._clock, self._seconds = limiter, clock, seconds
        self._open: dict[Delay, None] = {}
        self._timer: asyncio.Task[None] | None = None

    async def wait(self, delay: Delay) -> None:
        """Waits for the end of a delay."""
        if not self._seconds or delay.is_over:
            return
        loop = asyncio.get_running_loop()
        delay.waiter, delay.since = loop.create_future(), self._clock.now()
        self._open[delay] = None
        if self._timer is None:
            self._timer = loop.create_task(self._tick())
        try:
            await delay.waiter
        finally:
            del self._open[delay]

    async def stop(self) -> None:
        if self._timer is not None:
            await end_tasks(self._timer)

    async def _tick(self) -> None:
        limiter = self._limiter
        # At the ticks of the last delay: whether binds were in flight, and how many had begun.
        history = deque([(limiter.postpones_others, limiter.apply_count)], _TICKS + 1)
        try:
            while self._open:
                await self._clock.sleep(self._seconds / _TICKS)
                history.append((limiter.postpones_others, limiter.apply_count))
                had_binds = any(has_binds for has_binds, _ in history)
                made_binds = had_binds or history[0][1] != history[-1][1]
                for delay in self._open:
                    is_over = self._is_over(delay, had_binds, made_binds)
                    if is_over or (delay.urgency is Urgency.AFTER_BINDS and not history[-1][0]):
                        delay.end()
        finally:
            self._timer = None

    def _is_over(self, delay: Delay, had_binds: bool, made_binds: bool) -> bool:
        delays = (self._clock.now() - delay.since) / self._seconds / _COMPLETE
        if delay.urgency is Urgency.MINOR and made_binds:
            return delays >= _MOST_DELAYS_OF_MINOR
        return delays >= (_MOST_DELAYS if had_binds else 1)
