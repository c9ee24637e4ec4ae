"""Statuses of PodGroups, pods and queues at the end of a session; only those that changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter

from pumice.core.cache.claimed_devices import ClaimedAmounts
from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import QUEUE_ALLOCATION_GATE, Task
from pumice.core.cache.totals import NOTHING
from pumice.core.decisions import (
    PodGateLifted,
    PodGroupStatusChanged,
    QueueStatusChanged,
    StatusChange,
)
from pumice.core.model.group import PodGroupCondition, PodGroupPhase, PodGroupStatus
from pumice.core.model.reasons import job_text
from pumice.core.model.resources import Resources
from pumice.core.model.status import (
    ALLOCATED,
    FAILED,
    HOLDS_RESOURCES,
    PENDING,
    PIPELINED,
    RELEASING,
    RUNNING,
    SUCCEEDED,
)
from pumice.core.session.closing.conditions import (
    SCHEDULED,
    UNSCHEDULABLE,
    is_found_unschedulable,
    pod_condition,
    reasons_text,
    unschedulable,
    wait_text,
    with_condition,
)
from pumice.core.session.outbox import jobs_without_queue
from pumice.core.session.session import Session

_INQUEUE = PodGroupPhase.INQUEUE
_NOT_PLACED = (ALLOCATED, PENDING, PIPELINED)
WAITING_PHASES = (PodGroupPhase.UNKNOWN, PodGroupPhase.PENDING, _INQUEUE)
ROOT_QUEUE = "root"


def close(session: Session) -> list[StatusChange]:
    """The statuses that differ from those that the cluster stores."""
    changes: list[StatusChange] = []
    closed = [
        job
        for job in session.concerned_jobs()
        if not is_unchanged(session, job) or _has_changes(session, job)
    ]
    if closed:
        session.count("jobs_closed", len(closed))
    for job in closed:
        changes += _close_job(session, job)
    changes += _without_queue(session)
    changes += queue_statuses(session)
    changes += session.shard.status_changes()
    changes += [
        PodGateLifted(task.pod.namespace, task.name, task.uid, QUEUE_ALLOCATION_GATE)
        for _, task in sorted(session.lifted_gates.items())
    ]
    return changes


def note_closed(session: Session, jobs: Iterable[Job], touched: set[str]) -> None:
    """Stores the reasons and errors of closed jobs for the next session, and clears session data."""
    for job in jobs:
        job.closed_text = reasons_text(session, job)
        job.closed_errors, job.fit_errors = job.fit_errors, {}
        job.closed_version = job.version
        if job.id in touched:
            job.closed_errors = None
            for task in job.index.tasks.values():
                task.last_transaction = None


def is_quiet(job: Job, touched: set[str]) -> bool:
    """Whether the job has not changed since its status was last written, and no task is pending."""
    return job.closed_version == job.version and job.id not in touched and not job.index.pending


def is_unchanged(session: Session, job: Job) -> bool:
    """Whether the job and its reasons have not changed since its status was last written."""
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
    problem = "" if job.index.tasks else _why_not_admitted(session, job)
    if problem:
        conditions = with_condition(conditions, unschedulable(session, "NotEnqueued", problem))
    phase = phase_of(job, unschedulable=is_found_unschedulable(job, conditions))
    status = status_with(job, phase, conditions)
    changed = differs(status, job.group.status)
    if changed:
        group = job.group
        changes.append(PodGroupStatusChanged(group.namespace, group.name, group.uid, status))
    waiting: list[Task] = []
    for state in _NOT_PLACED:
        if state in job.index.by_status:
            waiting += job.index.in_order(state)
    is_waiting = status.phase in WAITING_PHASES
    is_reported = changed and not (is_waiting and is_placed(job))
    text = wait_text(session, job) if waiting or (is_reported and is_waiting) else ""
    if is_reported:
        _record_status(session, job, status.phase, problem or text)
    for task in waiting:
        changes += pod_condition(session, job, task, text)
    return changes


def status_with(
    job: Job, phase: PodGroupPhase, conditions: tuple[PodGroupCondition, ...]
) -> PodGroupStatus:
    groups = job.index.by_status.get
    counts = (len(groups(RUNNING, ())), len(groups(SUCCEEDED, ())), len(groups(FAILED, ())))
    return PodGroupStatus(phase, *counts, conditions)


def differs(new: PodGroupStatus, old: PodGroupStatus) -> bool:
    """Whether two statuses differ; transition times and ids, which always do, are ignored."""
    if _counts(new) != _counts(old) or len(new.conditions) != len(old.conditions):
        return True
    for one, other in zip(new.conditions, old.conditions, strict=True):
        if one is not other and _content(one) != _content(other):
            return True
    return False


_counts = attrgetter("phase", "running", "succeeded", "failed")
_content = attrgetter("type", "status", "reason", "message")


def _record_status(session: Session, job: Job, phase: PodGroupPhase, text: str) -> None:
    """Records an event about a changed status, unless the stored condition has the same text."""
    if phase not in WAITING_PHASES:
        session.record_event(job, SCHEDULED, "pod group is ready")
    elif is_shown(job, text):
        return
    elif not job.index.tasks:
        # An admitted job has no pods until its controller creates them.
        if phase is not _INQUEUE:
            session.record_event(job, UNSCHEDULABLE, text, warning=True)
    else:
        record_waiting(session, job, text)


def record_waiting(session: Session, job: Job, text: str) -> None:
    """Records the event of a job with pods that wait."""
    message = f"{len(job.index.pending)}/{len(job.index)} tasks in gang unschedulable: {text}"
    session.record_event(job, UNSCHEDULABLE, message, warning=True)


def is_placed(job: Job) -> bool:
    """Whether the gang is placed; its phase changes when its binds are confirmed.

    Volcano wrongly reports such a gang as unschedulable.
    """
    return bool(job.index.tasks) and job.index.ready_count >= job.min_available


def is_shown(job: Job, text: str) -> bool:
    """Whether a waiting job's stored condition already ends with this text."""
    return job.status.phase in WAITING_PHASES and any(
        c.type == UNSCHEDULABLE and (c.message == text or c.message.endswith(f": {text}"))
        for c in job.status.conditions
    )


def _has_changes(session: Session, job: Job) -> bool:
    """Whether an unchanged job has a new condition."""
    if job.id in session.conditions:
        return True
    problem = _why_not_admitted(session, job)
    return bool(problem) and not is_shown(job, problem)


def _why_not_admitted(session: Session, job: Job) -> str:
    """Why a job without pods is not admitted, for which plugins set no condition; empty otherwise."""
    if job.index.tasks or not job.is_pending:
        return ""
    if session.queue_fault:
        return session.queue_fault
    return job_text(session.reasons.get(job.id, ()))


def _without_queue(session: Session) -> list[StatusChange]:
    """Conditions of waiting jobs that are not in the session, because their queue does not exist."""
    changes: list[StatusChange] = []
    for job, reason in jobs_without_queue(session):
        text = job_text((reason,))
        if job.group is None or is_shown(job, text):
            continue
        group, old = job.group, job.group.status
        condition = unschedulable(session, "QueueNotFound", text)
        status = replace(old, conditions=with_condition(old.conditions, condition))
        if differs(status, old):
            changes.append(PodGroupStatusChanged(group.namespace, group.name, group.uid, status))
            session.record_event(job, UNSCHEDULABLE, text, warning=True)
    return changes


def phase_of(job: Job, *, unschedulable: bool) -> PodGroupPhase:
    """The phase of a PodGroup when a session ends."""
    index = job.index
    if unschedulable and index.count(RUNNING):
        return PodGroupPhase.UNKNOWN
    minimum = job.group.min_member if job.group else 0
    scheduled = index.scheduled_count
    if RELEASING in index.by_status:
        scheduled += index.releasing_scheduled_count
    if scheduled >= minimum:
        finished = index.count(FAILED, SUCCEEDED)
        return PodGroupPhase.COMPLETED if scheduled == finished else PodGroupPhase.RUNNING
    if job.phase is _INQUEUE:
        return _INQUEUE
    return PodGroupPhase.PENDING


def queue_statuses(session: Session) -> list[StatusChange]:
    """The statuses of queues in which the allocated amounts differ."""
    allocated = {name: Resources() for name in session.queues}
    for queue_name, own in _held_by_queue(session).items():
        for name in _with_ancestors(session, queue_name):
            allocated[name].add(own)
    for name, claimed in _claimed_by_queue(session).items():
        allocated[name].scalars.update({n: v for n, v in claimed.amounts.items() if v})
    changes: list[StatusChange] = []
    for name, queue in session.queues.items():
        amounts = _amounts(allocated[name])
        if amounts != _amounts(Resources.of(queue.allocated)):
            changes.append(QueueStatusChanged(name, queue.uid, amounts))
    return changes


def _amounts(resources: Resources) -> tuple[tuple[str, int], ...]:
    return tuple((name, whole) for name, value in resources.items() if (whole := int(value)))


def _held_by_queue(session: Session) -> dict[str, Resources]:
    """What the jobs of each queue hold now: the sums of the beginning, with the jobs that changed."""
    totals = session.totals
    by_queue = {}
    for name in totals.queues():
        contribution = totals.of(name)
        if contribution is not None:
            by_queue[name] = contribution.allocated.clone()
    # Amounts are whole numbers, so that the order of additions has no effect.
    for job_id in session.moves.touched_jobs:
        job = session.jobs[job_id]
        held = by_queue.get(job.queue)
        if held is None:
            held = by_queue[job.queue] = Resources()
        held.add(job.index.allocated)
        before = totals.allocated_of(job_id)
        if before is not NOTHING:
            held.add_times(before, -1)
    return by_queue


def _claimed_by_queue(session: Session) -> dict[str, ClaimedAmounts]:
    """The claimed devices of each queue and its descendants."""
    devices = session.cache.devices
    claimed: dict[str, ClaimedAmounts] = {}
    for task in devices.users.values():
        job = session.jobs.get(task.job_id)
        if job is None or task.status not in HOLDS_RESOURCES:
            continue
        claims = devices.claims_of(task)
        for name in _with_ancestors(session, job.queue):
            claimed.setdefault(name, ClaimedAmounts()).add(claims)
    return claimed


def _with_ancestors(session: Session, name: str) -> list[str]:
    """The queue and its ancestors up to the root; without a root queue, the queue alone.

    A missing parent or a cycle ends the list; Volcano crashes on both.
    """
    names = [name]
    while ROOT_QUEUE in session.queues and name in session.queues and name != ROOT_QUEUE:
        name = session.queues[name].parent or ROOT_QUEUE
        if name not in session.queues or name in names:
            break
        names.append(name)
    return names
