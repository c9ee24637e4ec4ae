"""Evictions over a whole domain: room for several tasks of a gang at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Mask
from pumice.core.model.status import EVICTABLE
from pumice.core.session.evicting.order import VictimOrder

if TYPE_CHECKING:
    from pumice.core.session.placing.statement import Statement
    from pumice.core.session.session import Session


def make_room_in(
    session: Session, statement: Statement, job: Job, tasks: list[Task], domain: str, action: str
) -> bool:
    """Evicts in a domain until all tasks are pipelined there; false: nothing was changed.

    Victims are those that ``unified_evictable`` names among all tasks in the domain. They go in
    the order of victims, as few as are needed.
    """
    within = session.topology.nodes_of(domain)
    candidates = _candidates(session, job, within)
    victims = session.votes.unified_evictable(action, job, candidates)
    waiting = VictimOrder(session).waiting(victims, tasks[0])
    trial = session.statement()
    for task in tasks:
        while not _pipeline(session, trial, task, within):
            if not waiting:
                trial.discard()
                return False
            trial.evict(waiting.pop(), action)
    statement.merge(trial)
    return True


def _candidates(session: Session, job: Job, within: Mask | None) -> list[Task]:
    return [
        task
        for row, entry in enumerate(session.table.rows)
        if within is None or within[row]
        for task in entry.tasks_in_order()
        if task.status in EVICTABLE and task.pod.preemptable and task.job_id != job.id
    ]


def _pipeline(session: Session, trial: Statement, task: Task, within: Mask | None) -> bool:
    if session.feasibility.why_not_anywhere(task) is not None:
        return False
    view = session.view(task)
    feasible = session.feasibility.allows(task, view) & view.fits_future
    if within is not None:
        feasible &= within
    row = session.choice.best(task, view, feasible)
    if row is None:
        return False
    node = session.table.names[row]
    return trial.pipeline(task, node, eviction_occurred=trial.has_evictions)
