"""Runs a process on a fast event loop, and shuts it down after a signal."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on uvloop, which is faster with TLS, or on asyncio where it is missing."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


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
