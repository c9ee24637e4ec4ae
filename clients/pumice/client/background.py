"""An event loop in a separate thread, for callers without an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import CancelledError
from threading import Thread
from types import TracebackType
from typing import Any, Generic, TypeVar

from pumice.client.errors import ClosedError

T = TypeVar("T")


class BackgroundLoop:
    """Runs coroutines in a separate thread while the caller waits. It is thread-safe."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="pumice-client", daemon=True)
        self._thread.start()

    @property
    def is_closed(self) -> bool:
        return self._loop.is_closed()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self.is_closed:
            coroutine.close()
            raise ClosedError("the client is closed")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C interrupts the wait, and must also cancel the call.
            future.cancel()
            raise

    def stream(self, items: AsyncGenerator[T, None]) -> Stream[T]:
        return Stream(self, items)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Stream(Iterator[T], Generic[T]):
    """An iterator over an asynchronous generator. ``close`` ends the call."""

    def __init__(self, loop: BackgroundLoop, items: AsyncGenerator[T, None]) -> None:
        self._loop = loop
        self._items = items
        self._waiting: asyncio.Task[Any] | None = None
        self._is_closed = False

    def __next__(self) -> T:
        if self._is_closed:
            raise StopIteration
        try:
            found = self._loop.run(self._next())
        except CancelledError:
            # Another thread or a signal handler closed the stream.
            found = ()
        if not found:
            raise StopIteration
        return found[0]

    async def _next(self) -> tuple[T] | tuple[()]:
        self._waiting = asyncio.current_task()
        try:
            return (await anext(self._items),)
        except StopAsyncIteration:
            return ()
        finally:
            self._waiting = None

    def close(self) -> None:
        """Ends the stream. Another thread or a signal handler may call it while ``next`` waits."""
        self._is_closed = True
        if not self._loop.is_closed:
            self._loop.run(self._close())

    async def _close(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.wait([self._waiting])
        await self._items.aclose()

    def __enter__(self) -> Stream[T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
