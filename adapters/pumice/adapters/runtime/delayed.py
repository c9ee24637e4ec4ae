"""Keys that wait their turn, longer each time they come back."""

import asyncio
import heapq
import random
from typing import Generic, TypeVar

from pumice.adapters.runtime.clock import Backoff, Clock, end_tasks

K = TypeVar("K")


class DelayedKeys(Generic[K]):
    """A queue of keys, each at most once, with a delay that grows until the key is forgotten."""

    def __init__(self, backoff: Backoff, clock: Clock, rng: random.Random) -> None:
        self._backoff = backoff
        self._clock = clock
        self._rng = rng
        self._due: list[tuple[float, int, K]] = []
        self._waiting: set[K] = set()
        self._failures: dict[K, int] = {}
        self._count = 0
        self._changed = asyncio.Event()

    def add(self, key: K) -> float:
        """The delay after which the key is due; one that waits already keeps its place."""
        if key in self._waiting:
            return 0.0
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = self._backoff.delay(failures, self._rng)
        self._waiting.add(key)
        self._count += 1
        heapq.heappush(self._due, (self._clock.now() + delay, self._count, key))
        self._changed.set()
        return delay

    def forget(self, key: K) -> None:
        """Resets the delay of a key after a success. A key that waits is still handed out."""
        self._failures.pop(key, None)

    def __len__(self) -> int:
        return len(self._waiting)

    async def next(self) -> K:
        """The next key that is due."""
        while True:
            if self._due and self._due[0][0] <= self._clock.now():
                key = heapq.heappop(self._due)[2]
                self._waiting.discard(key)
                return key
            self._changed.clear()
            await self._wait()

    async def _wait(self) -> None:
        if not self._due:
            await self._changed.wait()
            return
        changed = asyncio.ensure_future(self._changed.wait())
        due = asyncio.ensure_future(self._clock.sleep(self._due[0][0] - self._clock.now()))
        try:
            await asyncio.wait({changed, due}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(changed, due)
