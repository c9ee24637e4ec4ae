"""Queues with a deserved amount of their own, side by side or in a tree, and their reservations."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from pumice.core.cache.tasks import Task
from pumice.core.cache.totals import Contribution
from pumice.core.model.group import Queue
from pumice.core.model.reasons import QueueLimit
from pumice.core.model.resources import Resources
from pumice.core.session.queues import QueueAccount, flat_accounts
from pumice.core.session.session import Session


class CapacityAccount(QueueAccount):
    """A queue in a session, with its parent and children in the tree."""

    def __init__(self, queue: Queue, contribution: Contribution | None, ceiling: Resources) -> None:
        super().__init__(queue, contribution, ceiling)
        self.deserved = Resources.of(queue.deserved)
        self.capability = Resources.of(queue.capability)
        self.parent: CapacityAccount | None = None
        self.children: list[CapacityAccount] = []
        # The first limit on claimed devices that a task would exceed.
        self.device_limit: DeviceLimit = lambda _account, _task: None

    @property
    def limit(self) -> Resources:
        return self.real_capability

    @property
    def takes_jobs(self) -> bool:
        """Whether no queue is below it."""
        return not self.children

    # The tree does not change any more when these are first read.

    @cached_property
    def lineage(self) -> tuple[CapacityAccount, ...]:
        """The queue itself and its ancestors, the root last."""
        found = [self]
        while (above := found[-1].parent) is not None:
            found.append(above)
        return tuple(found)

    @cached_property
    def ancestors(self) -> tuple[CapacityAccount, ...]:
        """The ancestors, the root first."""
        return self.lineage[:0:-1]

    def share_now(self) -> float:
        """A queue that deserves nothing comes after all that have less than they deserve."""
        return 1.0 if self.deserved.is_empty() else super().share_now()

    # Placements count all the way up, but only the queue's own share follows: the shares of
    # those above it stay what they were when the session opened, as they do in Volcano.

    def change(self, request: Resources, count: int) -> None:
        super().change(request, count)
        for account in self.ancestors:
            account.allocated.change(request, count)

    def absorb(self, contribution: Contribution) -> None:
        """Adds what a queue below it, or its own jobs, hold and want."""
        self.allocated.add(contribution.allocated)
        self.request.add(contribution.request)
        self.inqueue.add(contribution.inqueue)
        self.elastic.add(contribution.elastic)


DeviceLimit = Callable[[CapacityAccount, Task], QueueLimit | None]


def common_level(left: CapacityAccount, right: CapacityAccount) -> int:
    """The depth up to which both have the same ancestors."""
    level = 0
    for index, (mine, other) in enumerate(zip(left.ancestors, right.ancestors, strict=False)):
        if mine is not other:
            break
        level = index
    return level


def compare_shares(left: CapacityAccount, right: CapacityAccount) -> int:
    """The smaller share first; of equals, the one that deserves something."""
    if left.share != right.share:
        return -1 if left.share < right.share else 1
    return int(left.deserved.is_empty()) - int(right.deserved.is_empty())


def unrelated_accounts(session: Session) -> dict[str, CapacityAccount]:
    """Accounts of queues without a tree."""
    accounts = flat_accounts(session, CapacityAccount)
    for account in accounts.values():
        account.deserved.lower_to(account.real_capability, missing_is_zero=False)
        account.deserved.raise_to(account.guarantee)
    return accounts


class GateReservations:
    """By queue: the requests of tasks whose gate was lifted; each counts against all other tasks."""

    def __init__(self) -> None:
        self._queue_of: dict[str, str] = {}
        self._sums: dict[str, Resources] = {}

    @classmethod
    def of(cls, session: Session) -> GateReservations:
        """Tasks that are pending, ask for the gate and no longer have it: they passed."""
        reservations = cls()
        for job in session.jobs.values():
            for task in job.index.pending.values():
                if not task.gated and task.wants_queue_admission:
                    reservations.add(job.queue, task)
        return reservations

    def add(self, queue: str, task: Task) -> None:
        if task.uid in self._queue_of:
            return
        self._queue_of[task.uid] = queue
        self._sums.setdefault(queue, Resources()).add(task.request)

    def remove(self, task: Task) -> None:
        queue = self._queue_of.pop(task.uid, None)
        if queue is not None:
            self._sums[queue].subtract(task.request)

    def for_others(self, queue: str, task: Task) -> Resources | None:
        """What is kept in the queue for tasks other than this one; None: nothing."""
        kept = self._sums.get(queue)
        if kept is None:
            return None
        if self._queue_of.get(task.uid) == queue:
            kept = kept.clone().subtract(task.request)
        return kept
