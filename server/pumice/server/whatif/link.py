"""A core's end of a follower: starts it, feeds it, asks it, and ends it. All on the loop."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import pickle
import sys
from collections import deque
from contextlib import suppress
from typing import Any

from pumice.server import errors
from pumice.server.explaining.sight import Sight, Subject
from pumice.server.whatif import frames

log = logging.getLogger("pumice.server")
# What may wait for a follower that does not keep up; it is started afresh when next needed.
_MOST_WAITING_BYTES = 64 * 1024 * 1024
# Packing them keeps everybody else waiting: few enough that nobody notices.
_OBJECTS_AT_ONCE = 100
_END_SECONDS = 5.0
# Live sessions go first, also while it is being loaded.
_NICENESS = 5
_PROGRAM = (
    f"import os; os.nice({_NICENESS}); from pumice.server.whatif.follower import main; main()"
)
# A large cluster takes a while to be told.
_STAND_SECONDS = 300.0


class FollowerLink:
    """One follower process and the questions it was asked."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._process: asyncio.subprocess.Process | None = None
        self._spawning: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ids = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        # What came while the base is still being sent; None: it has been.
        self._backlog: deque[tuple[Any, ...]] | None = None
        # Whether the base has been heard as well.
        self._stands = False
        self._ended = False
        self._used = asyncio.get_running_loop().time()

    @property
    def idle_seconds(self) -> float:
        """For how long nobody has asked anything; nobody waits for an answer either."""
        return 0.0 if self._asked else asyncio.get_running_loop().time() - self._used

    def touch(self) -> None:
        """Somebody is about to ask."""
        self._used = asyncio.get_running_loop().time()

    @property
    def is_alive(self) -> bool:
        return self._process is not None and not self._ended

    @property
    def is_ready(self) -> bool:
        """Knows its cluster, and answers at once."""
        return self.is_alive and self._stands

    async def start(self) -> None:
        """A caller that goes away meanwhile does not lose the process: stop() knows of it."""
        if self._ended:
            raise errors.TrialLostError
        self._spawning = asyncio.create_task(self._spawn())
        await asyncio.shield(self._spawning)

    async def _spawn(self) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _PROGRAM),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
        )
        self._reading = asyncio.create_task(self._read())
        if self._ended:
            self._close_pipe()

    def hold_back(self) -> None:
        """Until the base has been sent, what follows it waits."""
        self._backlog = deque()

    async def send_base(self, values: dict[str, Any], objects: list[Any]) -> None:
        """All of it are values that never change, so they can be packed beside live sessions."""
        self._write(await asyncio.to_thread(frames.pack, "base", values))
        for start in range(0, len(objects), _OBJECTS_AT_ONCE):
            part = objects[start : start + _OBJECTS_AT_ONCE]
            self._write(await asyncio.to_thread(frames.pack, "objects", part))
            await self._drain()
        self._write(frames.pack("ready"))
        backlog, self._backlog = self._backlog or deque(), None
        for frame in backlog:
            self.tell(*frame)
        await self._question(_STAND_SECONDS, frames.PING)
        self._stands = True

    def tell(self, *frame: Any) -> None:
        if self._ended:
            return
        if self._backlog is not None:
            self._backlog.append(frame)
            return
        self._write(frames.pack(*frame))

    def _write(self, data: bytes) -> None:
        process = self._process
        if process is None or process.stdin is None or self._ended:
            return
        process.stdin.write(data)
        waiting = process.stdin.transport.get_write_buffer_size()
        if self._backlog is None and waiting > _MOST_WAITING_BYTES:
            log.warning("%s: its follower does not keep up and is ended", self._name)
            self.end()

    async def _drain(self) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            with suppress(ConnectionError):
                await process.stdin.drain()

    # Questions.

    async def ask(self, request: bytes, now_ns: int, seconds: float, memory_bytes: int) -> bytes:
        """The answer to a ScheduleRequest."""
        limits = (int(seconds) + 1, memory_bytes)
        answer = await self._question(seconds, frames.ASK, request, now_ns, *limits)
        assert isinstance(answer, bytes)
        return answer

    async def see(self, subject: Subject, now_ns: int, seconds: float) -> Sight:
        answer = await self._question(seconds, frames.SEE, subject, now_ns)
        assert isinstance(answer, Sight)
        return answer

    async def _question(self, seconds: float, verb: str, *values: Any) -> Any:
        """A caller that goes away, or time that runs out, ends the work."""
        if not self.is_alive:
            raise errors.TrialLostError
        id_ = next(self._ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[id_] = future
        self.tell(verb, id_, *values)
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            raise errors.TrialTimeoutError(seconds) from None
        finally:
            del self._asked[id_]
            self.touch()
            if not future.done() or future.cancelled():
                self.tell(frames.CANCEL, id_)

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        stdout = self._process.stdout
        try:
            while True:
                length = int.from_bytes(await stdout.readexactly(frames.LENGTH_BYTES), "big")
                self._answered(*pickle.loads(await stdout.readexactly(length)))
        except (asyncio.IncompleteReadError, ConnectionError):
            if not self._ended:
                log.warning("%s: its follower ended by itself", self._name)
        finally:
            self.end()

    def _answered(self, verb: str, id_: int, *values: Any) -> None:
        future = self._asked.get(id_)
        if future is None or future.done():
            return
        if verb == frames.ANSWER:
            future.set_result(values[0])
        else:
            future.set_exception(errors.TrialFailedError(*values))

    # The end.

    def end(self) -> None:
        """Closes the pipe, at which the follower ends with all its trials."""
        if self._ended:
            return
        self._ended = True
        for future in self._asked.values():
            if not future.done():
                future.set_exception(errors.TrialLostError())
        self._close_pipe()

    def _close_pipe(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def stop(self) -> None:
        """Returns when the process, also one that was just being started, is gone."""
        self.end()
        if self._spawning is not None:
            await asyncio.gather(self._spawning, return_exceptions=True)
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
