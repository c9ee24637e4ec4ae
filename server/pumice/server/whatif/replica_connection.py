"""The core's connection to a replica process. Everything here runs on the loop."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import pickle
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pumice.server import errors
from pumice.server.estimating.forecasts import ForecastRequest, LevelForecast
from pumice.server.estimating.levels import LEVELS
from pumice.server.explaining.facts import Facts, Subject
from pumice.server.limits import Limits
from pumice.server.whatif import frames
from pumice.server.whatif.trial_forks import not_started

log = logging.getLogger("pumice.server")
# Queued bytes above which a replica that does not keep up is ended.
MAX_WAITING_BYTES = 64 * 1024 * 1024
# Number of objects that are pickled at once, because other threads wait in the meantime.
_OBJECTS_AT_ONCE = 100
_END_SECONDS = 5.0
# Live sessions have priority over replicas.
_NICENESS = 5
_PROGRAM = f"import os; os.nice({_NICENESS}); from pumice.server.whatif.replica_process import main; main()"
# Time within which a replica must get and build the state of a large cluster.
_STATE_SECONDS = 300.0
# Time within which a replica must respond after a request ended without a result. Trials run in forks,
# so a replica that is silent for longer hangs.
RESPONSE_SECONDS = 30.0


class ReplicaConnection:
    """Starts one replica process, sends it state and requests, and ends it."""

    def __init__(
        self, name: str, on_end: Callable[[ReplicaConnection], None] = lambda _: None
    ) -> None:
        self.name = name
        self._on_end = on_end
        self._process: asyncio.subprocess.Process | None = None
        self._spawning: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ids = itertools.count(1)
        self._pending: dict[int, asyncio.Future[Any]] = {}
        # Frames that are queued until the state is sent, and their size; None: it has been sent.
        self._backlog: deque[bytes] | None = None
        self._backlog_bytes = 0
        self._checking: asyncio.Task[None] | None = None
        # Whether the process ended by itself, or hung, or did not keep up.
        self.has_failed = False
        # Whether the replica has the whole state; always for inline requests.
        self._is_complete = True
        self._ended = False
        self._used = asyncio.get_running_loop().time()

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last response; 0 while a request is pending."""
        return 0.0 if self._pending else asyncio.get_running_loop().time() - self._used

    def touch(self) -> None:
        """Resets the idle time."""
        self._used = asyncio.get_running_loop().time()

    @property
    def is_alive(self) -> bool:
        return self._process is not None and not self._ended

    @property
    def is_ready(self) -> bool:
        """Whether the replica has a complete copy of its cluster."""
        return self.is_alive and self._is_complete

    async def start(self) -> None:
        """Starts the process. If the caller is cancelled, stop() ends the process."""
        if self._ended:
            raise errors.TrialLostError
        self._spawning = asyncio.create_task(self._spawn())
        await asyncio.shield(self._spawning)

    async def _spawn(self) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", _PROGRAM),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=environment,
            )
        except OSError as error:
            self.has_failed = True
            raise errors.TrialLostError(not_started(error)) from error
        self._reading = asyncio.create_task(self._read())
        if self._ended:
            self._close_pipe()

    def queue_frames(self) -> None:
        """Queues all frames until the state has been sent."""
        self._backlog, self._is_complete = deque(), False

    async def send_state(self, values: dict[str, Any], objects: list[Any]) -> None:
        """Pickles on another thread. Objects never change, so sessions may run at the same time."""
        try:
            async with asyncio.timeout(_STATE_SECONDS):
                await self._send_state(values, objects)
        except TimeoutError:
            self._fail("does not accept the state of its cluster")
            raise errors.TrialTimeoutError(_STATE_SECONDS) from None

    async def _send_state(self, values: dict[str, Any], objects: list[Any]) -> None:
        self._write(await asyncio.to_thread(frames.pack, "begin", values))
        for start in range(0, len(objects), _OBJECTS_AT_ONCE):
            part = objects[start : start + _OBJECTS_AT_ONCE]
            self._write(await asyncio.to_thread(frames.pack, "add_objects", part))
            await self._drain()
        self._write(frames.pack("complete"))
        backlog, self._backlog = self._backlog or deque(), None
        for frame in backlog:
            self._write(frame)
        await self._request(_STATE_SECONDS, frames.PING)
        self._is_complete = True

    def send(self, *frame: Any) -> None:
        if self._ended:
            return
        data = frames.pack(*frame)
        if self._backlog is None:
            self._write(data)
            return
        self._backlog.append(data)
        self._backlog_bytes += len(data)
        if self._backlog_bytes > MAX_WAITING_BYTES:
            self._fail("does not keep up")

    def _write(self, data: bytes) -> None:
        process = self._process
        if process is None or process.stdin is None or self._ended:
            return
        process.stdin.write(data)
        waiting = process.stdin.transport.get_write_buffer_size()
        if self._backlog is None and waiting > MAX_WAITING_BYTES:
            self._fail("does not keep up")

    async def _drain(self) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            with suppress(ConnectionError):
                await process.stdin.drain()

    # Requests.

    async def schedule(self, request: bytes, now_ns: int, seconds: float, limits: Limits) -> bytes:
        """The serialized response to a ScheduleRequest."""
        most = (int(seconds) + 1, limits.trial_memory_bytes, limits.trial_objects)
        answer = await self._request(seconds, frames.SCHEDULE, request, now_ns, *most)
        assert isinstance(answer, bytes)
        return answer

    async def gather_facts(self, subject: Subject, now_ns: int, seconds: float) -> Facts:
        answer = await self._request(seconds, frames.GATHER_FACTS, subject, now_ns)
        assert isinstance(answer, Facts)
        return answer

    async def estimate(
        self, request: ForecastRequest, now_ns: int, seconds: float, memory_bytes: int
    ) -> list[LevelForecast]:
        """The forecasts of all levels, on the same state."""
        pending = self._register(len(LEVELS))
        most = (int(seconds) + 1, memory_bytes)
        self.send(frames.ESTIMATE, tuple(pending), request, now_ns, *most)
        return await self._wait(pending, seconds)

    async def _request(self, seconds: float, verb: str, *values: Any) -> Any:
        pending = self._register(1)
        self.send(verb, *pending, *values)
        (answer,) = await self._wait(pending, seconds)
        return answer

    def _register(self, count: int) -> dict[int, asyncio.Future[Any]]:
        """Futures for the responses to ``count`` requests, by id."""
        if not self.is_alive:
            raise errors.TrialLostError
        loop = asyncio.get_running_loop()
        pending = {next(self._ids): loop.create_future() for _ in range(count)}
        self._pending |= pending
        return pending

    async def _wait(self, pending: dict[int, asyncio.Future[Any]], seconds: float) -> list[Any]:
        """Waits for all responses. Cancels the others on timeout, cancellation or failure."""
        try:
            async with asyncio.timeout(seconds):
                return [await future for future in pending.values()]
        except TimeoutError:
            raise errors.TrialTimeoutError(seconds) from None
        finally:
            self.touch()
            for id_, future in pending.items():
                del self._pending[id_]
                if not future.done() or future.cancelled():
                    self.send(frames.CANCEL, id_)
                    self._check_response()
                else:
                    # Retrieved here, because another one may have failed first.
                    future.exception()

    def _check_response(self) -> None:
        """Ends the process if it does not respond any more."""
        checks = self._checking is not None and not self._checking.done()
        if self.is_ready and not checks:
            self._checking = asyncio.create_task(self._ping())

    async def _ping(self) -> None:
        if not self.is_alive:
            return
        ((id_, future),) = self._register(1).items()
        self.send(frames.PING, id_)
        await asyncio.wait((future,), timeout=RESPONSE_SECONDS)
        del self._pending[id_]
        if not future.done():
            self._fail("does not respond")
        else:
            # Retrieved here, because nobody else waits for it.
            future.exception()

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        stdout = self._process.stdout
        try:
            while True:
                length = int.from_bytes(await stdout.readexactly(frames.LENGTH_BYTES), "big")
                self._handle_result(*pickle.loads(await stdout.readexactly(length)))
        except (asyncio.IncompleteReadError, ConnectionError):
            if not self._ended:
                self.has_failed = True
                log.warning("%s: the replica ended unexpectedly", self.name)
        finally:
            self.end()

    def _handle_result(self, verb: str, id_: int, *values: Any) -> None:
        future = self._pending.get(id_)
        if future is None or future.done():
            return
        if verb == frames.ANSWER:
            future.set_result(values[0])
        else:
            future.set_exception(errors.TrialFailedError(*values))

    # End.

    def end(self) -> None:
        """Closes the pipe, which ends the process and its trials."""
        if self._ended:
            return
        self._ended = True
        for future in self._pending.values():
            if not future.done():
                future.set_exception(errors.TrialLostError())
        self._close_pipe()
        self._on_end(self)

    def _fail(self, problem: str) -> None:
        """Kills a process that does not work. It may not notice that its pipe is closed."""
        if self._ended:
            return
        self.has_failed = True
        log.warning("%s: the replica %s and is ended", self.name, problem)
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
        self.end()

    def _close_pipe(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def stop(self) -> None:
        """Ends the process, even one that is being started, and waits for its end."""
        self.end()
        started = [task for task in (self._spawning, self._checking) if task is not None]
        await asyncio.gather(*started, return_exceptions=True)
        process = self._process
        if process is None:
            return
        try:
            async with asyncio.timeout(_END_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)
