"""When the next session is due."""

from __future__ import annotations

QUIET_NS = 50_000_000


class SessionTimer:
    """A period after the last session; earlier when relevant changes came and no more followed."""

    def __init__(self) -> None:
        self._last_ns: int | None = None
        self._changed_ns: int | None = None

    def changed(self, ticks_ns: int) -> None:
        """A change arrived that may let a job be placed."""
        self._changed_ns = ticks_ns

    def ran(self, ticks_ns: int) -> None:
        """A session ran or was not needed."""
        self._last_ns = ticks_ns
        self._changed_ns = None

    def restart(self) -> None:
        """The next session is due at once."""
        self._last_ns = None
        self._changed_ns = None

    def due_ns(self, period_ns: int, *, eager: bool) -> int:
        if self._last_ns is None:
            return 0
        regular = self._last_ns + period_ns
        if eager and self._changed_ns is not None:
            return min(regular, self._changed_ns + QUIET_NS)
        return regular
