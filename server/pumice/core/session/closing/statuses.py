"""Statuses of PodGroups, pods and queues at the end of a session; only those that changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import QUEUE_ALLOCATION_GATE, Task
from pumice.core.decisions import PodGateLifted, PodGroupStatusChanged, StatusChange
from pumice.core.model.group import PodGroupCondition, PodGroupPhase, PodGroupStatus
from pumice.core.model.sentences import job_text
from pumice.core.model.status import TaskStatus
from pumice.core.session.closing.conditions import (
    is_found_unschedulable,
    pod_condition,
    with_condition,
)
from pumice.core.session.closing.messages import (
    SCHEDULED,
    UNSCHEDULABLE,
    reasons_text,
    wait_text,
)
from pumice.core.session.closing.outcome import jobs_without_queue
from pumice.core.session.closing.phases import WAITING_PHASES, phase_of
from pumice.core.session.closing.queue_statuses import queue_statuses
from pumice.core.session.session import Session

# Names of their own: Python 3.11 is slow to find members of enumerations.
_PENDING = TaskStatus.PENDING
_RUNNING, _SUCCEEDED, _FAILED = TaskStatus.RUNNING, TaskStatus.SUCCEEDED, TaskStatus.FAILED
_INQUEUE = PodGroupPhase.INQUEUE
_NOT_PLACED = (TaskStatus.ALLOCATED, _PENDING, TaskStatus.PIPELINED)


def close(session: Session) -> list[StatusChange]:
    """The statuses that differ from what the cluster holds."""
    changes: list[StatusChange] = []
    closed = 0
    for job in session.concerned_jobs():
        if is_unchanged(session, job) and not _has_changes(session, job):
            continue
        closed += 1
        changes += _close_job(session, job)
    if closed:
        session.count("jobs_closed", closed)
    changes += _without_queue(session)
    changes += queue_statuses(session)
    changes += session.shard.status_changes()
    changes += [
        PodGateLifted(task.pod.namespace, task.name, task.uid, QUEUE_ALLOCATION_GATE)
        for _, task in sorted(session.lifted_gates.items())
    ]
    return changes


def note_closed(session: Session, jobs: Iterable[Job], touched: set[str]) -> None:
    """Remembers what the jobs were closed with, and forgets what does not outlast the session."""
    for job in jobs:
        job.closed_text = reasons_text(session, job)
        job.closed_errors, job.fit_errors = job.fit_errors, {}
        job.closed_version = job.version
        if job.id in touched:
            job.closed_errors = None
            for task in job.index:
                task.last_transaction = None


def is_quiet(job: Job, touched: set[str]) -> bool:
    """Nothing happened to the job since its status was last written, and nothing is expected."""
    return job.closed_version == job.version and job.id not in touched and not job.index.pending


def is_unchanged(session: Session, job: Job) -> bool:
    """Nothing happened to the job since its status was last written, and nothing new was found."""
    if job.closed_version != job.version or job.id in session.moves.touched_jobs:
        return False
    if job.closed_text != reasons_text(session, job):
        return False
    errors, before = job.fit_errors, job.closed_errors
    if before is None or len(errors) != len(before):
        return False
    for uid, error in errors.items():  # noqa: SIM110
        if before.get(uid) is not error:
            return False
    return True


def _close_job(session: Session, job: Job) -> list[StatusChange]:
    assert job.group is not None
    changes: list[StatusChange] = []
    conditions = session.conditions.get(job.id, job.group.status.conditions)
    index, held_back = job.index, _why_not_admitted(session, job)
    if held_back:
        condition = PodGroupCondition(
            UNSCHEDULABLE, "True", "NotEnqueued", held_back, session.id, session.now_ns
        )
        conditions = with_condition(conditions, condition)
    status = PodGroupStatus(
        phase_of(job, unschedulable=is_found_unschedulable(job, conditions)),
        len(index.with_status(_RUNNING)),
        len(index.with_status(_SUCCEEDED)),
        len(index.with_status(_FAILED)),
        conditions,
    )
    changed = differs(status, job.group.status)
    if changed:
        group = job.group
        changes.append(PodGroupStatusChanged(group.namespace, group.name, group.uid, status))
    waiting: list[Task] = []
    for state in _NOT_PLACED:
        if index.with_status(state):
            waiting += index.in_order(state)
    text = wait_text(session, job) if waiting or status.phase in WAITING_PHASES else ""
    if changed:
        _tell(session, job, status.phase, held_back or text)
    for task in waiting:
        change = pod_condition(session, job, task, text)
        if change is not None:
            changes.append(change)
    return changes


def differs(new: PodGroupStatus, old: PodGroupStatus) -> bool:
    """Transition times and ids never count: every session would write."""
    if _counts(new) != _counts(old) or len(new.conditions) != len(old.conditions):
        return True
    for mine, other in zip(new.conditions, old.conditions, strict=True):
        if mine is not other and _content(mine) != _content(other):
            return True
    return False


_counts = attrgetter("phase", "running", "succeeded", "failed")
_content = attrgetter("type", "status", "reason", "message")


def _tell(session: Session, job: Job, phase: PodGroupPhase, text: str) -> None:
    """Records an event about a status that changed, unless the stored condition says the same."""
    if phase not in WAITING_PHASES:
        session.tell(job, SCHEDULED, "pod group is ready")
    elif is_shown(job, text):
        return
    elif not len(job.index):
        # An admitted job has no pods until its controller creates them.
        if phase is not _INQUEUE:
            session.tell(job, UNSCHEDULABLE, text, warning=True)
    else:
        pending = job.index.count(_PENDING)
        message = f"{pending}/{len(job.index)} tasks in gang unschedulable: {text}"
        session.tell(job, UNSCHEDULABLE, message, warning=True)


def is_shown(job: Job, text: str) -> bool:
    """Whether a waiting job's stored condition already ends with this text."""
    return job.status.phase in WAITING_PHASES and any(
        c.type == UNSCHEDULABLE and (c.message == text or c.message.endswith(f": {text}"))
        for c in job.status.conditions
    )


def _has_changes(session: Session, job: Job) -> bool:
    """Whether there is something new to write about a job that nothing happened to."""
    if job.id in session.conditions:
        return True
    held_back = _why_not_admitted(session, job)
    return bool(held_back) and not is_shown(job, held_back)


def _why_not_admitted(session: Session, job: Job) -> str:
    """Why a job without pods is not admitted; plugins set no condition for that."""
    if len(job.index) or not job.is_pending:
        return ""
    if session.queue_fault:
        return session.queue_fault
    return job_text(session.reasons.get(job.id, ()))


def _without_queue(session: Session) -> list[StatusChange]:
    """Conditions of waiting jobs that are in no session, since their queue does not exist."""
    changes: list[StatusChange] = []
    for job, reason in jobs_without_queue(session):
        text = job_text((reason,))
        if job.group is None or is_shown(job, text):
            continue
        group, old = job.group, job.group.status
        condition = PodGroupCondition(
            UNSCHEDULABLE, "True", "QueueNotFound", text, session.id, session.now_ns
        )
        status = replace(old, conditions=with_condition(old.conditions, condition))
        if differs(status, old):
            changes.append(PodGroupStatusChanged(group.namespace, group.name, group.uid, status))
            session.tell(job, UNSCHEDULABLE, text, warning=True)
    return changes
