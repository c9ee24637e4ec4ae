"""gangpreempt and gangreclaim: evict for a whole gang at once.

They look for victims in one domain of the network after the other, widest first. Tasks that other
jobs can spare go first. Then whole gangs are broken, if that is allowed.
"""

from __future__ import annotations

from typing import ClassVar

from pumice.core.actions.gang.bundles import JobFirst
from pumice.core.actions.gang.run import GangArguments, GangRun
from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments
from pumice.core.model.fit import Mask
from pumice.core.model.group import Queue
from pumice.core.session.evicting import VictimJobs
from pumice.core.session.session import Session


class GangPreemptAction:
    """Evicts jobs of lower priority in the same queue."""

    name: ClassVar[str] = "gangpreempt"
    arguments: ClassVar[type[Arguments]] = GangArguments

    def execute(self, session: Session) -> None:
        GangPreemptRun(session, self.name).run()


class GangPreemptRun(GangRun):
    """One run of gangpreempt."""

    running_only = False

    def victim_jobs(self, jobs: VictimJobs, queue: str) -> Mask:
        return jobs.in_queue(queue)

    def may_evict(self, job: Job, priority: int) -> bool:
        return job.priority < priority

    def victim_first(self, job: Job) -> JobFirst:
        """The reverse of the order of jobs."""

        def first(left: Job, right: Job) -> bool | None:
            return None if left is right else not self._session.orders.job_first(left, right)

        return first


class GangReclaimAction:
    """Evicts jobs of queues above their share."""

    name: ClassVar[str] = "gangreclaim"
    arguments: ClassVar[type[Arguments]] = GangArguments

    def execute(self, session: Session) -> None:
        GangReclaimRun(session, self.name).run()


class GangReclaimRun(GangRun):
    """One run of gangreclaim."""

    running_only = True

    def is_overused(self, queue: Queue) -> bool:
        return self._session.votes.is_overused(queue)

    def may_grow(self, queue: Queue, tasks: list[Task]) -> bool:
        return self._session.votes.may_reclaim(queue, tasks)

    def victim_jobs(self, jobs: VictimJobs, queue: str) -> Mask:
        return jobs.in_other_queues(queue)

    def victim_first(self, job: Job) -> JobFirst:
        """The order in which queues are reclaimed from; it depends on the queue of the job."""
        queues, victim_queue_first = self._session.queues, self._session.orders.victim_queue_first

        def first(left: Job, right: Job) -> bool | None:
            if left.queue == right.queue:
                return None
            mine, other, asking = queues[left.queue], queues[right.queue], queues[job.queue]
            before = victim_queue_first(mine, other, asking)
            return before if before != victim_queue_first(other, mine, asking) else None

        return first
