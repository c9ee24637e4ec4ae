"""When the next session is due."""

from __future__ import annotations

QUIET_NS = 50_000_000


class Pacer:
    """A period after the last session; sooner when changes that matter have settled."""

    def __init__(self) -> None:
        self._last_ns: int | None = None
        self._stirred_ns: int | None = None

    def stirred(self, ticks_ns: int) -> None:
        """Something came that could let a job be placed."""
        self._stirred_ns = ticks_ns

    def ran(self, ticks_ns: int) -> None:
        """A session ran, or was found not to be needed."""
        self._last_ns = ticks_ns
        self._stirred_ns = None

    def restart(self) -> None:
        """The next session is due at once."""
        self._last_ns = None
        self._stirred_ns = None

    def due_ns(self, period_ns: int, *, eager: bool) -> int:
        if self._last_ns is None:
            return 0
        regular = self._last_ns + period_ns
        if eager and self._stirred_ns is not None:
            return min(regular, self._stirred_ns + QUIET_NS)
        return regular
