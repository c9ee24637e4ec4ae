"""A replica process: it holds a copy of the state of a cluster, and forks for every trial.

It reads frames from standard input and writes results to standard output. A trial runs in a fork,
on memory that is shared until it is changed. So trials do not affect each other, and a trial that
takes too long is killed. Without a cluster, the process serves inline requests.
"""

from __future__ import annotations

import gc
import os
import resource
import selectors
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from google.protobuf.message import DecodeError

from pumice.core.errors import PumiceError
from pumice.server.errors import LimitError
from pumice.server.estimating.forecasts import forecast
from pumice.server.estimating.levels import LEVELS
from pumice.server.explaining.facts import Subject, gather_facts
from pumice.server.status import status_of
from pumice.server.whatif import frames
from pumice.server.whatif.replica import Replica
from pumice.server.whatif.trial import run_inline, run_trial
from pumice.v1.scheduling_service_pb2 import ScheduleRequest, ScheduleResponse

_READ_BYTES = 1 << 20


@dataclass(slots=True)
class _Trial:
    """A running fork and its output so far."""

    id: int
    pid: int
    pipe: int
    output: bytearray
    memory_bytes: int


class ReplicaProcess:
    """Reads frames, forks trials and forwards their results."""

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target
        self._replica = Replica()
        self._frames = frames.FrameBuffer()
        self._trials: dict[int, _Trial] = {}
        self._selector = selectors.DefaultSelector()
        self._verbs: dict[str, Callable[..., None]] = {
            verb: getattr(self._replica, verb) for verb in frames.STATE_VERBS
        }
        self._verbs |= {
            frames.SCHEDULE: self._schedule,
            frames.GATHER_FACTS: self._gather_facts,
            frames.CANCEL: self._cancel,
            frames.PING: self._ping,
            frames.ESTIMATE: self._estimate,
        }

    def run(self) -> None:
        self._selector.register(self._source, selectors.EVENT_READ)
        # Loaded modules are shared by all trials.
        gc.collect()
        gc.freeze()
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.fd != self._source:
                        # An earlier event may have ended the trial.
                        if key.data.id in self._trials:
                            self._collect(key.data)
                    elif not self._read():
                        return
        finally:
            for trial in list(self._trials.values()):
                self._end(trial)

    def _read(self) -> bool:
        data = os.read(self._source, _READ_BYTES)
        for verb, *values in self._frames.feed(data):
            self._verbs[verb](*values)
        return bool(data)

    def _gather_facts(self, id_: int, subject: Subject, now_ns: int) -> None:
        """Collects facts without a fork, because this takes milliseconds and changes nothing."""
        assert self._replica.state is not None
        try:
            facts = gather_facts(self._replica.state, subject, now_ns)
            frame = frames.pack(frames.ANSWER, id_, facts)
        except Exception as error:
            frame = frames.pack(frames.FAILED, id_, f"{type(error).__name__}: {error}", b"")
        _write_all(self._target, frame)

    def _ping(self, id_: int) -> None:
        """Responds after all earlier frames were applied."""
        _write_all(self._target, frames.pack(frames.ANSWER, id_, None))

    # Trials.

    def _schedule(
        self,
        id_: int,
        request: bytes,
        now_ns: int,
        seconds: int,
        memory_bytes: int,
        max_objects: int,
    ) -> None:
        def work() -> bytes:
            return self._scheduled(request, now_ns, max_objects).SerializeToString()

        self._replica.warm(now_ns)
        self._fork(id_, work, seconds, memory_bytes)

    def _estimate(
        self, ids: tuple[int, ...], request: Any, now_ns: int, seconds: int, memory_bytes: int
    ) -> None:
        """Forks once for each level, on the same state."""
        for id_, level in zip(ids, LEVELS, strict=True):
            work = partial(forecast, self._replica, request, level, now_ns, seconds)
            self._fork(id_, work, seconds, memory_bytes)

    def _fork(self, id_: int, work: Callable[[], Any], seconds: int, memory_bytes: int) -> None:
        """Runs ``work`` in a fork."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(reading)
                _limit_resources(seconds, memory_bytes)
                _write_all(writing, _run_work(id_, work))
            finally:
                # The fork must never continue as the replica.
                os._exit(0)
        os.close(writing)
        trial = self._trials[id_] = _Trial(id_, pid, reading, bytearray(), memory_bytes)
        self._selector.register(reading, selectors.EVENT_READ, trial)

    def _scheduled(self, request: bytes, now_ns: int, max_objects: int) -> ScheduleResponse:
        """Runs a trial. In the fork."""
        parsed = ScheduleRequest.FromString(request)
        if parsed.WhichOneof("source") == "inline":
            return run_inline(parsed, self._replica.registry, now_ns, max_objects)
        assert self._replica.state is not None
        return run_trial(self._replica.state, parsed, now_ns, max_objects)

    def _collect(self, trial: _Trial) -> None:
        data = os.read(trial.pipe, _READ_BYTES)
        trial.output += data
        if data:
            return
        output = bytes(trial.output)
        self._end(trial)
        if not output:
            limit = trial.memory_bytes
            error = LimitError("bytes of memory of a trial", limit, limit + 1)
            output = _refusal(trial.id, error)
        _write_all(self._target, output)

    def _cancel(self, id_: int) -> None:
        trial = self._trials.get(id_)
        if trial is not None:
            self._end(trial)

    def _end(self, trial: _Trial) -> None:
        del self._trials[trial.id]
        self._selector.unregister(trial.pipe)
        os.close(trial.pipe)
        os.kill(trial.pid, signal.SIGKILL)
        os.waitpid(trial.pid, 0)


def _run_work(id_: int, work: Callable[[], Any]) -> bytes:
    """The frame with the result of ``work``. In the fork. Empty: it ran out of memory."""
    try:
        return frames.pack(frames.ANSWER, id_, work())
    except PumiceError as error:
        return _refusal(id_, error)
    except (MemoryError, DecodeError, SystemError):
        # The core has parsed the bytes before, so a DecodeError means too little memory. C code
        # without memory may fail without an exception, which becomes a SystemError.
        return b""
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
        return frames.pack(frames.FAILED, id_, text, b"")


def _refusal(id_: int, error: PumiceError) -> bytes:
    return frames.pack(frames.FAILED, id_, str(error), status_of(error).SerializeToString())


def _limit_resources(seconds: int, memory_bytes: int) -> None:
    """Limits CPU time and memory beyond the shared memory. In the fork."""
    gc.disable()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds + 1, seconds + 1))
    # No core dumps.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = _data_bytes() + memory_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _data_bytes() -> int:
    """The size of the writable memory of this process."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[5]) * resource.getpagesize()
    except OSError:
        # Not Linux: the peak memory.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _write_all(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


def main() -> None:
    # The core handles signals. It ends this process by closing the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    target = os.dup(sys.stdout.fileno())
    # Output of plugins must not mix with frames.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # The pipe breaks when the core ends.
    with suppress(BrokenPipeError):
        ReplicaProcess(sys.stdin.fileno(), target).run()
