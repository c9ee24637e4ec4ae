"""Shares and amounts of queues during a session."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.cache.totals import Contribution
from pumice.core.model.group import Queue, QueueState
from pumice.core.model.memo import Memo
from pumice.core.model.reasons import QueueLimit, Reason, ReasonCode
from pumice.core.model.resources import Resources
from pumice.core.session.hooks import PERMIT, REJECT, Simulation

if TYPE_CHECKING:
    from pumice.core.session.session import Session

UNLIMITED = math.inf


class QueueAccount:
    """What a queue holds, requests and deserves, and its share."""

    def __init__(self, queue: Queue, contribution: Contribution | None, ceiling: Resources) -> None:
        contribution = contribution or Contribution.of_queue()
        self.queue = queue
        self.name = queue.name
        self.allocated = contribution.allocated.clone()
        self.request = contribution.request
        self.inqueue = contribution.inqueue.clone()
        self.elastic = contribution.elastic
        self.guarantee = Resources.of(queue.guarantee)
        self.deserved = Resources()
        # No more than this, whatever the others leave over.
        self.real_capability = ceiling
        self._share: float | None = None

    @property
    def share(self) -> float:
        """The dominant share of what it holds in what it deserves."""
        if self._share is None:
            self._share = self.share_now()
        return self._share

    def share_now(self) -> float:
        return self.allocated.dominant_share(self.deserved)

    @property
    def lineage(self) -> tuple[QueueAccount, ...]:
        """The queues whose limits count for its jobs: itself, and its ancestors in a tree."""
        return (self,)

    @property
    def limit(self) -> Resources:
        """The most that its tasks may hold."""
        return self.deserved

    @property
    def takes_jobs(self) -> bool:
        return True

    def change(self, request: Resources, count: int) -> None:
        """So many tasks with the request were placed; -1: one was removed."""
        self.allocated.change(request, count)
        self._share = None

    def names_over_ceiling(self, minimum: Resources) -> list[str]:
        """The resources in which a job with this minimum would exceed the limit.

        What jobs hold above their minima does not count: it could be taken back.
        """
        wanted = minimum.clone().add(self.allocated).add(self.inqueue).subtract(self.elastic)
        return wanted.names_above_for(self.real_capability, minimum)


class Ceilings:
    """The upper limits of queues without a hierarchy."""

    def __init__(self, total: Resources, queues: Iterable[Queue]) -> None:
        guaranteed = Resources()
        for queue in queues:
            guaranteed.add(Resources.of(queue.guarantee))
        self._unguaranteed = total.surplus_over(guaranteed)

    def of(self, queue: Queue) -> Resources:
        """What is guaranteed to nobody else, within the queue's capability."""
        ceiling = self._unguaranteed.clone().add(Resources.of(queue.guarantee))
        if queue.capability:
            # Cpu and memory that it does not name have no limit.
            capability = inherit(Resources.of(queue.capability), Resources(UNLIMITED, UNLIMITED))
            ceiling.lower_to(capability, missing_is_zero=False)
        return ceiling


def inherit(capability: Resources, above: Resources) -> Resources:
    """A capability inherits what it does not name from the one above it."""
    if capability.milli_cpu <= 0:
        capability.milli_cpu = above.milli_cpu
    if capability.memory <= 0:
        capability.memory = above.memory
    for name, amount in above.scalars.items():
        capability.scalars.setdefault(name, amount)
    return capability


A = TypeVar("A", bound=QueueAccount)
# What a queue holds, or would hold.
Held = Callable[[QueueAccount], Resources]


def flat_accounts(session: Session, make: type[A]) -> dict[str, A]:
    """Accounts of the queues that have jobs, without a hierarchy."""
    ceilings = Ceilings(session.total, session.queues.values())
    found = [(session.queues[name], session.totals.of(name)) for name in session.totals.queues()]
    return {queue.name: make(queue, held, ceilings.of(queue)) for queue, held in found}


def request_of(tasks: Iterable[Task]) -> Resources:
    """What some tasks ask for together."""
    total = Resources()
    for task in tasks:
        total.add(task.request)
    return total


class QueueAccounts(Generic[A]):
    """The accounts of a session by queue, for the plugin that divides the cluster among queues."""

    def __init__(self, session: Session, author: str, accounts: Mapping[str, A]) -> None:
        self._session, self._author = session, author
        self._by_queue = accounts

    def of_queue(self, name: str) -> A | None:
        return self._by_queue.get(name)

    def of(self, task: Task) -> A | None:
        job = self._session.jobs.get(task.job_id)
        return None if job is None else self._by_queue.get(job.queue)

    def lineage_of(self, task: Task) -> tuple[QueueAccount, ...]:
        account = self.of(task)
        return () if account is None else account.lineage

    def change(self, tasks: Sequence[Task], sign: int) -> None:
        """Counts tasks of one class and job that are placed, or one that is removed."""
        account = self.of(tasks[0])
        if account is not None:
            account.change(tasks[0].request, sign * len(tasks))

    # Allocation.

    def of_open(self, queue: Queue) -> A | None:
        """The account of a queue that may take tasks now; None: it may not."""
        account = self._by_queue.get(queue.name)
        is_open = queue.state is QueueState.OPEN and account is not None and account.takes_jobs
        return account if is_open else None

    def allowed_count(self, queue: Queue, task: Task, count: int) -> int:
        """How many of ``count`` tasks like this one the queue may take."""
        account = self.of_open(queue)
        if account is None:
            return 0
        request = task.request
        for level in account.lineage:
            count = level.allocated.times_within(request, level.limit, count)
        return count

    def has_room(self, queue: Queue, task: Task, held_by: Held) -> bool:
        """Whether the queue and all above it may take the task, on top of what they hold."""
        account = self._by_queue.get(queue.name)
        if account is None or not account.takes_jobs:
            return False
        return all(held_by(a).has_room_for(task.request, a.limit) for a in account.lineage)

    # Admission.

    def enqueueable(self, job: Job) -> int:
        """Rejects a job whose queue is not open, or whose minimum would exceed a ceiling."""
        account = self.of_open(self._session.queue_of(job))
        if account is not None:
            return self.vote(job, account)
        reason = Reason(self._author, ReasonCode.QUEUE_NOT_OPEN, subjects=(job.queue,))
        self._session.explain(job, reason)
        return REJECT

    def vote(self, job: Job, account: QueueAccount) -> int:
        """Rejects a job whose minimum would exceed the ceiling of a queue, and says why."""
        minimum = job.min_resources
        if minimum is None:
            return PERMIT
        for level in account.lineage:
            above = level.names_over_ceiling(minimum)
            if above:
                return self.reject(job, above)
        return PERMIT

    def reject(self, job: Job, above: Sequence[str], *limits: QueueLimit) -> int:
        session, names = self._session, ", ".join(f"insufficient {name}" for name in above)
        session.record_event(job, "Unschedulable", f"queue resource quota insufficient: {names}")
        reason = Reason(self._author, ReasonCode.QUEUE_QUOTA, subjects=tuple(above), limits=limits)
        session.explain(job, reason)
        return REJECT

    def admit(self, job: Job) -> None:
        """Counts the minimum of a job that was admitted."""
        account = self._by_queue.get(job.queue)
        if account is not None and job.min_resources is not None:
            promised = job.without_gated(job.min_resources)
            for level in account.lineage:
                level.inqueue.add(promised)


class QueueSimulation(Simulation):
    """What queues would hold without some tasks; whether they are open is not asked again.

    ``accounts_of`` gives the queues that a task counts in, and ``has_room`` says whether a queue
    may take a task.
    """

    def __init__(
        self,
        accounts_of: Callable[[Task], Sequence[QueueAccount]],
        has_room: Callable[[Queue, Task, Held], bool],
    ) -> None:
        self._accounts_of = accounts_of
        self._has_room = has_room
        self._held = Memo[QueueAccount, Resources](lambda account: account.allocated.clone())

    def _change(self, task: Task, sign: int) -> str | None:
        accounts = self._accounts_of(task)
        for account in accounts:
            self._held[account].change(task.request, sign)
        return None if accounts else f"the queue of {task.key} is not known"

    def remove(self, task: Task) -> str | None:
        return self._change(task, -1)

    def add(self, task: Task) -> str | None:
        return self._change(task, 1)

    def is_allocatable(self, queue: Queue, task: Task) -> bool:
        return self._has_room(queue, task, self._held.__getitem__)
