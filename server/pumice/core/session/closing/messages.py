"""The texts of conditions and events of jobs and pods, as Volcano writes them."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.model.sentences import added_text
from pumice.core.model.status import TaskStatus
from pumice.core.session.session import Session

UNSCHEDULABLE = "Unschedulable"
SCHEDULED = "Scheduled"
_ALLOCATED, _PENDING = TaskStatus.ALLOCATED, TaskStatus.PENDING
_PIPELINED = TaskStatus.PIPELINED


def wait_text(session: Session, job: Job) -> str:
    """The text of a job's conditions and events."""
    text, added = fit_text(job), reasons_text(session, job)
    return f"{text}; {added}" if added else text


def reasons_text(session: Session, job: Job) -> str:
    """Reasons that Volcano has no text for; mostly empty."""
    if session.queue_fault and not job.is_ready:
        return session.queue_fault
    reasons = session.reasons.get(job.id)
    return added_text(reasons) if reasons else ""


def fit_text(job: Job) -> str:
    """The number of tasks in each status, and why tasks wait, as Volcano writes it."""
    counts = tuple([(s, len(tasks)) for s, tasks in job.index.by_status.items() if tasks])
    text = _head(counts, job.min_available, ready=job.is_ready)
    pending = job.index.pending
    if pending:
        reasons = Counter(task_reason(job, task)[0] for task in pending.values())
        text += f"; Pending: {_histogram(reasons)}"
    if job.fit_errors:
        tasks = job.index.tasks
        first = min((tasks[uid] for uid in job.fit_errors), key=lambda t: t.order_key)
        text += f". Origin reason is {first.name}: {job.fit_errors[first.uid].text()}"
    return text


@lru_cache(maxsize=4096)
def _head(counts: tuple[tuple[TaskStatus, int], ...], minimum: int, *, ready: bool) -> str:
    """Remembered: of a thousand jobs, most have as many tasks in the same states as another."""
    words = {status.word: number for status, number in counts}
    words["minAvailable"] = minimum
    head = "pod group is ready" if ready else "pod group is not ready"
    return f"{head}, {_histogram(words)}"


def _histogram(counts: dict[str, int]) -> str:
    return ", ".join(sorted(f"{number} {word}" for word, number in counts.items()))


def task_reason(job: Job, task: Task) -> tuple[str, str, str]:
    """Reason, message and nominated node of a task that was not placed."""
    last = task.last_transaction
    status = last.status if last else task.status
    node = last.node_name if last else task.node_name
    if status is _ALLOCATED:
        where = f"Pod {task.key} can possibly be assigned to {node}"
        return "Schedulable", f"{where}, once minAvailable is satisfied", ""
    if status is _PIPELINED:
        occurred = last.eviction_occurred if last else task.eviction_occurred
        where = f"Pod {task.key} can possibly be assigned to {node}"
        message = f"{where}, once resource is released and minAvailable is satisfied"
        return UNSCHEDULABLE, message, node if occurred else ""
    if status is _PENDING:
        errors = job.fit_errors.get(task.uid)
        return UNSCHEDULABLE, errors.text() if errors is not None else "", ""
    return status.word, "", ""
