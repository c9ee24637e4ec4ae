"""Time, chance and waiting, handed to the runtime so that a test can hold them still."""

import asyncio
import random
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """What the runtime knows of time."""

    def now(self) -> float:
        """Seconds that only grow; the zero means nothing."""
        ...

    def unix_ms(self) -> int: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.monotonic()

    def unix_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work, or TimeoutError when the clock passes the limit first."""
    if isinstance(clock, SystemClock):
        # The same by the loop's own timer, which spares every call two tasks.
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError as error:
            raise TimeoutError(str(error) or f"no answer within {seconds:g} s") from None
    task = asyncio.ensure_future(work)
    limit = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, limit}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError(f"no answer within {seconds:g} s")
    finally:
        await end_tasks(task, limit)


async def end_tasks(*tasks: "asyncio.Future[Any]") -> None:
    """Cancels tasks and waits until they are over, whatever they end with."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Backoff:
    """A delay that doubles with every failure, with jitter, up to a ceiling."""

    first_seconds: float = 0.1
    ceiling_seconds: float = 30.0

    def delay(self, failures: int, rng: random.Random) -> float:
        """The wait after so many failures in a row: none after none."""
        if failures <= 0:
            return 0.0
        # 2^40 first delays are past any ceiling; a larger power would overflow some day.
        whole = min(self.ceiling_seconds, self.first_seconds * 2.0 ** min(failures - 1, 40))
        # The lower half stays, so that a delay grows whatever the dice say.
        return whole * (0.5 + rng.random() / 2)
