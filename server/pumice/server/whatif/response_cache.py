"""Caches responses for retries of the same request."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pumice.server import errors
from pumice.server.clock import Clock
from pumice.v1.scheduling_service_pb2 import ScheduleResponse

MAX_RESPONSE_AGE_NS = 300 * 1_000_000_000
MAX_RESPONSES = 1_000
MAX_RESPONSE_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class _Entry:
    """A request whose response is being computed or is cached."""

    content: bytes
    future: asyncio.Future[ScheduleResponse]
    waiting: int = 0
    until_ns: int = 0
    size: int = 0
    work: asyncio.Task[None] | None = field(default=None)


class ResponseCache:
    """Responses by caller and request id. Errors are not cached."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        self._bytes = 0

    async def get(
        self,
        caller: str,
        request_id: str,
        content: bytes,
        compute: Callable[[], Awaitable[ScheduleResponse]],
    ) -> ScheduleResponse:
        """The response to a request, computed once for all calls with the same id and content.

        When all waiting callers are cancelled, the computation is cancelled.
        """
        self._forget_old()
        key = (caller, request_id)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._begin(key, content, compute)
        elif entry.content != content:
            raise errors.RequestIdReusedError(request_id)
        entry.waiting += 1
        try:
            return await asyncio.shield(entry.future)
        finally:
            entry.waiting -= 1
            if not entry.waiting and not entry.future.done() and entry.work is not None:
                entry.work.cancel()

    def _begin(
        self,
        key: tuple[str, str],
        content: bytes,
        compute: Callable[[], Awaitable[ScheduleResponse]],
    ) -> _Entry:
        entry = _Entry(content, asyncio.get_running_loop().create_future())
        self._entries[key] = entry

        async def work() -> None:
            try:
                response = await compute()
            except asyncio.CancelledError:
                self._drop(key)
                entry.future.cancel()
                raise
            except Exception as error:
                self._drop(key)
                entry.future.set_exception(error)
                # Retrieved here, because perhaps no caller waits any more.
                entry.future.exception()
            else:
                entry.until_ns = self._clock.ticks_ns() + MAX_RESPONSE_AGE_NS
                entry.size = response.ByteSize()
                self._bytes += entry.size
                entry.future.set_result(response)

        entry.work = asyncio.get_running_loop().create_task(work())
        return entry

    def _drop(self, key: tuple[str, str]) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry.size

    def _forget_old(self) -> None:
        now_ns = self._clock.ticks_ns()
        for key, entry in list(self._entries.items()):
            full = len(self._entries) >= MAX_RESPONSES or self._bytes > MAX_RESPONSE_BYTES
            if entry.future.done() and (full or entry.until_ns < now_ns):
                self._drop(key)
            elif not full:
                break

    async def stop(self) -> None:
        tasks = [e.work for e in self._entries.values() if e.work is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
