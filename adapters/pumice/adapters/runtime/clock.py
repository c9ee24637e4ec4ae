"""Clocks, timeouts and backoff. Tests replace the clock."""

import asyncio
import random
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """The time source of the runtime."""

    def now(self) -> float:
        """Monotonic seconds since an arbitrary moment."""
        ...

    def unix_ms(self) -> int: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> float:
        return time.monotonic()

    def unix_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work. Raises TimeoutError after a time."""
    if isinstance(clock, SystemClock):
        # The timer of the event loop does the same without two extra tasks.
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError as error:
            raise TimeoutError(str(error) or f"no response within {seconds:g} s") from None
    task = asyncio.ensure_future(work)
    limit = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, limit}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError(f"no response within {seconds:g} s")
    finally:
        await end_tasks(task, limit)


async def end_tasks(*tasks: "asyncio.Future[Any]") -> None:
    """Cancels tasks and waits for them; their results and errors are ignored."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Backoff:
    """A delay that doubles with every failure, with jitter, up to a ceiling."""

    first_seconds: float = 0.1
    ceiling_seconds: float = 30.0

    def delay(self, failures: int, rng: random.Random) -> float:
        """The delay after so many failures in a row; 0 after none."""
        if failures <= 0:
            return 0.0
        # 2^40 first delays exceed any ceiling; larger powers would overflow.
        whole = min(self.ceiling_seconds, self.first_seconds * 2.0 ** min(failures - 1, 40))
        # Jitter takes at most half, so that delays still grow.
        return whole * (0.5 + rng.random() / 2)
