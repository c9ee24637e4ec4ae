"""preempt, as in kube-batch: any job with pending tasks may preempt other jobs of its queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments, ArgumentSchema
from pumice.core.kubebatch.actions.dispatch import pending
from pumice.core.kubebatch.actions.victims import are_enough, candidates_on, replace
from pumice.core.kubebatch.fit import allowed_nodes
from pumice.core.kubebatch.running import RunningTasks
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.model.fit import Mask
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.ordering.heap import LiveHeap
from pumice.core.session.placing.statement import Statement
from pumice.core.session.session import Session


class KubeBatchPreemptAction:
    """Queue by queue: first between jobs, then within the jobs of all queues.

    It does not matter whether a job is starving, or what is idle.
    """

    name: ClassVar[str] = "preempt"
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema()

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments

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
        self._author = author
        self._jobs: dict[str, LiveHeap[Job]] = {}
        self._under: list[Job] = []
        self._tasks: dict[str, deque[Task]] = {}
        self._explained: set[str] = set()
        for job in session.active_jobs:
            tasks = pending(session, job)
            if tasks:
                if job.queue not in self._jobs:
                    self._jobs[job.queue] = LiveHeap(session.orders.job_first)
                self._jobs[job.queue].push(job)
                self._under.append(job)
                self._tasks[job.id] = deque(tasks)
        self._running = RunningTasks(session) if self._under else None

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
        session = self._session
        session.count("preemptors_tried")
        view = session.view(task)
        assert self._running is not None
        running = self._running
        rows_with_enough = running.in_job(job, view) if own else running.in_queue(job, view)
        open_ = allowed_nodes(session, task, view)
        for row in self._by_score(task, open_, open_ & rows_with_enough):
            session.count("nodes_tried_for_victims")
            candidates = candidates_on(session, row, self._filter(job, own=own))
            victims = session.votes.preemptable(task, candidates)
            if are_enough(victims, task.request):
                # The least important first.
                victims = session.orders.tasks(victims)[::-1]
                trial = replace(session, victims, task, row, self._author)
                if trial is not None:
                    statement.merge(trial)
                    return True
        self._explain(job, task)
        return False

    def _filter(self, job: Job, *, own: bool) -> Callable[[Task], bool]:
        if own:
            return lambda task: task.job_id == job.id
        jobs = self._session.jobs
        return lambda task: task.job_id != job.id and jobs[task.job_id].queue == job.queue

    def _by_score(self, task: Task, open_: Mask, wanted: Mask) -> list[int]:
        """The wanted rows, best first; of equals the last one, as kube-batch sorted them.

        Scores are normalised over all nodes that are open.
        """
        if not wanted.any():
            return []
        rows = np.flatnonzero(open_)
        scores = self._session.choice.scores(task, self._session.view(task), rows)
        ordered = rows[np.lexsort((-rows, -scores))]
        return [int(row) for row in ordered if wanted[row]]

    def _explain(self, job: Job, task: Task) -> None:
        """Explains a failure, once per job."""
        if job.id not in self._explained:
            self._explained.add(job.id)
            have = job.index.ready_count + job.index.waiting_count
            need = job.min_available
            reason = Reason(self._author, ReasonCode.NO_VICTIMS, task.name, have=have, need=need)
            self._session.explain(job, reason)
