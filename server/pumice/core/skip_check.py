"""Decides whether the next session can be skipped, because it would decide and report nothing."""

from __future__ import annotations

from pumice.core.cache.cluster import ClusterCache
from pumice.core.decisions import SessionResult


class SkipCheck:
    """The versions of the cache at which the last session decided and reported nothing."""

    __slots__ = ("_now_ns", "_seen", "_wake_ns")

    def __init__(self) -> None:
        # None: the last session did something, so that the next one may find more to do.
        self._seen: tuple[int, int] | None = None
        self._wake_ns: int | None = None
        self._now_ns = 0

    def note(self, cache: ClusterCache, result: SessionResult, wake_ns: int | None) -> None:
        """A session has ended; by time alone, something could change at ``wake_ns``."""
        did = result.decisions or result.statuses or result.events or result.faults
        self._seen = None if did else (cache.version, cache.placement_changes)
        self._wake_ns, self._now_ns = wake_ns, result.now_ns

    def reset(self) -> None:
        """The next session is not skipped."""
        self._seen = None

    def can_skip(self, cache: ClusterCache, now_ns: int) -> bool:
        """Whether a session now would decide and report nothing, as the last one did."""
        if self._seen != (cache.version, cache.placement_changes):
            return False
        if now_ns < self._now_ns:
            # The clock was set back, so the next wake is too far ahead.
            return False
        return self._wake_ns is None or self._wake_ns > now_ns
