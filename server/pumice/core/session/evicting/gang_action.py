"""One run of a gang action: queues and starving jobs in their orders, each job in one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.model.group import Queue
from pumice.core.model.reasons import ReasonCode
from pumice.core.session.evicting.candidates import EvictionReasons
from pumice.core.session.evicting.domain import GangEviction, GangVictims
from pumice.core.session.orders import LiveHeap
from pumice.core.session.waiting import EvictionVisits

if TYPE_CHECKING:
    from pumice.core.session.session import Session


class GangActionRun:
    """Visits every queue once.

    Where room comes from other queues, the own queue must be allowed to grow.
    """

    def __init__(self, session: Session, victims: GangVictims, author: str) -> None:
        self._session = session
        self._author = author
        self._reclaims = victims.reclaims
        self._reasons = EvictionReasons(session, author)
        self._eviction = GangEviction(session, author, victims)

    def run(self) -> None:
        visits = EvictionVisits(self._session, self._author)
        self._visit(visits.jobs(self._may_help))
        self._visit(visits.changed())

    def _visit(self, visited: list[Job]) -> None:
        self._reasons.clear()
        queues: LiveHeap[Queue] = LiveHeap(self._session.orders.queue_first)
        by_queue: dict[str, LiveHeap[Job]] = {}
        for job in visited:
            if self._is_starving(job):
                if job.queue not in by_queue:
                    by_queue[job.queue] = LiveHeap(self._session.orders.job_first)
                    queues.push(self._session.queue_of(job))
                by_queue[job.queue].push(job)
        while queues:
            queue = queues.pop()
            jobs = by_queue[queue.name]
            if self._is_overused(queue):
                while jobs:
                    self._reasons.add(
                        jobs.pop(), code=ReasonCode.QUEUE_OVERUSED, subjects=(queue.name,)
                    )
                continue
            while jobs:
                self._make_room(queue, jobs.pop())

    def _is_starving(self, job: Job) -> bool:
        votes = self._session.votes
        if job.is_pending or not job.index.pending or not votes.is_starving(job):
            return False
        return votes.why_not_valid(job) is None

    def _is_overused(self, queue: Queue) -> bool:
        return self._reclaims and self._session.votes.is_overused(queue)

    def _may_help(self, job: Job) -> bool:
        """Whether evictions might be tried for the job; false: surely not."""
        queue = self._session.queue_of(job)
        if not self._is_starving(job) or self._is_overused(queue):
            return False
        tasks = self._tasks_of(job)
        return bool(tasks) and self._may_grow(queue, tasks) and self._eviction.may_try(job, tasks)

    def _tasks_of(self, job: Job) -> list[Task]:
        """The tasks that need room."""
        if job.has_network_topology and self._session.topology.unknown_tier(job):
            # An unknown tier has no domains; allocate has reported it.
            return []
        return self._eviction.pending_of(job)

    def _may_grow(self, queue: Queue, tasks: list[Task]) -> bool:
        return not self._reclaims or self._session.votes.may_reclaim(queue, tasks)

    def _make_room(self, queue: Queue, job: Job) -> None:
        self._session.count("gangs_tried")
        tasks = self._tasks_of(job)
        if not tasks:
            return
        if not self._may_grow(queue, tasks):
            self._reasons.add(job, code=ReasonCode.QUEUE_QUOTA, subjects=(queue.name,))
            return
        statement = self._eviction.make_room(job, tasks)
        if statement is None:
            self._reasons.add(job, subjects=self._eviction.problem)
        else:
            statement.commit(job.id)
