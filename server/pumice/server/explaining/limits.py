"""Which limit of which queue is in the way of a job or pod, and by how much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.model.reasons import QueueLimit
from pumice.core.model.resources import Resources
from pumice.core.plugins.capacity.accounts import CapacityAccount
from pumice.core.session.queues import QueueAccount

Limits = tuple[QueueLimit, ...]


@dataclass(frozen=True, slots=True)
class LimitsMet:
    """What a job and one of its pods would run into; nothing where there is room."""

    # When the job is to be let in.
    let_in: Limits = ()
    # When the pod is to be placed, and when others are to be evicted for it.
    place: Limits = ()
    reclaim: Limits = ()


def limits_met(accounts: Mapping[str, QueueAccount], job: Job, task: Task | None) -> LimitsMet:
    """As queues stand in a session; the same comparisons as their plugins make."""
    account = accounts.get(job.queue)
    if account is None:
        return LimitsMet()
    let_in = _let_in(account, job.min_resources) if job.is_pending and job.min_resources else ()
    if task is None:
        return LimitsMet(let_in)
    place = _place(account, task.request)
    return LimitsMet(let_in, place, place or _within_deserved(account, task.request))


def _let_in(account: QueueAccount, minimum: Resources) -> Limits:
    for level in _lineage(account):
        names = level.names_over_ceiling(minimum)
        if names:
            # What jobs hold above their minima could be taken back.
            used = level.allocated.clone().add(level.inqueue).subtract(level.elastic)
            return _limits(level, names, minimum, used, level.real_capability)
    return ()


def _place(account: QueueAccount, request: Resources) -> Limits:
    for level in _lineage(account):
        is_capacity = isinstance(level, CapacityAccount)
        allowed = level.real_capability if is_capacity else level.deserved
        names = level.allocated.clone().add(request).names_above_for(allowed, request)
        if names:
            return _limits(level, names, request, level.allocated, allowed)
    return ()


def _within_deserved(account: QueueAccount, request: Resources) -> Limits:
    names = account.allocated.clone().add(request).names_above_for(account.deserved, request)
    return _limits(account, names, request, account.allocated, account.deserved)


def _lineage(account: QueueAccount) -> tuple[QueueAccount, ...]:
    """The queue itself, then those above it whose limits count too."""
    return account.lineage if isinstance(account, CapacityAccount) else (account,)


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
