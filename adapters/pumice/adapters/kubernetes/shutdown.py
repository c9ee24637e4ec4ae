"""Shuts a process down after a signal."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pumice.adapters.kubernetes.event_loop import run

T = TypeVar("T")


class Shutdown:
    """Handles requests to stop: the first is graceful, if possible, and later ones cancel."""

    def __init__(self) -> None:
        self._graceful: Callable[[], None] | None = None

    def offer(self, graceful: Callable[[], None]) -> None:
        """Sets the function that the first request calls."""
        self._graceful = graceful

    def request(self, cancel: Callable[[], object]) -> None:
        graceful, self._graceful = self._graceful, None
        if graceful is None:
            cancel()
        else:
            graceful()


def run_until_signal(work: Callable[[Shutdown], Coroutine[Any, Any, T]]) -> T | None:
    """Runs to the end. The first signal shuts the work down, the second one cancels it."""

    async def until_signal() -> T | None:
        shutdown = Shutdown()
        task = asyncio.ensure_future(work(shutdown))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, shutdown.request, task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            return None

    return run(until_signal())
