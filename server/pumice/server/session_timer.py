"""When the next session is due."""

from __future__ import annotations

from pumice.core.cache.cluster import ClusterCache

# Time without relevant changes after which a session is due: the rest of a gang may be on its way.
QUIET_NS = 50_000_000
# The same while every gang that changed is complete: more than an adapter waits between two batches.
COMPLETE_QUIET_NS = 15_000_000
# A session waits no longer than this for changes to stop.
LONGEST_WAIT_NS = 100_000_000
# Sessions before it is quiet for QUIET_NS take at most a fifth of the time.
_REST = 4
# More gangs that changed than this are a burst, which is waited for without looking at each.
_MOST_GANGS = 500


class SessionTimer:
    """A period after the last session; earlier when relevant changes came."""

    def __init__(self) -> None:
        self._last_ns: int | None = None
        # The first and the last change since the last session.
        self._first_ns: int | None = None
        self._changed_ns = 0
        self._is_complete = False
        # No session runs before it is quiet until then.
        self._rests_until_ns = 0

    def changed(self, ticks_ns: int, *, complete: bool = False) -> None:
        """A change arrived that may let a job be placed; whether all gangs are complete with it."""
        if self._first_ns is None:
            self._first_ns = ticks_ns
        self._changed_ns = ticks_ns
        self._is_complete = complete

    def ran(self, ticks_ns: int) -> None:
        """A session begins or is not needed."""
        self._last_ns = ticks_ns
        self._first_ns = None

    def ended(self, ticks_ns: int) -> int:
        """A session that ran has ended; returns its duration."""
        assert self._last_ns is not None, "no session began"
        duration_ns = ticks_ns - self._last_ns
        self._rests_until_ns = ticks_ns + _REST * duration_ns
        return duration_ns

    def restart(self) -> None:
        """The next session is due at once."""
        self._last_ns = None
        self._first_ns = None

    def due_ns(self, period_ns: int, *, eager: bool) -> int:
        if self._last_ns is None:
            return 0
        regular = self._last_ns + period_ns
        if not eager or self._first_ns is None:
            return regular
        early = self._first_ns + LONGEST_WAIT_NS
        if self._is_complete:
            early = min(early, self._changed_ns + COMPLETE_QUIET_NS)
        early = max(early, self._rests_until_ns)
        return min(regular, early, self._changed_ns + QUIET_NS)


def gangs_are_complete(cache: ClusterCache) -> bool:
    """Whether each gang that changed since the last session has its PodGroup and enough pods."""
    changed = cache.job_index.changed
    if len(changed) > _MOST_GANGS:
        return False
    jobs = (cache.jobs.get(id_) for id_ in changed)
    return all(
        job.group is not None and job.index.valid_count >= job.min_available
        for job in jobs
        if job is not None
    )
