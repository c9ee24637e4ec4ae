"""A clock that stands still until a test moves it."""

import asyncio
import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from pumice.adapters.runtime.clock import Backoff


class FakeClock:
    def __init__(self, now: float = 1000.0) -> None:
        self._now = now
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0
        # Every wait that was asked for.
        self.sleeps: list[float] = []

    def now(self) -> float:
        return self._now

    def unix_ms(self) -> int:
        return int(self._now * 1000)

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        self._count += 1
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, self._count, turn))
        await turn

    async def advance(self, seconds: float) -> None:
        """Moves on, waking everyone whose time comes, in order."""
        end = self._now + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, turn = heapq.heappop(self._sleepers)
            self._now = max(self._now, due)
            if not turn.done():
                turn.set_result(None)
                await settle()
        self._now = end
        await settle()


@dataclass(frozen=True, slots=True)
class CountingBackoff(Backoff):
    """Notes for how many failures in a row a delay was asked for; its delays are short."""

    asked: list[int] = field(default_factory=list)

    def delay(self, failures: int, rng: random.Random) -> float:
        self.asked.append(failures)
        return 0.001


async def settle() -> None:
    """Lets everything that can go on without time or network go on."""
    for _ in range(100):
        await asyncio.sleep(0)


async def until(happened: Callable[[], object], what: str = "it did not happen") -> None:
    """Waits for the network; the limit is only for a test that fails."""
    for _ in range(30_000):
        if happened():
            return
        await asyncio.sleep(0.001)
    raise AssertionError(what)
