"""Runs Python's garbage collector between sessions: one pause can be longer than a session."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Sessions between two full collections.
_SESSIONS_PER_FULL = 200


class Garbage:
    """Controls the collector after take_over(); before, Python does."""

    def __init__(self) -> None:
        self._taken_over = False
        self._sessions = 0

    def take_over(self) -> None:
        """For a process that only serves."""
        self._taken_over = True
        gc.disable()

    @contextmanager
    def kept_out(self) -> Iterator[None]:
        """Takes over for a while, in a process that does other things too."""
        was_enabled = gc.isenabled()
        self.take_over()
        try:
            yield
        finally:
            self._taken_over = False
            if was_enabled:
                gc.enable()

    def after_session(self) -> None:
        if not self._taken_over:
            return
        self._sessions += 1
        gc.collect(2 if self._sessions % _SESSIONS_PER_FULL == 0 else 1)

    def idle(self) -> None:
        """Collects while there is nothing to decide."""
        if self._taken_over:
            gc.collect(1)

    def after_snapshot(self, *, replaced: bool) -> None:
        """Excludes the objects of a cluster, which live long, from collections."""
        if not self._taken_over:
            return
        if replaced:
            gc.unfreeze()
            gc.collect()
        gc.freeze()
