"""Decides when the next session is due."""

from __future__ import annotations

from pumice.core.cache.cluster import ClusterCache

# Time without relevant changes after which a session is due, so that a gang can arrive completely.
QUIET_NS = 50_000_000
# The same if every changed gang is complete; longer than the pause between batches of an adapter whose
# API server is fast.
COMPLETE_QUIET_NS = 15_000_000
# Maximum time for which a session waits for changes to stop.
LONGEST_WAIT_NS = 100_000_000
# Pause between early sessions, in durations of the last one: they use a fifth of the time.
_PAUSE_FACTOR = 4
# Above this number of changed gangs, a burst is assumed, and the gangs are not checked.
_CHECKED_GANGS = 500


class SessionTimer:
    """Computes when a session is due: after a period, or earlier after relevant changes."""

    def __init__(self) -> None:
        self._last_ns: int | None = None
        # The first and the last change since the last session.
        self._first_change_ns: int | None = None
        self._last_change_ns = 0
        self._is_complete = False
        # Until this time, a session runs early only after QUIET_NS without changes.
        self._eager_again_ns = 0

    def changed(self, ticks_ns: int, *, complete: bool = False) -> None:
        """Notes a change that may allow a placement; ``complete``: all changed gangs are."""
        if self._first_change_ns is None:
            self._first_change_ns = ticks_ns
        self._last_change_ns = ticks_ns
        self._is_complete = complete

    def ran(self, ticks_ns: int) -> None:
        """Notes that a session begins or is skipped."""
        self._last_ns = ticks_ns
        self._first_change_ns = None

    def ended(self, ticks_ns: int) -> int:
        """Notes the end of a session; returns its duration."""
        assert self._last_ns is not None, "no session began"
        duration_ns = ticks_ns - self._last_ns
        self._eager_again_ns = ticks_ns + _PAUSE_FACTOR * duration_ns
        return duration_ns

    def restart(self) -> None:
        """Makes the next session due at once."""
        self._last_ns = None
        self._first_change_ns = None

    def due_ns(self, period_ns: int, *, eager: bool) -> int:
        if self._last_ns is None:
            return 0
        regular = self._last_ns + period_ns
        if not eager or self._first_change_ns is None:
            return regular
        early = self._first_change_ns + LONGEST_WAIT_NS
        if self._is_complete:
            early = min(early, self._last_change_ns + COMPLETE_QUIET_NS)
        early = max(early, self._eager_again_ns)
        return min(regular, early, self._last_change_ns + QUIET_NS)


def gangs_are_complete(cache: ClusterCache) -> bool:
    """Whether each gang that changed since the last session has its PodGroup and enough pods."""
    changed = cache.jobs.changed
    if len(changed) > _CHECKED_GANGS:
        return False
    jobs = (cache.jobs.get(id_) for id_ in changed)
    return all(
        job.group is not None and job.index.valid_count >= job.min_available
        for job in jobs
        if job is not None
    )
