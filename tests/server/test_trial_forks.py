"""Forks of a replica: their limits hold whatever the interpreter does without memory."""

from __future__ import annotations

import errno
import os
import selectors
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from pumice.server.whatif import frames
from pumice.server.whatif.trial_forks import TrialForks

MIB = 1024 * 1024
# More integers than fit into the memory of a fork. The list itself is shared with the fork.
SLOTS: list[int | None] = [None] * 4_000_000


class Forks:
    """Forks with the loop of a replica around them."""

    def __init__(self) -> None:
        self._reading, writing = os.pipe()
        self._selector = selectors.DefaultSelector()
        self._results = frames.FrameBuffer()
        self.forks = TrialForks(self._selector, writing)
        self._pipes = (self._reading, writing)

    def result(self) -> tuple[Any, ...]:
        """Runs the loop until no fork is left; the result of the last one."""
        while (seconds := self.forks.select_seconds) is not None:
            for key, _ in self._selector.select(seconds):
                self.forks.collect(key.data)
            self.forks.end_oversized()
        return list(self._results.feed(os.read(self._reading, MIB)))[-1]

    def close(self) -> None:
        self.forks.end_all()
        self._selector.close()
        for pipe in self._pipes:
            os.close(pipe)


@pytest.fixture
def forks() -> Iterator[Forks]:
    started = Forks()
    yield started
    started.close()


def unwinds_without_memory() -> Callable[[], None]:
    """Work that CPython 3.11 never ends without memory.

    The offset of the ``with`` block is an integer above 256. The interpreter allocates it before it
    leaves the block, and tries again without end if it cannot.
    """
    lines = ["def work():", *("    a = b = c = d = e = f = None" for _ in range(100))]
    lines += ["    with block:", "        for number in range(1000, 4_000_000):"]
    lines += ["            slots[number] = number"]
    names: dict[str, Any] = {"block": nullcontext(), "slots": SLOTS}
    exec("\n".join(lines), names)
    work: Callable[[], None] = names["work"]
    return work


def test_a_fork_without_memory_that_cannot_unwind_is_killed(forks: Forks) -> None:
    forks.forks.start(1, unwinds_without_memory(), 600, 4 * MIB)
    verb, id_, text, _ = forks.result()
    assert (verb, id_) == (frames.FAILED, 1)
    assert "bytes of memory of a trial" in text


def test_a_fork_that_asks_for_all_memory_at_once_is_refused(forks: Forks) -> None:
    forks.forks.start(1, lambda: bytes(1 << 40), 600, 4 * MIB)
    verb, _, text, _ = forks.result()
    assert verb == frames.FAILED
    assert "bytes of memory of a trial" in text


def test_a_fork_within_its_memory_gives_its_result(forks: Forks) -> None:
    forks.forks.start(1, lambda: len(bytes(8 * MIB)), 600, 64 * MIB)
    assert forks.result() == (frames.ANSWER, 1, 8 * MIB)


def test_a_fork_that_the_system_refuses_is_a_failed_trial(
    forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    descriptors = os.listdir("/proc/self/fd")
    with monkeypatch.context() as busy:
        busy.setattr(os, "fork", refuse)
        forks.forks.start(1, lambda: None, 600, MIB)
    verb, id_, text, status = forks.result()
    assert (verb, id_) == (frames.FAILED, 1)
    assert "no process could be started for the request" in text
    assert status
    assert os.listdir("/proc/self/fd") == descriptors
    forks.forks.start(2, lambda: "result", 600, 64 * MIB)
    assert forks.result() == (frames.ANSWER, 2, "result")
