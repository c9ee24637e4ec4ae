"""Evictions on one node: the victims alone must free enough, whatever is idle there."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pumice.core.cache.tasks import Task
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.kubebatch.tolerance import KUBE_BATCH_TOLERANCE
from pumice.core.model.resources import Resources
from pumice.core.model.status import TaskStatus
from pumice.core.session.placing.statement import Statement


def candidates_on(
    session: KubeBatchSession, row: int, wanted: Callable[[Task], bool]
) -> list[Task]:
    """Running tasks of the session's jobs, also those that are not preemptable."""
    return [
        task
        for task in session.table.rows[row].tasks_in_order()
        if task.status is TaskStatus.RUNNING and task.job_id in session.jobs and wanted(task)
    ]


def are_enough(victims: Iterable[Task], request: Resources) -> bool:
    freed, anyone = Resources(), False
    for victim in victims:
        freed.add(victim.request)
        anyone = True
    return anyone and KUBE_BATCH_TOLERANCE.is_at_most(request, freed)


def replace(
    session: KubeBatchSession, victims: Iterable[Task], task: Task, row: int, why: str
) -> Statement | None:
    """Evicts until there is enough for the task, and pipelines it; None where a plugin objects."""
    statement, freed = session.statement(), Resources()
    for victim in victims:
        statement.evict(victim, why)
        if KUBE_BATCH_TOLERANCE.is_at_most(task.request, freed.add(victim.request)):
            break
    if statement.pipeline(task, session.table.names[row], eviction_occurred=True):
        return statement
    statement.discard()
    return None
