"""A session that is due waits for what has come by then, but not for ever."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

from pumice.server.limits import Limits
from pumice.server.owner import Owner

MILLISECOND_NS = 1_000_000


class Clock:
    """Goes on by itself only while calls are run."""

    def __init__(self) -> None:
        self.ticks = 0

    def ticks_ns(self) -> int:
        return self.ticks

    def wait(self, condition: threading.Condition, _until_ns: int | None) -> None:
        condition.wait(0.01)


class Cluster:
    """One with a session due at a time; notes when it ran."""

    name = "c"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due_ns: int | None = 50 * MILLISECOND_NS
        self.ran_at_ns = -1
        self.ran = threading.Event()

    def next_due_ns(self) -> int | None:
        return self._due_ns

    is_abandoned = False

    def update_pause(self) -> bool:
        return False

    def run_due(self) -> None:
        self.ran_at_ns, self._due_ns = self._clock.ticks, None
        self.ran.set()


async def test_a_flood_of_calls_puts_a_session_off_for_a_tenth_of_a_second() -> None:
    clock = Clock()
    cluster = Cluster(clock)
    owner = Owner(
        cast(Any, cluster),
        cast(Any, SimpleNamespace(clock=clock, limits=Limits())),
        asyncio.get_running_loop(),
        lambda _record: None,
        lambda: None,
        lambda: None,
    )

    def call() -> None:
        # There is always another one waiting.
        clock.ticks += 30 * MILLISECOND_NS
        if not cluster.ran.is_set():
            owner.post(call)

    owner.post(call)
    owner.start()
    assert await asyncio.to_thread(cluster.ran.wait, 20)
    await owner.stop()
    # Noticed after the second call, at 60.
    assert cluster.ran_at_ns == 180 * MILLISECOND_NS


async def test_what_has_come_before_a_session_is_due_is_taken_in_first() -> None:
    clock = Clock()
    cluster = Cluster(clock)
    owner = Owner(
        cast(Any, cluster),
        cast(Any, SimpleNamespace(clock=clock, limits=Limits())),
        asyncio.get_running_loop(),
        lambda _record: None,
        lambda: None,
        lambda: None,
    )
    taken: list[int] = []

    def call() -> None:
        clock.ticks += 20 * MILLISECOND_NS
        taken.append(cluster.ran_at_ns)

    for _ in range(5):
        owner.post(call)
    owner.start()
    assert await asyncio.to_thread(cluster.ran.wait, 20)
    await owner.stop()
    assert taken == [-1] * 5
