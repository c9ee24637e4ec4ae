"""The allocated amounts in the statuses of queues."""

from __future__ import annotations

from pumice.core.cache.claimed_devices import ClaimedAmounts
from pumice.core.decisions import QueueStatusChanged, StatusChange
from pumice.core.model.resources import Resources
from pumice.core.model.status import HOLDS_RESOURCES
from pumice.core.session.session import Session

ROOT_QUEUE = "root"


def queue_statuses(session: Session) -> list[StatusChange]:
    allocated = {name: Resources() for name in session.queues}
    for queue_name, own in _held_by_queue(session).items():
        for name in _with_ancestors(session, queue_name):
            allocated[name].add(own)
    for name, claimed in _claimed_by_queue(session).items():
        allocated[name].scalars.update({n: v for n, v in claimed.amounts.items() if v})
    changes: list[StatusChange] = []
    for name, queue in session.queues.items():
        amounts = tuple((n, int(v)) for n, v in allocated[name].items() if v)
        if amounts != tuple(item for item in _sorted_amounts(queue.allocated) if item[1]):
            changes.append(QueueStatusChanged(name, queue.uid, amounts))
    return changes


def _held_by_queue(session: Session) -> dict[str, Resources]:
    """What the jobs of each queue hold now: what they held at the beginning, and what moved."""
    totals = session.totals
    by_queue = {}
    for name in totals.queues():
        contribution = totals.of(name)
        if contribution is not None:
            by_queue[name] = contribution.allocated.clone()
    for job_id in sorted(session.moves.touched_jobs):
        job = session.jobs[job_id]
        own = by_queue.get(job.queue)
        if own is None:
            own = by_queue[job.queue] = Resources()
        own.add(job.index.allocated).add_times(totals.allocated_of(job_id), -1)
    return by_queue


def _claimed_by_queue(session: Session) -> dict[str, ClaimedAmounts]:
    """What claims of tasks count for, in their queues and all above them."""
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


def _sorted_amounts(amounts: tuple[tuple[str, int], ...]) -> list[tuple[str, int]]:
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
