"""Queue limits that a job or pod exceeds, with the amounts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.decisions import Wait
from pumice.core.engine import Engine
from pumice.core.model.reasons import QueueLimit, Reason, ReasonCode
from pumice.core.model.resources import Resources
from pumice.core.plugins.capacity.accounts import CapacityAccount
from pumice.core.session.queues import QueueAccount
from pumice.core.session.session import Session
from pumice.server.explaining.earlier_members import place_earlier_members

Limits = tuple[QueueLimit, ...]
# Plugins that refuse to admit a job because of its queue, and actions that reclaim.
_QUEUE_PLUGINS = frozenset({"proportion", "capacity"})
_RECLAIMING = frozenset({"reclaim", "gangreclaim"})
# Number of tasks that are placed before a task, to find the limit that the task exceeds.
_EARLIER_TASKS = 200


@dataclass(frozen=True, slots=True)
class ReachedLimits:
    """Queue limits that a job and one of its pods exceed; empty: none."""

    # On admission of the job.
    admit: Limits = ()
    # On placement of the pod, and on reclaim for the pod.
    place: Limits = ()
    reclaim: Limits = ()

    def of_reason(self, reason: Reason) -> Limits:
        """The limits that belong to a reason."""
        if reason.author in _QUEUE_PLUGINS:
            return self.admit
        return self.reclaim if reason.author in _RECLAIMING else self.place


def reached_limits(
    accounts: Mapping[str, QueueAccount], job: Job, task: Task | None
) -> ReachedLimits:
    """Compares in the same way as the queue plugins."""
    account = accounts.get(job.queue)
    if account is None:
        return ReachedLimits()
    admit = (
        _admission_limits(account, job.min_resources)
        if job.is_pending and job.min_resources
        else ()
    )
    if task is None:
        return ReachedLimits(admit)
    place = _placement_limits(account, task.request) or _device_limits(account, task)
    return ReachedLimits(admit, place, place or _reclaim_limits(account, task.request))


def with_limits(engine: Engine, waits: Sequence[Wait], now_ns: int) -> Sequence[Wait]:
    """The waits, with resources and amounts added to reasons about queue limits."""
    if not any(_lacks_limits(reason) for wait in waits for reason in wait.reasons):
        return waits
    return engine.inspect(
        lambda session: [_wait_with_limits(session, wait) for wait in waits], now_ns
    )


def _lacks_limits(reason: Reason) -> bool:
    return reason.code is ReasonCode.QUEUE_QUOTA and not reason.limits


def _wait_with_limits(session: Session, wait: Wait) -> Wait:
    job = session.jobs.get(wait.job)
    if job is None or job.queue not in session.queues:
        return wait
    tasks = {task.name: task for task in job.index.tasks.values()}
    # Tasks of one class share their request.
    by_request: dict[int, ReachedLimits] = {}
    reasons = []
    for reason in wait.reasons:
        if _lacks_limits(reason):
            task = tasks.get(reason.task)
            key = 0 if task is None else id(task.request)
            if key not in by_request:
                by_request[key] = _limits_after_others(session, job, task)
            reason = replace(reason, limits=by_request[key].of_reason(reason))  # noqa: PLW2901
        reasons.append(reason)
    return Wait(wait.job, tuple(reasons))


def _limits_after_others(session: Session, job: Job, task: Task | None) -> ReachedLimits:
    """The limits after the tasks that the session places before this one."""
    if task is None:
        return reached_limits(session.accounts, job, None)
    statement = session.statement()
    try:
        place_earlier_members(session, job, task, _EARLIER_TASKS, statement)
        return reached_limits(session.accounts, job, task)
    finally:
        statement.discard()


def _admission_limits(account: QueueAccount, minimum: Resources) -> Limits:
    for level in account.lineage:
        names = level.names_above_capability(minimum)
        if names:
            # Resources of jobs above their minimum can be reclaimed.
            used = level.allocated.clone().add(level.inqueue).subtract(level.elastic)
            return _limits(level, names, minimum, used, level.real_capability)
    return ()


def _placement_limits(account: QueueAccount, request: Resources) -> Limits:
    for level in account.lineage:
        names = level.allocated.clone().add(request).names_above_for(level.limit, request)
        if names:
            return _limits(level, names, request, level.allocated, level.limit)
    return ()


def _device_limits(account: QueueAccount, task: Task) -> Limits:
    limit = account.device_limit(task) if isinstance(account, CapacityAccount) else None
    return () if limit is None else (limit,)


def _reclaim_limits(account: QueueAccount, request: Resources) -> Limits:
    names = account.allocated.clone().add(request).names_above_for(account.deserved, request)
    return _limits(account, names, request, account.allocated, account.deserved)


def _limits(
    account: QueueAccount,
    names: Iterable[str],
    asked: Resources,
    used: Resources,
    allowed: Resources,
) -> Limits:
    return tuple(
        QueueLimit(
            account.name, name, int(asked.get(name)), int(used.get(name)), int(allowed.get(name))
        )
        for name in names
    )
