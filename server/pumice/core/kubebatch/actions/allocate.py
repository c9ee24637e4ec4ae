"""allocate, as in kube-batch: places task after task of a job until one fits nowhere."""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.kubebatch.fit import feasible, refuse
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.model.group import Queue
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.orders import Heap, LiveHeap
from pumice.core.session.session import Session


class KubeBatchAllocateAction:
    """Visits queues and jobs in order; a job that is ready and has more tasks is visited again.

    Nothing is undone: the tasks of a job that does not become ready keep their resources until the
    session ends.
    """

    name: ClassVar[str] = "allocate"

    def execute(self, session: Session) -> None:
        assert isinstance(session, KubeBatchSession)
        run = _AllocateRun(session, self.name)
        run.visit_all()
        run.explain_short()


class _AllocateRun:
    """One run of the action."""

    def __init__(self, session: KubeBatchSession, author: str) -> None:
        self._session = session
        self._author = author
        self._queues: LiveHeap[Queue] = LiveHeap(session.orders.queue_first)
        self._jobs: dict[str, Heap[Job]] = {}
        self._tasks: dict[str, deque[Task]] = {}
        self._tried: dict[str, Job] = {}
        for job in session.active_jobs:
            # Once for every job, as kube-batch did: it shapes the heap.
            self._queues.push(session.queue_of(job))
            if job.queue not in self._jobs:
                self._jobs[job.queue] = session.orders.waiting_jobs()
            self._jobs[job.queue].push(job)

    def visit_all(self) -> None:
        while self._queues:
            queue = self._queues.pop()
            jobs = self._jobs[queue.name]
            if self._session.votes.is_overused(queue):
                self._explain_overused(queue, jobs)
                continue
            if not jobs:
                continue
            job = jobs.pop()
            if self._place(job):
                jobs.push(job)
            self._queues.push(queue)

    def _explain_overused(self, queue: Queue, jobs: Heap[Job]) -> None:
        # It stays overused: this action frees nothing.
        while jobs:
            job = jobs.pop()
            if job.id not in self._tasks and self._waiting(job):
                reason = Reason(self._author, ReasonCode.QUEUE_OVERUSED, subjects=(queue.name,))
                self._session.explain(job, reason)

    def _waiting(self, job: Job) -> deque[Task]:
        tasks = self._tasks.get(job.id)
        if tasks is None:
            pending = self._session.pending(job)
            tasks = self._tasks[job.id] = deque(task for task in pending if not task.best_effort)
        return tasks

    def _place(self, job: Job) -> bool:
        """Places tasks until the job is ready; true when it has more to place."""
        session = self._session
        session.broken.pop(job.id, None)
        tasks = self._waiting(job)
        while tasks:
            self._tried[job.id] = job
            task = tasks.popleft()
            session.count("tasks_tried")
            if not self._place_task(job, task):
                return False
            if tasks and session.votes.is_ready(job):
                return True
        return False

    def _place_task(self, job: Job, task: Task) -> bool:
        session = self._session
        view = session.view(task)
        row = session.choice.best(task, view, feasible(session, task, view))
        if row is None:
            refuse(session, self._author, job, task, view)
            return False
        # The best node may have no idle resources, even if another node has.
        if view.fits_idle[row]:
            session.place(job, task, row)
        else:
            node = session.table.names[row]
            session.statement().pipeline(task, node, eviction_occurred=False)
        return True

    def explain_short(self) -> None:
        """Explains jobs that have placed tasks and are not ready."""
        session = self._session
        for job in self._tried.values():
            if session.votes.is_ready(job):
                continue
            have, need = job.index.ready_count, job.min_available
            if have < need:
                reason = Reason("gang", ReasonCode.GANG_SHORT, have=have, need=need)
                session.explain(job, reason)
