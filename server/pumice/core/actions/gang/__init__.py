"""gangpreempt and gangreclaim: evict for a whole gang at once.

They search for victims in one domain after the other, the widest first. Tasks above the minimum of
their jobs are evicted first, then whole gangs, if that is allowed.
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
    """Evicts tasks of jobs with a lower priority in the same queue."""

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
    """Evicts tasks of queues above their share."""

    name: ClassVar[str] = "gangreclaim"
    arguments: ClassVar[type[Arguments]] = GangArguments

    def execute(self, session: Session) -> None:
        GangReclaimRun(session, self.name).run()


class GangReclaimRun(GangRun):
    """One run of gangreclaim."""

    running_only = True

    def is_overused(self, queue: Queue) -> bool:
        return self._session.votes.is_overused(queue)

    def may_reclaim(self, queue: Queue, tasks: list[Task]) -> bool:
        return self._session.votes.may_reclaim(queue, tasks)

    def victim_jobs(self, jobs: VictimJobs, queue: str) -> Mask:
        return jobs.in_other_queues(queue)

    def victim_first(self, job: Job) -> JobFirst:
        """The order of victims' queues, which depends on the queue of the job."""
        queues, victim_queue_first = self._session.queues, self._session.orders.victim_queue_first

        def first(left: Job, right: Job) -> bool | None:
            if left.queue == right.queue:
                return None
            one, other, reclaiming = queues[left.queue], queues[right.queue], queues[job.queue]
            before = victim_queue_first(one, other, reclaiming)
            return before if before != victim_queue_first(other, one, reclaiming) else None

        return first
