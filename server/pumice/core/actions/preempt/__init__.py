"""preempt: makes room for starving jobs by evicting tasks of their own queue."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.actions.preempt.attempt import Attempt, PreemptArguments, VictimScope
from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments
from pumice.core.session.evicting.visits import EvictionVisits
from pumice.core.session.orders import LiveHeap
from pumice.core.session.session import Session


class PreemptAction:
    """Evicts, queue by queue, tasks of other jobs first, then tasks of lower priority of the same job."""

    name: ClassVar[str] = "preempt"
    arguments: ClassVar[type[Arguments]] = PreemptArguments

    def execute(self, session: Session) -> None:
        if not session.unsettled_jobs:
            return
        arguments = PreemptArguments(session.configuration.arguments_of(self.name))
        attempt = Attempt(session, self.name, arguments)
        visits = EvictionVisits(session, self.name)
        self._visit(session, attempt, visits.jobs(lambda job: _may_help(session, attempt, job)))
        self._visit(session, attempt, visits.changed())

    def _visit(self, session: Session, attempt: Attempt, visited: list[Job]) -> None:
        attempt.begin_visit()
        starving = [job for job in visited if _may_preempt(session, job)]
        if not starving:
            return
        jobs: dict[str, LiveHeap[Job]] = {}
        tasks = {}
        for job in starving:
            if job.queue not in jobs:
                jobs[job.queue] = LiveHeap(session.orders.job_first)
            jobs[job.queue].push(job)
            tasks[job.id] = _pending(session, job)
        queues = LiveHeap(
            session.orders.queue_first, (session.queues[name] for name in sorted(jobs))
        )
        while queues:
            queue = queues.pop()
            heap = jobs[queue.name]
            while heap:
                job = heap.pop()
                self._from_other_jobs(session, attempt, job, tasks[job.id])
            for job in starving:
                if job.queue == queue.name:
                    self._from_itself(session, attempt, job)

    def _from_other_jobs(
        self, session: Session, attempt: Attempt, job: Job, tasks: list[Task]
    ) -> None:
        statement = session.statement()
        for task in tasks:
            if not session.votes.is_starving(job):
                break
            attempt.make_room(statement, job, task, VictimScope.OTHER_JOBS)
        if session.votes.is_pipelined(job):
            statement.commit(job.id)
        else:
            statement.discard()

    def _from_itself(self, session: Session, attempt: Attempt, job: Job) -> None:
        for task in _pending(session, job):
            statement = session.statement()
            if not attempt.make_room(statement, job, task, VictimScope.SAME_JOB):
                statement.discard()
                return
            statement.commit(job.id)


def _may_help(session: Session, attempt: Attempt, job: Job) -> bool:
    """Whether evictions could make room for a task of the job."""
    if not _may_preempt(session, job):
        return False
    tasks = {task.class_.number: task for task in job.index.pending.values() if not task.gated}
    return any(attempt.may_help(job, task) for task in tasks.values())


def _may_preempt(session: Session, job: Job) -> bool:
    return (
        not job.is_pending
        and session.votes.is_starving(job)
        and session.votes.why_not_valid(job) is None
        and not job.stays_together
    )


def _pending(session: Session, job: Job) -> list[Task]:
    pending = job.index.pending.values()
    return session.orders.tasks(task for task in pending if not task.gated)
