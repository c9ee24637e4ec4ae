"""Placing in kube-batch's mode: a task is allocated at once, and bound when its job is ready."""

from __future__ import annotations

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.model.status import TaskStatus
from pumice.core.session.placing.statement import Statement


def allocate(session: KubeBatchSession, job: Job, task: Task, row: int) -> None:
    """Places the task on a node, and binds all placed tasks of the job if the job is ready.

    Tasks of a job that does not become ready keep their resources until the session ends.
    """
    volumes = session.volumes if task.class_.spec.volumes else None
    if volumes is not None and volumes.reserve(task, row) is not None:
        return
    if not session.statement().allocate(task, session.table.names[row]):
        if volumes is not None:
            volumes.unreserve(task)
        return
    if session.votes.is_ready(job):
        for placed in job.index.in_order(TaskStatus.ALLOCATED):
            Statement.of_allocated(session, [placed]).commit(job.id)


def pending(session: KubeBatchSession, job: Job) -> list[Task]:
    """The pending tasks in task order, without gated ones, which cannot be bound."""
    return session.orders.tasks(task for task in job.index.pending.values() if not task.gated)
