"""All jobs of the cluster, those that a session has to process, and those that wait in groups."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Cause, Task
from pumice.core.cache.totals import QueueTotals
from pumice.core.decisions import Wait

_MOST_UNREAD = 1_000


class JobIndex(dict[str, Job]):
    """All jobs by id, and those of sessions.

    A session looks only at changed jobs, so that running jobs cost nothing.
    """

    def __init__(self, job_type: type[Job]) -> None:
        super().__init__()
        self._job_type = job_type
        self.totals = QueueTotals()
        # Ids of jobs that changed since the last session began; ``Job.touch`` adds to it.
        self.changed: set[str] = set()
        # Ids of jobs that got or lost their group, or went to another queue.
        self.moved: set[str] = set()
        self._queues: tuple[str, ...] = ()
        # By id, in order.
        self._members: dict[str, Job] = {}
        # The jobs that the last session had to process, in order.
        self._unsettled: list[Job] = []
        # Jobs that sessions skip: those that fit on no node, and those that are not admitted.
        self.unschedulable, self.inadmissible = WaitingGroups(), WaitingGroups()
        # Ids of jobs that changed since ``take_unread`` was last called; None: nobody calls it.
        self.unread: set[str] | None = None

    def get_or_add(self, id_: str) -> Job:
        job = self.get(id_)
        if job is None:
            job = self[id_] = self._job_type(id_, self.changed)
        return job

    def drop_if_done(self, job: Job) -> bool:
        """Drops a job without a PodGroup and without tasks; whether it is such a job."""
        is_done = job.group is None and not len(job.index)
        if is_done:
            self.pop(job.id, None)
            self.totals.forget(job.id)
        return is_done

    def members(self, queues: Collection[str]) -> dict[str, Job]:
        """The jobs of a session by id: those with a PodGroup and a queue that exists."""
        known = tuple(queues)
        if known != self._queues:
            self._queues = known
            self.moved = {*self._members, *self}
        if self.moved:
            members = dict(self._members)
            for id_ in self.moved:
                job = self.get(id_)
                if job is not None and job.group is not None and job.queue in queues:
                    self.changed.add(id_)
                    members[id_] = job
                else:
                    self.totals.forget(id_)
                    self.activate(id_)
                    members.pop(id_, None)
            self.moved.clear()
            # Nearly sorted already, which is quick to sort.
            self._members = {id_: self[id_] for id_ in sorted(members)}
            self._unsettled = [job for job in self._unsettled if job.id in members]
        return self._members

    def unsettled(self) -> list[Job]:
        """The members that wait for something, or changed, in the order of ids.

        Only jobs that changed, or were unsettled before, are checked. The totals are updated too.
        """
        members, changed = self._members, sorted(self.changed)
        self.changed.clear()
        if self.unread is not None:
            self.unread.update(changed)
            if len(self.unread) > _MOST_UNREAD + 2 * len(members):
                # Nobody has called ``take_unread`` for long: the next caller starts with all jobs.
                self.unread = None
        jobs = [members[id_] for id_ in changed if id_ in members]
        self.totals.refresh(jobs)
        unschedulable = self.unschedulable.waits
        if unschedulable or len(self.inadmissible):
            for id_ in changed:
                self.activate(id_)
        unsettled = {
            job.id: job for job in self._unsettled if job.id in unschedulable or not job.is_settled
        }
        for job in jobs:
            if job.is_settled:
                unsettled.pop(job.id, None)
            else:
                unsettled[job.id] = job
        # Nearly sorted already.
        self._unsettled = [unsettled[id_] for id_ in sorted(unsettled)]
        return self._unsettled

    def activate(self, job_id: str) -> None:
        """The next session processes the job."""
        self.unschedulable.activate(job_id)
        self.inadmissible.activate(job_id)

    def activate_all(self) -> None:
        self.unschedulable.activate_all()
        self.inadmissible.activate_all()

    def take_unread(self) -> set[str]:
        """The ids of jobs that changed or went away since the last call."""
        unread = self.changed | (self.unread or set())
        self.unread = set()
        return unread


Key = tuple[Any, ...]


@dataclass(slots=True, eq=False, repr=False)
class WaitingGroup:
    """Jobs of one queue whose first task cannot be placed, all for the same reason."""

    queue: str
    cause: Cause
    _members: dict[str, tuple[Key, Job]] = field(default_factory=dict)
    _order: list[tuple[Key, Job]] | None = None

    def __len__(self) -> int:
        return len(self._members)

    def add(self, job: Job, key: Key) -> None:
        self._members[job.id] = (key, job)
        self._order = None

    def remove(self, job_id: str) -> None:
        del self._members[job_id]
        self._order = None

    def key_of(self, job_id: str) -> Key:
        return self._members[job_id][0]

    @property
    def first(self) -> Task:
        """A task that represents all jobs of the group."""
        _, job = next(iter(self._members.values()))
        assert job.to_place is not None
        return job.to_place.tasks[0]

    def in_order(self) -> list[tuple[Key, Job]]:
        """Its jobs with their keys, in the order in which they would be visited."""
        if self._order is None:
            self._order = sorted(self._members.values())
        return self._order


class WaitingGroups:
    """The groups of waiting jobs; a job leaves its group when a change may concern it."""

    def __init__(self) -> None:
        self._groups: dict[Key, WaitingGroup] = {}
        self._group_of: dict[str, Key] = {}
        # The wait that is reported for each job, by id.
        self.waits: dict[str, Wait] = {}

    def __len__(self) -> int:
        return len(self.waits)

    def groups(self) -> Iterator[WaitingGroup]:
        return iter(self._groups.values())

    def enter(self, place: Key, cause: Cause, entry: tuple[Key, Job], wait: Wait) -> None:
        """Adds a job to the group of its place and cause; sessions skip it from now on."""
        key, job = entry
        group = self._groups.get(place)
        if group is None:
            group = self._groups[place] = WaitingGroup(job.queue, cause)
        elif group.cause is not cause:
            # The cause is from another moment of the session; the next session will join them.
            return
        group.add(job, key)
        self._group_of[job.id] = place
        self.waits[job.id] = wait

    def key_of(self, job_id: str) -> Key:
        """The key by which a waiting job is ordered."""
        return self._groups[self._group_of[job_id]].key_of(job_id)

    def activate(self, job_id: str) -> None:
        """Removes a job from its group, so that it is processed again; others are ignored."""
        place = self._group_of.pop(job_id, None)
        if place is None:
            return
        del self.waits[job_id]
        group = self._groups[place]
        group.remove(job_id)
        if not len(group):
            del self._groups[place]

    def activate_all(self) -> None:
        self._groups.clear()
        self._group_of.clear()
        self.waits.clear()
