"""Accounts of queues, with or without a tree, and reservations for tasks whose gate was removed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from pumice.core.cache.tasks import Task
from pumice.core.cache.totals import Contribution
from pumice.core.model.group import Queue
from pumice.core.model.reasons import QueueLimit
from pumice.core.model.resources import CPU, MEMORY, Resources
from pumice.core.session.queues import UNLIMITED, QueueAccount, flat_accounts, inherit
from pumice.core.session.session import Session

ROOT = "root"


class CapacityAccount(QueueAccount):
    """The account of a queue in a session, with its parent and children in the tree."""

    def __init__(
        self, queue: Queue, contribution: Contribution | None, real_capability: Resources
    ) -> None:
        super().__init__(queue, contribution, real_capability)
        self.deserved = Resources.of(queue.deserved)
        self.capability = Resources.of(queue.capability)
        self.parent: CapacityAccount | None = None
        self.children: list[CapacityAccount] = []
        # Returns the first limit on claimed devices that a task would exceed.
        self.device_limit: Callable[[Task], QueueLimit | None] = lambda _task: None

    @property
    def limit(self) -> Resources:
        return self.real_capability

    @property
    def takes_jobs(self) -> bool:
        """Whether the queue has no children."""
        return not self.children

    # The next two are first read when the tree is complete.

    @cached_property
    def lineage(self) -> tuple[CapacityAccount, ...]:
        """The queue itself and its ancestors, the root last."""
        found = [self]
        while (parent := found[-1].parent) is not None:
            found.append(parent)
        return tuple(found)

    @cached_property
    def ancestors(self) -> tuple[CapacityAccount, ...]:
        """The ancestors, the root first."""
        return self.lineage[:0:-1]

    def share_now(self) -> float:
        """The share; a queue that deserves nothing comes after all queues below their deserved amount."""
        return 1.0 if self.deserved.is_empty() else super().share_now()

    def change(self, request: Resources, count: int) -> None:
        """Counts tasks for the queue and its ancestors.

        As in Volcano, the shares of the ancestors stay those of the start of the session.
        """
        super().change(request, count)
        for account in self.ancestors:
            account.allocated.change(request, count)

    def absorb(self, contribution: Contribution) -> None:
        """Adds what the jobs of the queue, or of a descendant, hold and request."""
        self.allocated.add(contribution.allocated)
        self.request.add(contribution.request)
        self.inqueue.add(contribution.inqueue)
        self.elastic.add(contribution.elastic)


def common_level(left: CapacityAccount, right: CapacityAccount) -> int:
    """The depth of the lowest common ancestor."""
    level = 0
    for depth, (one, other) in enumerate(zip(left.ancestors, right.ancestors, strict=False)):
        if one is not other:
            break
        level = depth
    return level


def compare_shares(left: CapacityAccount, right: CapacityAccount) -> int:
    """Orders the smaller share first; of equal shares, a queue that deserves something."""
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
    """Reservations, by queue, for tasks whose gate was removed; other tasks cannot use them."""

    def __init__(self) -> None:
        self._queue_of: dict[str, str] = {}
        self._sums: dict[str, Resources] = {}

    @classmethod
    def of(cls, session: Session) -> GateReservations:
        """Reservations for the pending tasks that want queue admission and are not gated any more."""
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
        """What the queue reserves for tasks other than this one; None: nothing."""
        reserved = self._sums.get(queue)
        if reserved is not None and self._queue_of.get(task.uid) == queue:
            reserved = reserved.clone().subtract(task.request)
        return reserved


def tree_accounts(session: Session) -> dict[str, CapacityAccount] | str:
    """The accounts of all queues as a tree; a text says why the tree cannot be used.

    A missing parent, a missing root or a job in a queue with children makes the whole tree unusable
    for the session. Queues in a cycle of parents have no path to the root: they and their descendants
    get nothing.
    """
    accounts = {
        name: CapacityAccount(queue, None, Resources()) for name, queue in session.queues.items()
    }
    if ROOT not in accounts:
        return _fault(ROOT, "it does not exist")
    for name, account in accounts.items():
        if name != ROOT:
            parent = account.queue.parent or ROOT
            if parent not in accounts:
                return _fault(name, f"its parent {parent} does not exist")
            account.parent = accounts[parent]
            accounts[parent].children.append(account)
    _break_cycles(accounts)
    for name in session.totals.queues():
        if children := accounts[name].children:
            return _fault(name, f"it has jobs and a child queue ({children[-1].name})")
        if (held := session.totals.of(name)) is not None:
            for account in accounts[name].lineage:
                account.absorb(held)
    _assign_amounts(accounts[ROOT], session)
    for account in accounts.values():
        # The first read computes and stores the share: that of an inner queue stays the same.
        _ = account.share
    return accounts


def _fault(queue: str, problem: str) -> str:
    return f"the queues do not form a tree: queue {queue}: {problem}, so nothing is scheduled"


def _break_cycles(accounts: dict[str, CapacityAccount]) -> None:
    """Removes one parent in every cycle, so that every path of parents ends."""
    checked: set[str] = set()
    for account in accounts.values():
        path: set[str] = set()
        current: CapacityAccount | None = account
        while current is not None and current.name not in checked and current.name not in path:
            path.add(current.name)
            current = current.parent
        if current is not None and current.name in path:
            current.parent = None
        checked |= path


def _assign_amounts(root: CapacityAccount, session: Session) -> None:
    if root.capability.is_empty():
        scalars = sorted(session.table.offering_nodes.keys() - {CPU, MEMORY})
        root.capability = Resources(UNLIMITED, UNLIMITED, dict.fromkeys(scalars, UNLIMITED))
    root.real_capability = root.capability
    waiting = [root]
    while waiting:
        account = waiting.pop()
        _assign_children(account)
        waiting += account.children


def _assign_children(parent: CapacityAccount) -> None:
    guaranteed, deserved = Resources(), Resources()
    for child in parent.children:
        child.deserved.raise_to(child.guarantee)
        deserved.add(child.deserved)
        guaranteed.add(child.guarantee)
        inherit(child.capability, parent.capability)
    if parent.name == ROOT:
        parent.guarantee, parent.deserved = guaranteed, deserved
    unguaranteed = parent.real_capability.surplus_over(guaranteed)
    for child in parent.children:
        child.real_capability = unguaranteed.clone().add(child.guarantee)
        child.real_capability.lower_to(child.capability, missing_is_zero=False)
