"""reclaim: evicts tasks of queues above their deserved share for queues below theirs."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments
from pumice.core.configuration.volcano_names import IgnoredErrorCache
from pumice.core.model.fit import Mask
from pumice.core.model.group import Queue
from pumice.core.model.reasons import ReasonCode
from pumice.core.session.evicting import NodeEvictions, Preemptor, VictimScope
from pumice.core.session.orders import LiveHeap
from pumice.core.session.placing.statement import Statement
from pumice.core.session.session import Session


class ReclaimAction:
    """Visits queues in their order, with all starving jobs of a queue; nodes are tried by name."""

    name: ClassVar[str] = "reclaim"
    arguments: ClassVar[type[Arguments]] = IgnoredErrorCache

    def execute(self, session: Session) -> None:
        ReclaimRun(session, self.name).run()


class ReclaimRun(NodeEvictions):
    """One run of the action.

    As in Volcano, only resources are checked after an eviction, not predicates and quota.
    """

    point = "reclaimable"
    needs_candidates = True

    # Jobs.

    def may_help(self, job: Job) -> bool:
        queue, votes = self._session.queue_of(job), self._session.votes
        if job.is_pending or not self._needs_room(job) or votes.is_overused(queue):
            return False
        return any(
            not task.class_.spec.never_preempts
            and votes.may_reclaim(queue, [task])
            and self._might_make_room(job, task, VictimScope.OTHER_QUEUES)
            for task in self._task_of_each_class(job)
        )

    def _needs_room(self, job: Job) -> bool:
        """Whether evictions can help the job; they do not help a job that must stay in one domain."""
        if not job.index.pending or job.topology_key:
            return False
        return self._session.votes.is_starving(job)

    def select(self, jobs: list[Job]) -> None:
        """Enlists the queues of all valid jobs, and the jobs that need room."""
        for job in jobs:
            if job.is_pending:
                continue
            needs_room = self._needs_room(job)
            is_enlisted = job.queue in self._jobs
            if is_enlisted and not needs_room:
                continue
            if self._session.votes.why_not_valid(job) is not None:
                continue
            self._enlist_queue(job)
            if needs_room:
                self._enlist(job)

    def is_overused(self, queue: Queue) -> bool:
        return self._session.votes.is_overused(queue)

    def visit_queue(self, queue: Queue, jobs: LiveHeap[Job]) -> None:
        while jobs:
            self._make_room_for_job(jobs.pop())
            if jobs:
                # As in Volcano, the queue is pushed again after each job, which changes the heap.
                self._queues.push(queue)

    # Tasks.

    def make_room(self, statement: Statement, job: Job, task: Task) -> None:
        session, queue = self._session, self._session.queue_of(job)
        if task.class_.spec.never_preempts:
            self._reasons.add(job, task.name, subjects=("preemption policy is Never",))
        elif not session.votes.may_reclaim(queue, [task]):
            self._reasons.add(job, task.name, ReasonCode.QUEUE_QUOTA, subjects=(queue.name,))
        elif (problem := session.feasibility.why_not_anywhere(task)) is not None:
            self._reasons.add(job, task.name, subjects=(problem,))
        else:
            session.count("reclaimers_tried")
            if not self._evict_for(statement, self._preemptor(job, task, VictimScope.OTHER_QUEUES)):
                self._reasons.add(job, task.name)

    # Nodes.

    def free_rows(self, preemptor: Preemptor) -> Mask | None:
        """Nodes where the task fits without an eviction; as in Volcano, only nodes with candidates."""
        free = preemptor.view.fits_future
        if not np.count_nonzero(free):
            return None
        return free & self._search.rows_with_candidates(preemptor)
