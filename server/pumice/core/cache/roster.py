"""Which jobs a session may look at, and which of them it has to."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pumice.core.cache.jobs import Job
from pumice.core.cache.totals import QueueTotals


class Roster:
    """Kept up job by job, so that a session costs what changed and not what runs."""

    def __init__(self, totals: QueueTotals) -> None:
        self._totals = totals
        # Ids of jobs that changed since the last session began; the jobs themselves write here.
        self.changed: set[str] = set()
        # Grows when a job gets or loses its group, or goes to another queue.
        self.membership = 0
        self._known: tuple[object, ...] = ()
        self._members: dict[str, Job] = {}
        self._unsettled: set[str] = set()

    def members(self, jobs: Mapping[str, Job], queues: Collection[str]) -> dict[str, Job]:
        """Jobs with a PodGroup and a queue that exists, by id."""
        known = (tuple(queues), self.membership)
        if known != self._known:
            self._known = known
            self._members = {
                id_: job
                for id_, job in sorted(jobs.items())
                if job.group is not None and job.queue in queues
            }
            self.changed.update(self._members)
            self._totals.keep_only(self._members)
        return self._members

    def unsettled(self, members: Mapping[str, Job]) -> list[Job]:
        """The jobs that a session has to look at, by id; the totals are up to date then.

        Only jobs that changed, or that were unsettled before, are looked at for that.
        """
        changed = set(self.changed)
        self.changed.clear()
        self._totals.refresh(members[id_] for id_ in sorted(changed) if id_ in members)
        suspects = sorted(changed | self._unsettled)
        found = [members[id_] for id_ in suspects if id_ in members]
        found = [job for job in found if not job.is_settled]
        self._unsettled = {job.id for job in found}
        return found
