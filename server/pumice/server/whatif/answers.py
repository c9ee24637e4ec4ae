"""Answers that are kept for a while, for retries of the same request."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pumice.server import errors
from pumice.server.clock import Clock
from pumice.v1.scheduling_service_pb2 import ScheduleResponse

MAX_ANSWER_AGE_NS = 300 * 1_000_000_000
MAX_ANSWERS = 1_000
MAX_ANSWER_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class _Entry:
    """A request that is being answered or was answered."""

    content: bytes
    future: asyncio.Future[ScheduleResponse]
    waiting: int = 0
    until_ns: int = 0
    size: int = 0
    work: asyncio.Task[None] | None = field(default=None)


class Answers:
    """Answers by caller and request id; errors are not kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        self._bytes = 0

    async def get(
        self,
        caller: str,
        request_id: str,
        content: bytes,
        make: Callable[[], Awaitable[ScheduleResponse]],
    ) -> ScheduleResponse:
        """The answer to a request; it is made once for all calls with the same id and content.

        When the last waiting caller is cancelled, so is the work.
        """
        self._forget_old()
        key = (caller, request_id)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._begin(key, content, make)
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
        make: Callable[[], Awaitable[ScheduleResponse]],
    ) -> _Entry:
        entry = _Entry(content, asyncio.get_running_loop().create_future())
        self._entries[key] = entry

        async def work() -> None:
            try:
                response = await make()
            except asyncio.CancelledError:
                self._drop(key)
                entry.future.cancel()
                raise
            except Exception as error:
                self._drop(key)
                entry.future.set_exception(error)
                # Read here: perhaps no caller waits any more.
                entry.future.exception()
            else:
                entry.until_ns = self._clock.ticks_ns() + MAX_ANSWER_AGE_NS
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
            full = len(self._entries) >= MAX_ANSWERS or self._bytes > MAX_ANSWER_BYTES
            if entry.future.done() and (full or entry.until_ns < now_ns):
                self._drop(key)
            elif not full:
                break

    async def stop(self) -> None:
        tasks = [e.work for e in self._entries.values() if e.work is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
