"""What a session writes at its end: phases, conditions, messages; only what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from operator import attrgetter

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.decisions import (
    Event,
    PodConditionChanged,
    PodGroupStatusChanged,
    QueueStatusChanged,
    StatusChange,
    Wait,
)
from pumice.core.model.group import PodGroupCondition, PodGroupPhase, PodGroupStatus
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.resources import Resources
from pumice.core.model.sentences import added_text, job_text
from pumice.core.model.status import TaskStatus
from pumice.core.session.session import Session

ROOT_QUEUE = "root"
UNSCHEDULABLE = "Unschedulable"
SCHEDULED = "Scheduled"
# Names of their own: Python 3.11 is slow to find members of enumerations.
_ALLOCATED, _PENDING, _PIPELINED = (
    TaskStatus.ALLOCATED,
    TaskStatus.PENDING,
    TaskStatus.PIPELINED,
)
_RELEASING = TaskStatus.RELEASING
_RUNNING, _SUCCEEDED, _FAILED = TaskStatus.RUNNING, TaskStatus.SUCCEEDED, TaskStatus.FAILED
_INQUEUE = PodGroupPhase.INQUEUE
_NOT_PLACED = (_ALLOCATED, _PENDING, _PIPELINED)
_WAITING_PHASES = (PodGroupPhase.UNKNOWN, PodGroupPhase.PENDING, _INQUEUE)


def close(session: Session) -> list[StatusChange]:
    """The statuses that differ from what the cluster holds."""
    changes: list[StatusChange] = []
    closed = 0
    for job in session.concerned_jobs():
        if is_unchanged(session, job) and not _has_news(session, job):
            continue
        closed += 1
        changes += _close_job(session, job)
    if closed:
        session.count("jobs_closed", closed)
    changes += _queue_statuses(session)
    return changes


def note_closed(session: Session, jobs: Iterable[Job], touched: set[str]) -> None:
    """Remembers what the jobs were closed with, and forgets what does not outlast the session."""
    for job in jobs:
        job.closed_text = _added_text(session, job)
        job.closed_errors, job.fit_errors = job.fit_errors, {}
        job.closed_version = job.version
        if job.id in touched:
            job.closed_errors = None
            for task in job.index:
                task.last_transaction = None


def events_of(session: Session, statuses: Iterable[StatusChange]) -> tuple[Event, ...]:
    """The events of a session.

    A plugin records why it holds a job back in every session. Such an event is reported only
    together with a change of the job's status, so that neither the next session nor a restarted
    core repeats it.
    """
    changed = {s.uid for s in statuses if isinstance(s, PodGroupStatusChanged)}
    return tuple([e for e in session.events if not _is_repeatable(e) or e.uid in changed])


def _is_repeatable(event: Event) -> bool:
    return event.kind == "PodGroup" and event.reason == UNSCHEDULABLE and not event.warning


def waits_of(session: Session) -> tuple[Wait, ...]:
    """Why jobs wait, those included that no session looks at because their queue is not there."""
    found = {id_: Wait(id_, tuple(reasons)) for id_, reasons in session.reasons.items()}
    found |= session.waiting.room.waits
    if len(session.jobs) < len(session.cache.jobs):
        for id_, job in session.cache.jobs.items():
            if job.group is None or job.queue in session.queues:
                continue
            if job.index.pending or not len(job.index):
                missing = Reason("core", ReasonCode.QUEUE_MISSING, subjects=(job.queue,))
                found[id_] = Wait(id_, (missing,))
    return tuple([found[id_] for id_ in sorted(found)])


def is_quiet(job: Job, touched: set[str]) -> bool:
    """Nothing happened to the job since its status was last written, and nothing is expected."""
    return job.closed_version == job.version and job.id not in touched and not job.index.pending


def is_unchanged(session: Session, job: Job) -> bool:
    """Nothing happened to the job since its status was last written, and nothing new was found."""
    if job.closed_version != job.version or job.id in session.moves.touched_jobs:
        return False
    if job.closed_text != _added_text(session, job):
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
    index, held_back = job.index, _why_not_let_in(session, job)
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
    text = wait_text(session, job) if waiting or status.phase in _WAITING_PHASES else ""
    if changed:
        _tell(session, job, status.phase, held_back or text)
    for task in waiting:
        change = _pod_condition(session, job, task, text)
        if change is not None:
            changes.append(change)
    return changes


def differs(new: PodGroupStatus, old: PodGroupStatus) -> bool:
    """Transition times and ids never count: every session would write."""
    if _counts(new) != _counts(old) or len(new.conditions) != len(old.conditions):
        return True
    for mine, other in zip(new.conditions, old.conditions, strict=True):
        if mine is not other and _said(mine) != _said(other):
            return True
    return False


_counts = attrgetter("phase", "running", "succeeded", "failed")
_said = attrgetter("type", "status", "reason", "message")


def is_found_unschedulable(job: Job, conditions: Iterable[PodGroupCondition]) -> bool:
    """Whether this session found the job unschedulable.

    Only a condition that the session itself has set counts, never one that the cluster stores.
    """
    stored = job.status.conditions
    return any(
        c.type == UNSCHEDULABLE and c.status == "True" and not any(c is s for s in stored)
        for c in conditions
    )


def _tell(session: Session, job: Job, phase: PodGroupPhase, text: str) -> None:
    """Records an event about a status that changed, unless the stored condition says the same."""
    if phase not in _WAITING_PHASES:
        session.tell(job, SCHEDULED, "pod group is ready")
    elif is_shown(job, text):
        return
    elif not len(job.index):
        # A job that is let in has no pods until its controller creates them.
        if phase is not _INQUEUE:
            session.tell(job, UNSCHEDULABLE, text, warning=True)
    else:
        pending = job.index.count(_PENDING)
        message = f"{pending}/{len(job.index)} tasks in gang unschedulable: {text}"
        session.tell(job, UNSCHEDULABLE, message, warning=True)


def is_shown(job: Job, text: str) -> bool:
    """Whether a waiting job's stored condition already ends with this text."""
    return job.status.phase in _WAITING_PHASES and any(
        c.type == UNSCHEDULABLE and (c.message == text or c.message.endswith(f": {text}"))
        for c in job.status.conditions
    )


def _has_news(session: Session, job: Job) -> bool:
    """Whether there is something new to write about a job that nothing happened to."""
    if job.id in session.conditions:
        return True
    held_back = _why_not_let_in(session, job)
    return bool(held_back) and not is_shown(job, held_back)


def _why_not_let_in(session: Session, job: Job) -> str:
    """Why a job without pods is not let in: no condition of a plugin says so."""
    if len(job.index) or not job.is_pending:
        return ""
    return job_text(session.reasons.get(job.id, ()))


def wait_text(session: Session, job: Job) -> str:
    """The sentence that a job's conditions and events carry."""
    text, added = fit_text(job), _added_text(session, job)
    return f"{text}; {added}" if added else text


def _added_text(session: Session, job: Job) -> str:
    reasons = session.reasons.get(job.id)
    return added_text(reasons) if reasons else ""


def phase_of(job: Job, *, unschedulable: bool) -> PodGroupPhase:
    index = job.index
    if unschedulable and index.count(_RUNNING):
        return PodGroupPhase.UNKNOWN
    minimum = job.group.min_member if job.group else 0
    scheduled = index.scheduled_count
    if index.with_status(_RELEASING):
        scheduled += index.releasing_scheduled_count
    if scheduled >= minimum:
        finished = index.count(_FAILED, _SUCCEEDED)
        return PodGroupPhase.COMPLETED if scheduled == finished else PodGroupPhase.RUNNING
    if job.phase is _INQUEUE:
        return _INQUEUE
    return PodGroupPhase.PENDING


def with_condition(
    conditions: tuple[PodGroupCondition, ...], new: PodGroupCondition
) -> tuple[PodGroupCondition, ...]:
    """One condition a type: the new one takes the old one's place."""
    if any(c.type == new.type for c in conditions):
        return tuple(new if c.type == new.type else c for c in conditions)
    return (*conditions, new)


def fit_text(job: Job) -> str:
    """How many tasks are in which status, and why those that wait do, in Volcano's words."""
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


def _pod_condition(session: Session, job: Job, task: Task, text: str) -> PodConditionChanged | None:
    # A gated pod has a condition of the API server's, which is left alone.
    if task.gated:
        return None
    reason, message, nominated = task_reason(job, task)
    told = tell_pod(session, task, reason, message or text, nominated)
    return told[0] if told else None


def tell_pod(
    session: Session, task: Task, reason: str, message: str, nominated: str = ""
) -> list[PodConditionChanged]:
    """The pod's condition and an event, unless both say so already."""
    pod = task.pod
    same = any(
        c.type == "PodScheduled" and (c.status, c.reason, c.message) == ("False", reason, message)
        for c in pod.conditions
    )
    if same and (not nominated or nominated == pod.nominated_node_name):
        return []
    if task.told == (reason, message, nominated):
        # It was said and is still being written.
        return []
    task.told = (reason, message, nominated)
    session.events.append(
        Event("Pod", pod.namespace, pod.name, pod.uid, True, "FailedScheduling", message)
    )
    return [PodConditionChanged(pod.namespace, pod.name, pod.uid, reason, message, nominated)]


def _queue_statuses(session: Session) -> list[StatusChange]:
    held = {name: Resources() for name in session.queues}
    for queue_name, own in _held_by_queue(session).items():
        for name in _with_ancestors(session, queue_name):
            held[name].add(own)
    changes: list[StatusChange] = []
    for name, queue in session.queues.items():
        amounts = tuple((n, int(v)) for n, v in held[name].items() if v)
        if amounts != tuple(item for item in sorted_amounts(queue.allocated) if item[1]):
            changes.append(QueueStatusChanged(name, queue.uid, amounts))
    return changes


def _held_by_queue(session: Session) -> dict[str, Resources]:
    """What the jobs of each queue hold now: what they held at the beginning, and what moved."""
    totals = session.totals
    held = {}
    for name in totals.queues():
        contribution = totals.of(name)
        if contribution is not None:
            held[name] = contribution.allocated.clone()
    for job_id in sorted(session.moves.touched_jobs):
        job = session.jobs[job_id]
        own = held.get(job.queue)
        if own is None:
            own = held[job.queue] = Resources()
        own.add(job.index.allocated).add_times(totals.allocated_of(job_id), -1)
    return held


def sorted_amounts(amounts: tuple[tuple[str, int], ...]) -> list[tuple[str, int]]:
    return [(name, int(value)) for name, value in Resources.of(amounts).items()]


def _with_ancestors(session: Session, name: str) -> list[str]:
    """The queue and all above it up to the root; without a root queue, the queue alone.

    A missing parent ends the walk, and so does a cycle: the reference crashes on both.
    """
    names = [name]
    while ROOT_QUEUE in session.queues and name in session.queues and name != ROOT_QUEUE:
        name = session.queues[name].parent or ROOT_QUEUE
        if name not in session.queues or name in names:
            break
        names.append(name)
    return names


def promises_of(session: Session, touched: Iterable[str]) -> dict[str, Resources]:
    """By node: what was promised to pods that wait for room which is being freed."""
    found: dict[str, Resources] = {}
    for id_ in touched:
        for task in session.jobs[id_].index.with_status(TaskStatus.PIPELINED).values():
            found.setdefault(task.node_name, Resources()).add(task.request)
    return found
