"""Jobs that no node has room for, grouped by queue and task class.

A full cluster has thousands of them. Jobs of one queue whose tasks are of one class are refused for
one reason: while that reason holds, a session does not look at any of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.decisions import Wait
from pumice.core.model.fit import FitErrors

Key = tuple[Any, ...]


class WaitingGroup:
    """Jobs of one queue that no node takes the first task of, all for the same reason."""

    __slots__ = ("_members", "_order", "errors", "queue")

    def __init__(self, queue: str, errors: FitErrors) -> None:
        self.queue = queue
        self.errors = errors
        self._members: dict[str, tuple[Key, Job]] = {}
        self._order: list[tuple[Key, Job]] | None = None

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
    """All such jobs; a change that may concern one of them removes it, and it is looked at again."""

    def __init__(self) -> None:
        self._groups: dict[Key, WaitingGroup] = {}
        self._group_of: dict[str, Key] = {}
        # What to report about each of them, by id.
        self.waits: dict[str, Wait] = {}

    def __len__(self) -> int:
        return len(self.waits)

    def groups(self) -> Iterator[WaitingGroup]:
        return iter(self._groups.values())

    def enter(self, job: Job, key: Key, wait: Wait) -> None:
        """From now on the job is passed over; ``job.to_place`` has the reason."""
        to_place = job.to_place
        assert to_place is not None
        assert to_place.errors is not None
        first = to_place.tasks[0]
        pod = first.pod
        # What allocate looks at, and then what decides who may be evicted for the job.
        victims = (job.priority, first.priority, pod.preemptable, pod.revocable_zone)
        place = (job.queue, first.class_.number, *victims)
        group = self._groups.get(place)
        if group is None:
            group = self._groups[place] = WaitingGroup(job.queue, to_place.errors)
        elif group.errors is not to_place.errors:
            # Found at another moment of a session: the next one will put them together.
            return
        group.add(job, key)
        self._group_of[job.id] = place
        self.waits[job.id] = wait

    def key_of(self, job_id: str) -> Key:
        """The key by which a job that is here had its turn."""
        return self._groups[self._group_of[job_id]].key_of(job_id)

    def wake(self, job_id: str) -> None:
        """The job is to be looked at again; one that is not here is awake."""
        place = self._group_of.pop(job_id, None)
        if place is None:
            return
        del self.waits[job_id]
        group = self._groups[place]
        group.remove(job_id)
        if not len(group):
            del self._groups[place]

    def wake_all(self) -> None:
        self._groups.clear()
        self._group_of.clear()
        self.waits.clear()
