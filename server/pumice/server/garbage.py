"""Runs the garbage collector between sessions, because a pause can be longer than a session."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Number of sessions between two full collections.
_SESSIONS_PER_FULL = 200


class GarbageControl:
    """Controls when garbage is collected. Does nothing before take_over()."""

    def __init__(self) -> None:
        self._taken_over = False
        self._sessions = 0

    def take_over(self) -> None:
        """Disables automatic collection, for a process that is a core and nothing else."""
        self._taken_over = True
        gc.disable()

    @contextmanager
    def without_automatic(self) -> Iterator[None]:
        """Disables automatic collection within the context."""
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

    def collect_idle(self) -> None:
        """Collects while no session is due."""
        if self._taken_over:
            gc.collect(1)

    def after_snapshot(self, *, replaced: bool) -> None:
        """Excludes the objects of a cluster, which are long-lived, from collections."""
        if not self._taken_over:
            return
        if replaced:
            gc.unfreeze()
            gc.collect()
        gc.freeze()
