"""Conditions of PodGroups and pods, and the texts of conditions and events, as Volcano writes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.decisions import Event, PodConditionChanged
from pumice.core.model.group import PodGroupCondition
from pumice.core.model.reasons import added_text
from pumice.core.model.status import TaskStatus

if TYPE_CHECKING:
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
    """Reasons for which Volcano has no text; mostly empty."""
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
    """The first part of the text; cached, because many jobs have equal numbers of tasks by status."""
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


def unschedulable(session: Session, reason: str, message: str) -> PodGroupCondition:
    """A condition that this session sets."""
    return PodGroupCondition(UNSCHEDULABLE, "True", reason, message, session.id, session.now_ns)


def set_condition(session: Session, job: Job, condition: PodGroupCondition) -> None:
    """Sets a condition of the job's PodGroup when the session ends."""
    conditions = session.conditions.get(job.id, job.status.conditions)
    session.conditions[job.id] = with_condition(conditions, condition)


def with_condition(
    conditions: tuple[PodGroupCondition, ...], new: PodGroupCondition
) -> tuple[PodGroupCondition, ...]:
    """The conditions with the new one, which replaces a condition of the same type."""
    if conditions and any(c.type == new.type for c in conditions):
        return tuple(new if c.type == new.type else c for c in conditions)
    return (*conditions, new)


def is_found_unschedulable(job: Job, conditions: Iterable[PodGroupCondition]) -> bool:
    """Whether this session found the job unschedulable.

    Only conditions that the session itself has set count, not those that the cluster stores.
    """
    for found in conditions:
        is_unschedulable = found.type == UNSCHEDULABLE and found.status == "True"
        if is_unschedulable and all(found is not stored for stored in job.status.conditions):
            return True
    return False


def pod_condition(session: Session, job: Job, task: Task, text: str) -> list[PodConditionChanged]:
    # The API server has set the condition of a gated pod.
    if task.gated:
        return []
    reason, message, nominated = task_reason(job, task)
    return set_pod_condition(session, task, reason, message or text, nominated)


def set_pod_condition(
    session: Session, task: Task, reason: str, message: str, nominated: str = ""
) -> list[PodConditionChanged]:
    """Changes the pod's condition and records an event, unless the pod has the condition already."""
    pod = task.pod
    same = any(
        c.type == "PodScheduled" and (c.status, c.reason, c.message) == ("False", reason, message)
        for c in pod.conditions
    )
    if same and (not nominated or nominated == pod.nominated_node_name):
        return []
    if task.reported_condition == (reason, message, nominated):
        # The condition was reported, and is not stored yet.
        return []
    task.reported_condition = (reason, message, nominated)
    session.events.append(Event.about(pod, "FailedScheduling", message))
    return [PodConditionChanged(pod.namespace, pod.name, pod.uid, reason, message, nominated)]
