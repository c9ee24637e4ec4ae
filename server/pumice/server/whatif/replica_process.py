"""A replica process: it holds a copy of the state of a cluster, and forks for every trial.

It reads frames from standard input and writes results to standard output. A trial runs in a fork,
on memory that is shared until it is changed. So trials do not affect each other, and a trial that
takes too long or too much memory is killed. Without a cluster, the process serves inline requests.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from pumice.server.estimating.forecasts import forecast
from pumice.server.estimating.levels import LEVELS
from pumice.server.explaining.facts import Subject, gather_facts
from pumice.server.whatif import frames
from pumice.server.whatif.replica import Replica
from pumice.server.whatif.trial import run_inline, run_trial
from pumice.server.whatif.trial_forks import TrialForks, write_all
from pumice.v1.scheduling_service_pb2 import ScheduleRequest, ScheduleResponse

_READ_BYTES = 1 << 20


class ReplicaProcess:
    """Reads frames, forks trials and forwards their results."""

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target
        self._replica = Replica()
        self._frames = frames.FrameBuffer()
        self._selector = selectors.DefaultSelector()
        self._forks = TrialForks(self._selector, target)
        self._verbs: dict[str, Callable[..., None]] = {
            verb: getattr(self._replica, verb) for verb in frames.STATE_VERBS
        }
        self._verbs |= {
            frames.SCHEDULE: self._schedule,
            frames.GATHER_FACTS: self._gather_facts,
            frames.CANCEL: self._forks.end,
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
                for key, _ in self._selector.select(self._forks.select_seconds):
                    if key.fd != self._source:
                        self._forks.collect(key.data)
                    elif not self._read():
                        return
                self._forks.end_oversized()
        finally:
            self._forks.end_all()

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
        write_all(self._target, frame)

    def _ping(self, id_: int) -> None:
        """Responds after all earlier frames were applied."""
        write_all(self._target, frames.pack(frames.ANSWER, id_, None))

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
        self._forks.start(id_, work, seconds, memory_bytes)

    def _estimate(
        self, ids: tuple[int, ...], request: Any, now_ns: int, seconds: int, memory_bytes: int
    ) -> None:
        """Forks once for each level, on the same state."""
        for id_, level in zip(ids, LEVELS, strict=True):
            work = partial(forecast, self._replica, request, level, now_ns, seconds)
            self._forks.start(id_, work, seconds, memory_bytes)

    def _scheduled(self, request: bytes, now_ns: int, max_objects: int) -> ScheduleResponse:
        """Runs a trial. In the fork."""
        parsed = ScheduleRequest.FromString(request)
        if parsed.WhichOneof("source") == "inline":
            return run_inline(parsed, self._replica.registry, now_ns, max_objects)
        assert self._replica.state is not None
        return run_trial(self._replica.state, parsed, now_ns, max_objects)


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
