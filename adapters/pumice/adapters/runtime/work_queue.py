"""A work queue of keys, like that of client-go, for reconcile loops and resync queues.

A key is the name or identity of an object, never the object, so that a worker reads the newest
state. A key is queued at most once. A key that is being processed is not returned again before
`done`; if it is added in between, it becomes due again. `retry` adds a key after a delay that
doubles with every retry, until `forget` resets it after a success.

    while True:
        key = await queue.get()
        try:
            await reconcile(key)
            queue.forget(key)
        except SomeError:
            queue.retry(key)
        finally:
            queue.done(key)
"""

import asyncio
import heapq
import random
from contextlib import suppress
from typing import Final, Generic, TypeVar

from pumice.adapters.runtime.clock import Backoff, Clock, SystemClock, end_tasks

K = TypeVar("K")

# Outdated entries are removed when there are more of them than of queued keys, and more than this.
_LEAST_OUTDATED: Final = 1000


class WorkQueue(Generic[K]):
    """Queued keys, ordered by due time. Several workers may get keys."""

    def __init__(self, backoff: Backoff, clock: Clock, rng: random.Random) -> None:
        self._backoff, self._clock, self._rng = backoff, clock, rng
        self._heap: list[tuple[float, int, K]] = []
        # The due time of each queued key. Entries of the heap with another time are outdated.
        self._due: dict[K, float] = {}
        self._processing: set[K] = set()
        self._retries: dict[K, int] = {}
        self._count = 0
        self._changed = asyncio.Event()

    def add(self, key: K) -> None:
        """Makes a key due now, even if it waits for a retry."""
        self._add_at(key, self._clock.now())

    def add_after(self, key: K, seconds: float) -> None:
        """Makes a key due after some time, unless it is due earlier."""
        self._add_at(key, self._clock.now() + seconds)

    def retry(
        self, key: K, least_seconds: float = 0.0, most_seconds: float = float("inf")
    ) -> float:
        """Makes a key due after its delay, which is 0 the first time; returns the delay.

        A queued key keeps its due time, and 0 is returned.
        """
        if key in self._due:
            return 0.0
        retries = self._retries.get(key, 0)
        self._retries[key] = retries + 1
        delay = max(min(self._backoff.delay(retries, self._rng), most_seconds), least_seconds)
        self._add_at(key, self._clock.now() + delay)
        return delay

    def forget(self, key: K) -> None:
        """Resets the delay of a key after a success. A queued key stays queued."""
        self._retries.pop(key, None)

    def done(self, key: K) -> None:
        """Ends the processing of a key, so that it can be returned again."""
        self._processing.discard(key)
        if key in self._due:
            self._push(key, self._due[key])

    def __len__(self) -> int:
        """The number of queued keys, without those that are being processed."""
        return len(self._due)

    async def get(self) -> K:
        """Waits for the next due key. The caller must call `done` after processing it."""
        while True:
            key = self._pop()
            if key is not None:
                self._processing.add(key)
                return key
            self._changed.clear()
            await self._wait()

    def _add_at(self, key: K, due: float) -> None:
        held = self._due.get(key)
        if held is not None and held <= due:
            return
        self._due[key] = due
        # A key that is being processed waits for `done`.
        if key not in self._processing:
            self._push(key, due)

    def _push(self, key: K, due: float) -> None:
        if len(self._heap) > 2 * len(self._due) + _LEAST_OUTDATED:
            self._remove_outdated()
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, key))
        self._changed.set()

    def _remove_outdated(self) -> None:
        """Removes outdated entries. One that is due in a year would stay for a year."""
        self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
        heapq.heapify(self._heap)

    def _pop(self) -> K | None:
        """The first due key; None: none is due."""
        while self._heap and self._heap[0][0] <= self._clock.now():
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due and key not in self._processing:
                del self._due[key]
                return key
        return None

    async def _wait(self) -> None:
        if not self._heap:
            await self._changed.wait()
            return
        seconds = self._heap[0][0] - self._clock.now()
        if type(self._clock) is SystemClock:
            # The timer of the event loop does the same without two extra tasks.
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
            return
        changed = asyncio.ensure_future(self._changed.wait())
        due = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({changed, due}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(changed, due)
