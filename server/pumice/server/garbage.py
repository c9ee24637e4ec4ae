"""Python's cyclic collector, kept out of sessions: one pause could be longer than a session."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# The collector of all generations runs after so many sessions.
_SESSIONS_PER_FULL = 200


class Garbage:
    """Collects between sessions when it was taken over; otherwise leaves Python to itself."""

    def __init__(self) -> None:
        self._taken_over = False
        self._sessions = 0

    def take_over(self) -> None:
        """For a process that does nothing but serve."""
        self._taken_over = True
        gc.disable()

    @contextmanager
    def kept_out(self) -> Iterator[None]:
        """Takes over for a while, in a process that others use too."""
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
        """Now and then, for a core that has nothing to decide."""
        if self._taken_over:
            gc.collect(1)

    def after_snapshot(self, *, replaced: bool) -> None:
        """A cluster's objects live long: from here on the collector does not look at them."""
        if not self._taken_over:
            return
        if replaced:
            gc.unfreeze()
            gc.collect()
        gc.freeze()
