"""A work queue of keys, as client-go's: what reconcile loops and resync queues take their work from.

A key is an object's name or identity, never the object: whoever takes a key reads the newest state.
A key waits at most once, however often it is added. A key that is being processed is not handed out
again before `done`; an addition in between makes it due again. `retry` adds a key after a delay that
doubles with every retry until `forget` resets it after a success.

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
from typing import Generic, TypeVar

from pumice.adapters.runtime.clock import Backoff, Clock, SystemClock, end_tasks

K = TypeVar("K")


class WorkQueue(Generic[K]):
    """Keys that wait, ordered by the time at which they are due. Several workers may take them."""

    def __init__(self, backoff: Backoff, clock: Clock, rng: random.Random) -> None:
        self._backoff, self._clock, self._rng = backoff, clock, rng
        self._heap: list[tuple[float, int, K]] = []
        # When each waiting key is due; entries of the heap that differ are out of date.
        self._due: dict[K, float] = {}
        self._processing: set[K] = set()
        self._retries: dict[K, int] = {}
        self._count = 0
        self._changed = asyncio.Event()

    def add(self, key: K) -> None:
        """Makes a key due now; one that waits for a retry does not wait any longer."""
        self._add_at(key, self._clock.now())

    def add_after(self, key: K, seconds: float) -> None:
        """Makes a key due after some time; one that is due earlier stays so."""
        self._add_at(key, self._clock.now() + seconds)

    def retry(
        self, key: K, least_seconds: float = 0.0, most_seconds: float = float("inf")
    ) -> float:
        """Makes a key due after its delay, which is 0 the first time; returns the delay.

        A key that waits already keeps its place, and 0 is returned.
        """
        if key in self._due:
            return 0.0
        retries = self._retries.get(key, 0)
        self._retries[key] = retries + 1
        delay = max(min(self._backoff.delay(retries, self._rng), most_seconds), least_seconds)
        self._add_at(key, self._clock.now() + delay)
        return delay

    def forget(self, key: K) -> None:
        """Resets the delay of a key after a success. A key that waits is still handed out."""
        self._retries.pop(key, None)

    def done(self, key: K) -> None:
        """Ends the processing of a key, which may be handed out again from now on."""
        self._processing.discard(key)
        if key in self._due:
            self._push(key, self._due[key])

    def __len__(self) -> int:
        """The keys that wait; those that are being processed do not count."""
        return len(self._due)

    async def get(self) -> K:
        """Waits for the next key that is due. Call `done` when its processing has ended."""
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
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, key))
        self._changed.set()

    def _pop(self) -> K | None:
        """The first key that is due."""
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
