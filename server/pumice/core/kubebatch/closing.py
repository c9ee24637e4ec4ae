"""Statuses at the end of a session: fewer phases than Volcano, and no statuses of queues.

kube-batch writes every PodGroup in every session; here only what changed is written.
"""

from __future__ import annotations

from pumice.core.cache.jobs import Job
from pumice.core.decisions import PodGroupStatusChanged, StatusChange
from pumice.core.kubebatch.jobs import KubeBatchJob, Origin
from pumice.core.model.group import PodGroupPhase
from pumice.core.model.status import TaskStatus
from pumice.core.session.closing.conditions import (
    UNSCHEDULABLE,
    fit_text,
    is_found_unschedulable,
    set_pod_condition,
)
from pumice.core.session.closing.statuses import (
    differs,
    is_placed,
    is_quiet,
    is_shown,
    record_waiting,
    status_with,
)
from pumice.core.session.session import Session

_NOT_PLACED = (TaskStatus.ALLOCATED, TaskStatus.PENDING)
_WAITING_PHASES = (PodGroupPhase.UNKNOWN, PodGroupPhase.PENDING)


def close(session: Session) -> list[StatusChange]:
    """The statuses that differ from what the cluster holds."""
    changes: list[StatusChange] = []
    touched = session.moves.touched_jobs
    for job in session.jobs.values():
        if is_quiet(job, touched):
            continue
        session.count("jobs_closed")
        assert isinstance(job, KubeBatchJob)
        changes += _close_job(session, job)
    return changes


def _close_job(session: Session, job: KubeBatchJob) -> list[StatusChange]:
    changes: list[StatusChange] = []
    conditions = session.conditions.get(job.id, job.status.conditions)
    phase = phase_of(job, unschedulable=is_found_unschedulable(job, conditions))
    status = status_with(job, phase, conditions)
    text, is_new = fit_text(job), False
    if job.origin is Origin.POD_GROUP and differs(status, job.status):
        uid = job.group.uid if job.group else ""
        changes.append(PodGroupStatusChanged(job.namespace, job.name, uid, status))
        is_waiting = status.phase in _WAITING_PHASES and not is_placed(job)
        is_new = is_waiting and not is_shown(job, text)
    for state in _NOT_PLACED:
        for task in job.index.in_order(state):
            if not task.gated:
                changes += set_pod_condition(session, task, UNSCHEDULABLE, text)
    if job.origin is not Origin.POD_GROUP:
        job.note_status(status)
        # Only the conditions of its pods show what was reported before.
        is_new = bool(job.index.pending) and bool(changes)
    # A job that is left out was reported already.
    if is_new and session.cache.cool_downs.why_cooling(job.id, session.now_ns) is None:
        record_waiting(session, job, text)
    return changes


def phase_of(job: Job, *, unschedulable: bool) -> PodGroupPhase:
    """Finished tasks do not count: a job that is done is pending again."""
    if unschedulable and job.index.count(TaskStatus.RUNNING):
        return PodGroupPhase.UNKNOWN
    minimum = job.group.min_member if job.group else 0
    enough = job.index.allocated_count >= minimum
    return PodGroupPhase.RUNNING if enough else PodGroupPhase.PENDING
