"""Whether another session could find anything: sessions may be left out only when it could not."""

from __future__ import annotations

from pumice.core.cache.cluster import ClusterCache
from pumice.core.decisions import SessionResult


class Rest:
    """What the last session left behind, if it changed and said nothing."""

    __slots__ = ("_seen", "_wake_ns")

    def __init__(self) -> None:
        # None: the last session did something, so that the next one may find more to do.
        self._seen: tuple[int, int] | None = None
        self._wake_ns: int | None = None

    def note(self, cache: ClusterCache, result: SessionResult, wake_ns: int | None) -> None:
        """A session has ended; by time alone, something could change at ``wake_ns``."""
        did = result.decisions or result.statuses or result.events or result.faults
        self._seen = None if did else (cache.version, cache.stirred)
        self._wake_ns = wake_ns

    def end(self) -> None:
        """Whatever there was, the next session has to look."""
        self._seen = None

    def lasts(self, cache: ClusterCache, now_ns: int) -> bool:
        """Whether a session now would decide and say nothing, as the last one did."""
        if self._seen != (cache.version, cache.stirred):
            return False
        return self._wake_ns is None or self._wake_ns > now_ns
