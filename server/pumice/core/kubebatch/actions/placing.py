"""allocate and backfill, as in kube-batch.

A task fits on idle or on releasing resources, never on both together. What a node is releasing
shrinks with every task that is pipelined there. It is the difference between what will be idle and
what is idle now, so no further sums are needed.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.model.fit import FitErrors, Mask, Refusal
from pumice.core.model.group import Queue
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.status import TaskStatus
from pumice.core.session.feasibility.plain import CLAIMS_NOT_ALLOCATED
from pumice.core.session.feasibility.views import ClassView
from pumice.core.session.orders import Heap, LiveHeap
from pumice.core.session.session import Session

OUT_OF_SYNC = "node(s) were out of sync"


class KubeBatchAllocateAction:
    """Places task after task of a job until one fits nowhere; visits queues and jobs in order.

    A job that is ready and has more tasks is visited again. Nothing is undone: the tasks of a job
    that does not become ready keep their resources until the session ends.
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


class KubeBatchBackfillAction:
    """Jobs by id, tasks by age, nodes by name; queues and scores do not count."""

    name: ClassVar[str] = "backfill"

    def execute(self, session: Session) -> None:
        assert isinstance(session, KubeBatchSession)
        for job in session.active_jobs:
            for task in job.index.in_order(TaskStatus.PENDING):
                if task.best_effort and not task.gated:
                    self._place(session, job, task)

    def _place(self, session: KubeBatchSession, job: Job, task: Task) -> None:
        view = session.view(task)
        rows = allowed_nodes(session, task, view) & view.fits_idle
        if rows.any():
            session.place(job, task, int(np.argmax(rows)))
        else:
            refuse(session, self.name, job, task, view)


def _has_room(session: KubeBatchSession, view: ClassView) -> Mask:
    """Nodes with enough idle or enough releasing resources."""
    return view.fits_idle | view.fits(session.table.future - session.table.idle)


def feasible(session: KubeBatchSession, task: Task, view: ClassView) -> Mask:
    """Nodes that pass all predicates and have enough idle or enough releasing resources."""
    return allowed_nodes(session, task, view) & _has_room(session, view)


def allowed_nodes(session: KubeBatchSession, task: Task, view: ClassView) -> Mask:
    """Nodes in sync that pass all predicates; resources are not checked."""
    mask = session.feasibility.allows(task, view) & session.in_sync
    for refusal in _claim_refusals(session, task):
        mask &= ~refusal.rows
    return mask


def _claim_refusals(session: KubeBatchSession, task: Task) -> list[Refusal]:
    """Refusals because of claims, which no plugin of kube-batch checks."""
    spec, volumes = task.class_.spec, session.volumes
    problem = CLAIMS_NOT_ALLOCATED if spec.resource_claims else None
    if problem is None:
        if not spec.volumes:
            return []
        problem = volumes.why_not_anywhere(task)
        if problem is None:
            return volumes.refusals(task)
    everywhere = np.ones(len(session.table), dtype=np.bool_)
    return [Refusal(problem, everywhere, unresolvable=True)]


def refuse(session: KubeBatchSession, author: str, job: Job, task: Task, view: ClassView) -> None:
    """Explains that no node takes a task of the job."""
    errors = job.fit_errors[task.uid] = _fit_errors(session, task, view)
    nodes = errors.as_counts()
    session.explain(job, Reason(author, ReasonCode.NO_NODE_FITS, task=task.name, nodes=nodes))


def _fit_errors(session: KubeBatchSession, task: Task, view: ClassView) -> FitErrors:
    """Why no node takes the task; each node gives one reason."""
    table, counts = session.table, {}
    left = session.in_sync.copy()
    if not left.all():
        counts[OUT_OF_SYNC] = int(np.count_nonzero(~left))
    short = left & ~_has_room(session, view)
    left &= ~short
    for name, (column, need) in zip(view.need_names, view.needs, strict=True):
        lacking = short & (table.idle[column] < need)
        if lacking.any():
            counts[f"Insufficient {name}"] = int(np.count_nonzero(lacking))
            short &= ~lacking
    refused = session.feasibility.refusals(task, view)
    for refusals in (*refused, _claim_refusals(session, task)):
        for refusal in refusals:
            rows = refusal.rows & left
            if rows.any():
                number = counts.get(refusal.reason, 0) + int(np.count_nonzero(rows))
                counts[refusal.reason] = number
                left &= ~rows
    return FitErrors(len(table), tuple(counts.items()))
