"""The owner of a cluster: the only thread that uses the engine of the cluster."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from pumice.server.core_environment import CoreEnvironment
from pumice.server.errors import NotReadyError, StateLostError
from pumice.server.received_batches import ReceivedBatch
from pumice.server.records import SessionRecord
from pumice.server.served import ServedCluster

log = logging.getLogger("pumice.server")
T = TypeVar("T")
_SECOND_NS = 1_000_000_000
# Time for which queued calls may delay a session that is due.
_MAX_DELAY_NS = 100_000_000


class Owner:
    """Runs calls in the order in which they were posted, and sessions when they are due."""

    def __init__(
        self,
        served: ServedCluster,
        env: CoreEnvironment,
        loop: asyncio.AbstractEventLoop,
        publish: Callable[[SessionRecord], None],
        on_pause: Callable[[], None],
        on_abandoned: Callable[[], None],
    ) -> None:
        self._served = served
        self._env = env
        self._loop = loop
        self._publish = publish
        self._on_pause = on_pause
        self._on_abandoned = on_abandoned
        self._calls: deque[Callable[[], None]] = deque()
        self._condition = threading.Condition()
        self._stopping = False
        self._futures: set[asyncio.Future[Any]] = set()
        self._delayed_since_ns: int | None = None
        self._thread = threading.Thread(
            target=self._run, name=f"owner of {served.name}", daemon=True
        )

    # On the loop.

    def start(self) -> None:
        self._thread.start()

    def post(self, call: Callable[[], None]) -> None:
        """Runs a call on the owner's thread, after all calls that were posted before."""
        with self._condition:
            self._calls.append(call)
            self._condition.notify()

    async def call(self, function: Callable[[ServedCluster], T]) -> T:
        """Runs a function on the owner's thread and returns its result."""
        if self._stopping:
            raise NotReadyError(self._served.name)
        future: asyncio.Future[T] = self._loop.create_future()
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)

        def run() -> None:
            if future.cancelled():
                # The caller was cancelled.
                return
            try:
                answer = function(self._served)
            except Exception as error:
                self._on_loop(_fail, future, error)
            else:
                self._on_loop(_answer, future, answer)

        self.post(run)
        return await future

    async def stop(self) -> None:
        """Waits for a running session, up to a limit. Its decisions are not sent."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        if self._thread.is_alive():
            seconds = self._env.limits.stop_ns / _SECOND_NS
            await asyncio.to_thread(self._thread.join, seconds)
        for future in list(self._futures):
            _fail(future, NotReadyError(self._served.name))
        if self._thread.is_alive():
            log.warning("%s: a session did not end in time and was abandoned", self._served.name)

    # On the owner's thread.

    def _on_loop(self, function: Callable[..., None], *arguments: object) -> None:
        # The loop may be closed already when the process ends.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _run(self) -> None:
        while True:
            with self._condition:
                while not (self._stopping or self._calls or self._is_due()):
                    self._env.clock.wait(self._condition, self._served.next_due_ns())
                if self._stopping:
                    return
                call = None
                if self._calls and not self._is_overdue():
                    call = self._calls.popleft()
                    if isinstance(call, ReceivedBatch):
                        call.merge(self._calls)
            self._guarded(self._run_due if call is None else call)

    def _is_due(self) -> bool:
        due_ns = self._served.next_due_ns()
        return due_ns is not None and due_ns <= self._env.clock.ticks_ns()

    def _is_overdue(self) -> bool:
        """Whether queued calls have delayed a due session for the maximum time."""
        if not self._is_due():
            self._delayed_since_ns = None
            return False
        now_ns = self._env.clock.ticks_ns()
        if self._delayed_since_ns is None:
            self._delayed_since_ns = now_ns
        return now_ns - self._delayed_since_ns >= _MAX_DELAY_NS

    def _log(self, record: SessionRecord) -> None:
        summary = record.summary
        if record.decided:
            log.info(
                "%s: session %d: %d binds, %d evictions, %d jobs wait, %.1f ms",
                *(self._served.name, record.number, summary.bind_count, summary.evict_count),
                *(summary.wait_count, summary.duration.ToNanoseconds() / 1e6),
            )

    def _run_due(self) -> None:
        self._delayed_since_ns = None
        record = self._served.run_due()
        if record is not None:
            self._log(record)
            self._on_loop(self._publish, record)
        if self._served.is_abandoned:
            self._on_loop(self._on_abandoned)

    def _guarded(self, call: Callable[[], None]) -> None:
        try:
            call()
            if self._served.update_pause():
                self._on_loop(self._on_pause)
        except Exception:
            # The engine may be inconsistent: only a new snapshot repairs it.
            log.exception("%s: the state was dropped after an error", self._served.name)
            self._env.metrics.crashes.labels(self._served.name).inc()
            stream = self._served.reset()
            if stream is not None:
                stream.fail(StateLostError(self._served.name))


def _answer(future: asyncio.Future[T], answer: T) -> None:
    if not future.done():
        future.set_result(answer)


def _fail(future: asyncio.Future[T], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
