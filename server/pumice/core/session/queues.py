"""What queues hold, deserve and may hold during a session."""

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

    def __init__(
        self, queue: Queue, contribution: Contribution | None, real_capability: Resources
    ) -> None:
        contribution = contribution or Contribution.of_queue()
        self.queue = queue
        self.name = queue.name
        self.allocated = contribution.allocated.clone()
        self.request = contribution.request
        self.inqueue = contribution.inqueue.clone()
        self.elastic = contribution.elastic
        self.guarantee = Resources.of(queue.guarantee)
        self.deserved = Resources()
        # The capability, without resources that are guaranteed to other queues.
        self.real_capability = real_capability
        self._share: float | None = None

    @property
    def share(self) -> float:
        """The dominant share of its allocated resources in its deserved resources."""
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
        """Counts ``count`` placed tasks with this request; -1: one removed task."""
        self.allocated.change(request, count)
        self._share = None

    def names_above_capability(self, minimum: Resources) -> list[str]:
        """The resources of which the queue would exceed its capability with a job of this minimum.

        Resources that jobs hold above their minima do not count, because they can be reclaimed.
        """
        future = minimum.clone().add(self.allocated).add(self.inqueue).subtract(self.elastic)
        return future.names_above_for(self.real_capability, minimum)


class RealCapabilities:
    """The upper limits of queues without a hierarchy."""

    def __init__(self, total: Resources, queues: Iterable[Queue]) -> None:
        guaranteed = Resources()
        for queue in queues:
            guaranteed.add(Resources.of(queue.guarantee))
        self._unguaranteed = total.surplus_over(guaranteed)

    def of(self, queue: Queue) -> Resources:
        """The queue's capability, without resources that are guaranteed to other queues."""
        result = self._unguaranteed.clone().add(Resources.of(queue.guarantee))
        if queue.capability:
            # Cpu and memory that the capability does not name have no limit.
            capability = inherit(Resources.of(queue.capability), Resources(UNLIMITED, UNLIMITED))
            result.lower_to(capability, missing_is_zero=False)
        return result


def inherit(capability: Resources, parent: Resources) -> Resources:
    """Adds resources that a capability does not name, with the limits of the parent's capability."""
    if capability.milli_cpu <= 0:
        capability.milli_cpu = parent.milli_cpu
    if capability.memory <= 0:
        capability.memory = parent.memory
    for name, amount in parent.scalars.items():
        capability.scalars.setdefault(name, amount)
    return capability


A = TypeVar("A", bound=QueueAccount)
# Returns what a queue holds, or would hold in a simulation.
Held = Callable[[QueueAccount], Resources]


def flat_accounts(session: Session, make: type[A]) -> dict[str, A]:
    """Accounts of the queues that have jobs, without a hierarchy."""
    capabilities = RealCapabilities(session.total, session.queues.values())
    found = [(session.queues[name], session.totals.of(name)) for name in session.totals.queues()]
    return {queue.name: make(queue, held, capabilities.of(queue)) for queue, held in found}


def request_of(tasks: Iterable[Task]) -> Resources:
    """The sum of the requests of some tasks."""
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
        """Whether the queue and its ancestors may take the task beside what they hold."""
        account = self._by_queue.get(queue.name)
        if account is None or not account.takes_jobs:
            return False
        return all(held_by(a).has_room_for(task.request, a.limit) for a in account.lineage)

    # Admission.

    def enqueueable(self, job: Job) -> int:
        """Rejects a job if its queue is not open, or if its minimum exceeds a queue's capability."""
        account = self.of_open(self._session.queue_of(job))
        if account is None:
            reason = Reason(self._author, ReasonCode.QUEUE_NOT_OPEN, subjects=(job.queue,))
            self._session.explain(job, reason)
            return REJECT
        if job.min_resources is not None:
            for level in account.lineage:
                if insufficient := level.names_above_capability(job.min_resources):
                    return self.reject(job, insufficient)
        return PERMIT

    def reject(self, job: Job, insufficient: Sequence[str], *limits: QueueLimit) -> int:
        """Rejects a job because the queue has too little of some resources."""
        session, names = self._session, tuple(insufficient)
        text = ", ".join(f"insufficient {name}" for name in names)
        session.record_event(job, "Unschedulable", f"queue resource quota insufficient: {text}")
        reason = Reason(self._author, ReasonCode.QUEUE_QUOTA, subjects=names, limits=limits)
        session.explain(job, reason)
        return REJECT

    def admit(self, job: Job) -> None:
        """Counts the minimum of a job that was admitted."""
        account = self._by_queue.get(job.queue)
        if account is not None and job.min_resources is not None:
            minimum = job.without_gated(job.min_resources)
            for level in account.lineage:
                level.inqueue.add(minimum)


class QueueSimulation(Simulation):
    """What queues would hold without some tasks; whether a queue is open has no effect.

    ``accounts_of`` returns the queues that a task counts in, and ``has_room`` whether a queue may
    take a task.
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
