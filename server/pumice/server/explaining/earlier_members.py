"""Places the gang members that precede a pod, to find the resources that are left for the pod."""

from __future__ import annotations

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.model.group import Queue
from pumice.core.model.status import TaskStatus
from pumice.core.session.placing.statement import Statement
from pumice.core.session.session import Session

# Maximum number of members that are placed one by one, because each takes time.
MAX_ONE_BY_ONE = 200


def place_earlier_members(
    session: Session, job: Job, pod: Task, most: int, statement: Statement | None = None
) -> int | None:
    """Returns the number of placed members; None: there are more than ``most`` to place.

    The caller discards the session or the statement afterwards.
    """
    if job.has_policies or session.topology.is_constrained(job):
        return 0
    pending = job.index.in_order(TaskStatus.PENDING)
    ahead: list[Task] = []
    for task in session.orders.tasks(t for t in pending if not (t.best_effort or t.gated)):
        if task is pod:
            break
        ahead.append(task)
    if len(ahead) > most:
        return None
    return _place(session, session.queue_of(job), ahead, statement or session.statement())


def _place(session: Session, queue: Queue, tasks: list[Task], statement: Statement) -> int:
    placed, tried = 0, 0
    start = 0
    while start < len(tasks):
        first, end = tasks[start], start + 1
        while end < len(tasks) and tasks[end].class_ is first.class_:
            end += 1
        alike, start = tasks[start:end], end
        count = session.votes.allocatable_count(queue, first, len(alike))
        plain = session.plain
        if count and all(
            plain.is_filtered_by_class(t) and plain.is_scored_by_class(t) for t in alike
        ):
            together = statement.place_class(session.view(first), alike[:count])
            placed += together
            alike = alike[together:]
        tried += len(alike)
        if tried > MAX_ONE_BY_ONE:
            return placed
        placed += sum(_place_one(session, queue, statement, task) for task in alike)
    return placed


def _place_one(session: Session, queue: Queue, statement: Statement, task: Task) -> bool:
    if not session.votes.is_allocatable(queue, task):
        return False
    view = session.view(task)
    free = session.feasibility.allows(task, view) & view.fits_idle
    row = session.choice.best(task, view, free)
    return row is not None and statement.allocate(task, session.table.names[row])
