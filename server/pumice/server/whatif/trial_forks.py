"""Forks of a replica: each runs one trial, with limits of CPU time and memory.

The replica measures its forks and kills one that exceeds its memory. The kernel's limit alone is not
enough: CPython may retry an allocation without end while it unwinds from a MemoryError. The kernel's
limit is higher, for a fork that allocates much at once or while the replica is busy.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import selectors
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from pumice.core.errors import PumiceError
from pumice.server.errors import LimitError, TrialLostError
from pumice.server.status import status_of
from pumice.server.whatif import frames

_READ_BYTES = 1 << 20
_PR_SET_PDEATHSIG = 1
# Loaded before any fork, because a fork may have little memory.
_prctl = ctypes.CDLL(None).prctl if sys.platform.startswith("linux") else None
# Interval at which the memory of running forks is measured.
_MEASURE_SECONDS = 0.02
# The kernel's limit is higher by this. It exceeds the blocks in which CPython and malloc extend their
# memory, so a fork that gets no small block any more has exceeded its own limit.
_MARGIN_BYTES = 8 * 1024 * 1024


@dataclass(slots=True)
class _Fork:
    """A running fork and its output so far."""

    id: int
    pid: int
    pipe: int
    output: bytearray
    memory_bytes: int
    # Size of its writable memory at which it is killed.
    max_data_bytes: int


class TrialForks:
    """Starts forks, limits them, and writes their result frames to ``target``."""

    def __init__(self, selector: selectors.BaseSelector, target: int) -> None:
        self._selector = selector
        self._target = target
        self._forks: dict[int, _Fork] = {}

    @property
    def select_seconds(self) -> float | None:
        """How long the selector may wait before ``end_oversized`` is due; None: any time."""
        return _MEASURE_SECONDS if self._forks else None

    def start(self, id_: int, work: Callable[[], Any], seconds: int, memory_bytes: int) -> None:
        """Runs ``work`` in a fork. Its pipe is registered with the fork's id as data."""
        max_data_bytes = _data_bytes(os.getpid()) + memory_bytes
        try:
            reading, writing = os.pipe()
            try:
                pid = os.fork()
            except OSError:
                os.close(reading)
                os.close(writing)
                raise
        except OSError as error:
            write_all(self._target, _refusal(id_, TrialLostError(not_started(error))))
            return
        if pid == 0:
            try:
                self._leave_replica(reading)
                _limit_resources(seconds, max_data_bytes + _MARGIN_BYTES)
                write_all(writing, _run_work(id_, work))
            finally:
                # The fork must never continue as the replica.
                os._exit(0)
        os.close(writing)
        fork = _Fork(id_, pid, reading, bytearray(), memory_bytes, max_data_bytes)
        self._forks[id_] = fork
        self._selector.register(reading, selectors.EVENT_READ, id_)

    def _leave_replica(self, reading: int) -> None:
        """Closes the pipes of the replica, and makes this process end with it. In the fork.

        A core notices the end of a replica when the pipe closes, which forks must not delay.
        """
        _end_with_parent()
        os.close(reading)
        os.close(self._target)

    def collect(self, id_: int) -> None:
        """Reads output of a fork, and forwards its result after its end."""
        # An earlier event may have ended the fork.
        fork = self._forks.get(id_)
        if fork is None:
            return
        data = os.read(fork.pipe, _READ_BYTES)
        fork.output += data
        if data:
            return
        self.end(id_)
        write_all(self._target, bytes(fork.output) or _memory_refusal(fork))

    def end_oversized(self) -> None:
        """Kills forks that exceed their memory, and reports each as the result."""
        for fork in list(self._forks.values()):
            if _data_bytes(fork.pid) > fork.max_data_bytes:
                self.end(fork.id)
                write_all(self._target, _memory_refusal(fork))

    def end(self, id_: int) -> None:
        """Kills a fork, if it runs."""
        fork = self._forks.pop(id_, None)
        if fork is None:
            return
        self._selector.unregister(fork.pipe)
        os.close(fork.pipe)
        os.kill(fork.pid, signal.SIGKILL)
        os.waitpid(fork.pid, 0)

    def end_all(self) -> None:
        for id_ in list(self._forks):
            self.end(id_)


def not_started(error: OSError) -> str:
    return f"no process could be started for the request: {error.strerror or error}"


def _end_with_parent() -> None:
    """Makes Linux kill this process when its parent ends. In the fork."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def write_all(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


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


def _memory_refusal(fork: _Fork) -> bytes:
    limit = fork.memory_bytes
    return _refusal(fork.id, LimitError("bytes of memory of a trial", limit, limit + 1))


def _refusal(id_: int, error: PumiceError) -> bytes:
    return frames.pack(frames.FAILED, id_, str(error), status_of(error).SerializeToString())


def _limit_resources(seconds: int, data_bytes: int) -> None:
    """Limits CPU time and memory. In the fork."""
    gc.disable()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds + 1, seconds + 1))
    # No core dumps.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (data_bytes, data_bytes))


def _data_bytes(pid: int) -> int:
    """The size of the writable memory of a process; 0 after its end."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[5]) * resource.getpagesize()
    except OSError:
        # Not Linux: the peak memory of this process, so forks are limited by the kernel alone.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
