"""backfill: places best-effort tasks on nodes that pass the predicates."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments
from pumice.core.configuration.volcano_names import IgnoredErrorCache
from pumice.core.model.fit import FitErrors
from pumice.core.model.group import Queue
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.status import TaskStatus
from pumice.core.session.orders import Heap, LiveHeap
from pumice.core.session.session import Session

# A module constant, because attribute access to members of enumerations is slow in Python 3.11.
_PIPELINED = TaskStatus.PIPELINED


class BackfillAction:
    """Places the best-effort tasks of all admitted jobs, queue by queue."""

    name: ClassVar[str] = "backfill"
    arguments: ClassVar[type[Arguments]] = IgnoredErrorCache

    def execute(self, session: Session) -> None:
        for task in self._tasks(session):
            self._place(session, session.jobs[task.job_id], task)

    def _tasks(self, session: Session) -> list[Task]:
        queues: LiveHeap[Queue] = LiveHeap(session.orders.queue_first)
        jobs: dict[str, Heap[Job]] = {}
        tasks_of_jobs: dict[str, list[Task]] = {}
        for job in session.jobs_to_visit():
            index = job.index
            if not index.pending_best_effort and _PIPELINED not in index.by_status:
                continue
            tasks = [] if job.is_pending else self._best_effort(session, job)
            if not tasks or session.votes.why_not_valid(job) is not None:
                continue
            if job.queue not in jobs:
                jobs[job.queue] = session.orders.waiting_jobs()
                queues.push(session.queue_of(job))
            jobs[job.queue].push(job)
            tasks_of_jobs[job.id] = tasks
        ordered: list[Task] = []
        while queues:
            heap = jobs[queues.pop().name]
            while heap:
                ordered += session.orders.tasks(tasks_of_jobs[heap.pop().id])
        return ordered

    def _best_effort(self, session: Session, job: Job) -> list[Task]:
        index, pending = job.index, []
        if index.pending_best_effort:
            waiting = index.in_order(TaskStatus.PENDING)
            pending = [task for task in waiting if task.best_effort and not task.gated]
        pipelined = [t for t in index.in_order(_PIPELINED) if t.best_effort]
        for task in pipelined:
            session.moves.unplace(task)
        return pending + pipelined

    def _place(self, session: Session, job: Job, task: Task) -> None:
        problem = session.feasibility.why_not_anywhere(task)
        if problem is not None:
            count = len(session.table)
            self._refuse(session, job, task, FitErrors(count, ((problem, count),)))
            return
        view = session.view(task)
        allowed = session.feasibility.allows(task, view)
        if job.topology_key:
            allowed = allowed & session.topology.by_label.within(job)
        row = session.choice.best(task, view, allowed)
        if row is None:
            self._refuse(session, job, task, session.feasibility.predicate_errors(task, view))
            return
        statement = session.statement()
        if not statement.allocate(task, session.table.names[row]):
            # Volcano only logs this, and binds a pod without its volumes.
            errors = FitErrors(len(session.table), ((statement.rejection, 1),))
            self._refuse(session, job, task, errors)
            return
        if session.votes.is_ready(job):
            self._dispatch(session, job, task)

    def _refuse(self, session: Session, job: Job, task: Task, errors: FitErrors) -> None:
        job.fit_errors[task.uid] = errors
        counts = errors.as_counts()
        session.explain(
            job, Reason(self.name, ReasonCode.NO_NODE_FITS, task=task.name, nodes=counts)
        )

    def _dispatch(self, session: Session, job: Job, placed: Task) -> None:
        """Binds the allocated tasks of a ready job, up to the first that does not fit."""
        for task in job.index.in_order(TaskStatus.ALLOCATED):
            if not self._fits_beside_bound(session, task):
                text = f"node {task.node_name} has no room left"
                job.fit_errors[placed.uid] = FitErrors(0, message=text)
                return
            session.moves.commit_binds([task])

    def _fits_beside_bound(self, session: Session, task: Task) -> bool:
        """Whether the task fits on its node beside all bound tasks.

        Allocations of this session that are not committed do not count. A node that is below zero in
        cpu or memory takes no task, not even one that requests neither.
        """
        table = session.table
        row = table.row_of(task.node_name)
        if row is None:
            return False
        room = table.idle[:, row].copy()
        for other in table.rows[row].tasks.values():
            if other.status is TaskStatus.ALLOCATED:
                room += table.vector(other.class_)
        names = {name for name, _ in task.class_.amounts} | {"cpu", "memory"}
        columns = [i for i, name in enumerate(table.columns) if name in names]
        return bool(np.all(table.vector(task.class_)[columns] <= room[columns]))
