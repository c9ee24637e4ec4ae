"""preempt, as in kube-batch: any job with pending tasks may preempt other jobs of its queue."""

from __future__ import annotations

import operator
from collections import deque
from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.kubebatch.actions.evictions import Evictions
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.session.orders import LiveHeap
from pumice.core.session.placing.statement import Statement
from pumice.core.session.session import Session


class KubeBatchPreemptAction:
    """Queue by queue: first between jobs, then within the jobs of all queues.

    It does not matter whether a job is starving, or what is idle.
    """

    name: ClassVar[str] = "preempt"

    def execute(self, session: Session) -> None:
        assert isinstance(session, KubeBatchSession)
        run = _PreemptRun(session, self.name)
        for queue in sorted({job.queue for job in session.active_jobs}):
            run.between_jobs(queue)
            run.within_jobs()


class _PreemptRun:
    """One run of the action."""

    def __init__(self, session: KubeBatchSession, author: str) -> None:
        self._session = session
        self._evictions = Evictions(session, author, self._choose)
        self._jobs: dict[str, LiveHeap[Job]] = {}
        self._under: list[Job] = []
        self._tasks: dict[str, deque[Task]] = {}
        for job in session.active_jobs:
            if tasks := session.pending(job):
                if job.queue not in self._jobs:
                    self._jobs[job.queue] = LiveHeap(session.orders.job_first)
                self._jobs[job.queue].push(job)
                self._under.append(job)
                self._tasks[job.id] = deque(tasks)

    def _choose(self, task: Task, candidates: list[Task]) -> list[Task]:
        """The least important first."""
        return self._session.orders.tasks(self._session.votes.preemptable(task, candidates))[::-1]

    def between_jobs(self, queue: str) -> None:
        jobs = self._jobs.get(queue)
        while jobs:
            job = jobs.pop()
            if self._preempt_others(job):
                jobs.push(job)

    def _preempt_others(self, job: Job) -> bool:
        """Commits as soon as the job is pipelined; true when a task was placed and more may be."""
        session, assigned = self._session, False
        statement = session.statement()
        tasks = self._tasks[job.id]
        while tasks:
            task = tasks.popleft()
            assigned = self._make_room(statement, job, task, own=False) or assigned
            if session.votes.is_pipelined(job):
                statement.commit(job.id)
                break
        if not session.votes.is_pipelined(job):
            statement.discard()
            return False
        return assigned

    def within_jobs(self) -> None:
        """Each job from its own running tasks; every success is committed, ready or not."""
        for job in self._under:
            tasks = self._tasks[job.id]
            while tasks:
                statement = self._session.statement()
                assigned = self._make_room(statement, job, tasks.popleft(), own=True)
                statement.commit(job.id)
                if not assigned:
                    break

    def _make_room(self, statement: Statement, job: Job, task: Task, *, own: bool) -> bool:
        self._session.count("preemptors_tried")
        may_evict = operator.is_ if own else _is_in_the_same_queue
        trial = self._evictions.make_room(job, task, may_evict, by_score=True)
        if trial is None:
            return False
        statement.merge(trial)
        return True


def _is_in_the_same_queue(job: Job, other: Job) -> bool:
    return other is not job and other.queue == job.queue
