"""gangpreempt and gangreclaim: evict for a whole gang at once.

They look for victims in one domain of the network after the other, widest first. Tasks that other
jobs can spare go first. Then whole gangs are broken, if that is allowed.
"""

from __future__ import annotations

from typing import ClassVar

from pumice.core.actions.gang.bundles import First
from pumice.core.actions.gang.eviction import GangArguments, GangEviction, GangVictims
from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments
from pumice.core.model.group import Queue
from pumice.core.model.reasons import ReasonCode
from pumice.core.session.evicting.candidates import EvictionReasons
from pumice.core.session.evicting.visits import EvictionVisits
from pumice.core.session.orders import LiveHeap
from pumice.core.session.session import Session


class GangPreemptAction:
    """Evicts jobs of lower priority in the same queue."""

    name: ClassVar[str] = "gangpreempt"
    arguments: ClassVar[type[Arguments]] = GangArguments

    def execute(self, session: Session) -> None:
        def later_first(left: Job, right: Job) -> bool | None:
            return None if left is right else not session.orders.job_first(left, right)

        victims = GangVictims(lambda _job: later_first, reclaims=False)
        GangActionRun(session, victims, self.name).run()


class GangReclaimAction:
    """Evicts jobs of queues above their share."""

    name: ClassVar[str] = "gangreclaim"
    arguments: ClassVar[type[Arguments]] = GangArguments

    def execute(self, session: Session) -> None:
        victims = GangVictims(lambda job: _by_queue(session, job), reclaims=True)
        GangActionRun(session, victims, self.name).run()


def _by_queue(session: Session, job: Job) -> First:
    """Jobs in the order in which their queues are reclaimed from; it depends on the job that asks."""
    queues = session.queues

    def first(left: Job, right: Job) -> bool | None:
        if left.queue == right.queue:
            return None
        mine, other, asking = queues[left.queue], queues[right.queue], queues[job.queue]
        before = session.orders.victim_queue_first(mine, other, asking)
        after = session.orders.victim_queue_first(other, mine, asking)
        return before if before != after else None

    return first


class GangActionRun:
    """One run of a gang action: visits every queue and starving job once, each job in one statement.

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
