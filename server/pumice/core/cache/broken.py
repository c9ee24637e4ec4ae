"""Gangs of which some members were bound and others were not, and since when."""

from __future__ import annotations

from collections.abc import Iterable

from pumice.core.cache.jobs import Job
from pumice.core.model.group import PodGroupPhase
from pumice.core.model.status import TaskStatus

# A gang that was whole once has another phase, and may be short for other reasons.
_NEVER_WHOLE = (PodGroupPhase.NONE, PodGroupPhase.PENDING, PodGroupPhase.INQUEUE)


class BrokenGangs:
    """Suspects are added when a decision fails; each session checks whether they are broken."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        self._scanned = False

    def suspect(self, job_id: str, now_ns: int) -> None:
        if job_id:
            self._since.setdefault(job_id, now_ns)

    def refresh(self, jobs: dict[str, Job], now_ns: int, *, search: bool) -> dict[str, int]:
        """The broken jobs and since when; suspects that are whole, or not begun, are cleared.

        With ``search`` all jobs are checked once, because only the cluster shows what a former core
        or adapter left half done. A gang that is being evicted, or was never meant to be whole, looks
        the same. Volcano gives such gangs no precedence, so ``search`` is used only with a deadline.
        """
        if search and not self._scanned:
            self._scanned = True
            for id_ in _left_half_done(jobs.values()):
                self._since.setdefault(id_, now_ns)
        if self._since:
            self._since = {
                id_: since
                for id_, since in sorted(self._since.items())
                if id_ in jobs and is_broken(jobs[id_])
            }
        return dict(self._since)

    def memory(self) -> tuple[tuple[tuple[str, int], ...], bool]:
        """The suspects and since when, and whether all jobs were looked at."""
        return tuple(sorted(self._since.items())), self._scanned

    def remember(self, since: Iterable[tuple[str, int]], *, scanned: bool) -> None:
        self._since, self._scanned = dict(since), scanned

    def next_wake(self, now_ns: int, deadline_ns: int | None) -> int | None:
        if deadline_ns is None:
            return None
        times = [since + deadline_ns for since in self._since.values()]
        return min((time for time in times if time > now_ns), default=None)


def is_broken(job: Job) -> bool:
    return bool(job.index.count(TaskStatus.BOUND, TaskStatus.RUNNING)) and not job.is_ready


def _left_half_done(jobs: Iterable[Job]) -> list[str]:
    return [
        job.id for job in jobs if job.keeps_phase and job.phase in _NEVER_WHOLE and is_broken(job)
    ]
