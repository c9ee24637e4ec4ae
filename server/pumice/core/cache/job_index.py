"""The jobs of a session, and those that it has to process."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pumice.core.cache.jobs import Job
from pumice.core.cache.totals import QueueTotals
from pumice.core.cache.waiting import WaitingGroups

_MOST_UNREAD = 1_000


class JobIndex:
    """Updated job by job, so that the cost of a session follows what changed, not what runs."""

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
        # Those that the last session had to look at, in order.
        self._unsettled: list[Job] = []
        self.waiting = WaitingGroups()
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
                    self.waiting.wake(id_)
                    gone.add(id_)
            self.moved.clear()
            if gone:
                self._order = [id_ for id_ in self._order if id_ not in gone]
                self._unsettled = [job for job in self._unsettled if job.id not in gone]
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
            if len(self.unread) > _MOST_UNREAD + 2 * len(members):
                # There was no reader for long: the next one starts with all jobs.
                self.unread = None
        self._totals.refresh(members[id_] for id_ in sorted(changed) if id_ in members)
        room = self.waiting
        for id_ in changed:
            room.wake(id_)
        unsettled = {
            job.id: job for job in self._unsettled if job.id in room.waits or not job.is_settled
        }
        for id_ in changed:
            job = members.get(id_)
            if job is not None and not job.is_settled:
                unsettled[id_] = job
            else:
                unsettled.pop(id_, None)
        # Nearly sorted already.
        self._unsettled = [unsettled[id_] for id_ in sorted(unsettled)]
        return self._unsettled

    def take_unread(self) -> set[str]:
        """The ids of jobs that changed, or are gone, since this was last asked."""
        unread = self.changed | (self.unread or set())
        self.unread = set()
        return unread
