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
        # Ids of jobs that got or lost their group, or went to another queue.
        self.moved: set[str] = set()
        self._queues: tuple[str, ...] = ()
        self._members: dict[str, Job] = {}
        # Their ids, in order.
        self._order: list[str] = []
        self._unsettled: set[str] = set()
        # Ids of jobs that changed since somebody outside last asked; None: nobody does.
        self.unread: set[str] | None = None

    def members(self, jobs: Mapping[str, Job], queues: Collection[str]) -> dict[str, Job]:
        """Jobs with a PodGroup and a queue that exists, by id."""
        known = tuple(queues)
        if known != self._queues:
            self._queues = known
            self.moved = {*self._members, *jobs}
        if self.moved:
            gone = set()
            for id_ in self.moved:
                job = jobs.get(id_)
                if job is not None and job.group is not None and job.queue in queues:
                    self.changed.add(id_)
                    if id_ not in self._members:
                        self._order.append(id_)
                else:
                    self._totals.forget(id_)
                    gone.add(id_)
            self.moved.clear()
            if gone:
                self._order = [id_ for id_ in self._order if id_ not in gone]
            # Nearly sorted already, which is quick to sort.
            self._order.sort()
            self._members = {id_: jobs[id_] for id_ in self._order}
        return self._members

    def unsettled(self, members: Mapping[str, Job]) -> list[Job]:
        """The jobs that a session has to look at, by id; the totals are up to date then.

        Only jobs that changed, or that were unsettled before, are looked at for that.
        """
        changed = set(self.changed)
        self.changed.clear()
        if self.unread is not None:
            self.unread |= changed
        self._totals.refresh(members[id_] for id_ in sorted(changed) if id_ in members)
        suspects = sorted(changed | self._unsettled)
        found = [members[id_] for id_ in suspects if id_ in members]
        found = [job for job in found if not job.is_settled]
        self._unsettled = {job.id for job in found}
        return found

    def take_unread(self) -> set[str]:
        """The ids of jobs that changed, or are gone, since this was last asked."""
        found = self.changed | (self.unread or set())
        self.unread = set()
        return found
