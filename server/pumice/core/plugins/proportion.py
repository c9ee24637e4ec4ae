"""proportion: divides the cluster among queues by weight.

A queue deserves no more than it requests. Queues with a smaller share of the deserved amount come
first, no queue exceeds its capability, and a queue below its deserved amount reclaims from queues
above theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pumice.core.cache.tasks import Task
from pumice.core.configuration import PluginOptions
from pumice.core.model.group import Queue
from pumice.core.model.resources import Resources
from pumice.core.session.hooks import PERMIT, EventHandler
from pumice.core.session.policies import AllocatableCount, SortKey, VictimRule
from pumice.core.session.queues import (
    QueueAccount,
    QueueAccounts,
    QueueSimulation,
    flat_accounts,
    request_of,
)
from pumice.core.session.session import Session


class ProportionPlugin:
    """Divides the cluster among queues by weight, up to each queue's request and capability."""

    name: ClassVar[str] = "proportion"
    required: ClassVar[bool] = True

    def __init__(self, options: PluginOptions) -> None:
        self._queues: dict[str, QueueAccount] = {}

    def open(self, session: Session) -> None:
        self._queues = session.accounts = self._divided(session)
        accounts = self._accounts = QueueAccounts(session, self.name, self._queues)
        hooks = session.hooks
        hooks.queue_order[self.name] = SortKey(
            lambda queue: (-queue.priority, self._queues[queue.name].share)
        )
        hooks.lasts[self.name] = lambda point: point in ("queue_order", "job_enqueueable")
        hooks.overused[self.name] = self._overused
        hooks.allocatable[self.name] = AllocatableCount(accounts.allowed_count)
        hooks.preemptive[self.name] = self._may_reclaim
        hooks.reclaimable[self.name] = VictimRule(
            self._above_deserved,
            mark=lambda job: not self._within_deserved(job.queue),
            by_queue=True,
        )
        hooks.simulation[self.name] = lambda _task, _row: QueueSimulation(
            accounts.lineage_of, accounts.has_room
        )
        hooks.job_enqueueable[self.name] = accounts.enqueueable
        hooks.job_enqueued[self.name] = accounts.admit
        hooks.handlers.append(EventHandler.counting(accounts.change))

    def _divided(self, session: Session) -> dict[str, QueueAccount]:
        """The accounts of the queues, with what each deserves; kube-batch's plugin overrides it."""
        accounts = flat_accounts(session, QueueAccount)
        divide(session.total, list(accounts.values()))
        return accounts

    def _overused(self, queue: Queue) -> bool:
        account = self._queues[queue.name]
        return account.deserved.less_equal(account.allocated)

    def _may_reclaim(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        account = self._accounts.of_open(queue)
        if account is None:
            return False
        return account.allocated.has_room_for(request_of(tasks), account.deserved)

    def _above_deserved(self, _task: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        """Victims until each queue has no more than it deserves; the last may bring it below that."""
        remaining: dict[str, Resources] = {}
        victims = []
        for task in candidates:
            account = self._accounts.of(task)
            if account is None:
                continue
            allocated = remaining.setdefault(account.name, account.allocated.clone())
            if not allocated.less_equal(account.deserved):
                allocated.subtract(task.request)
                victims.append(task)
        return victims, PERMIT

    def _within_deserved(self, queue: str) -> bool:
        account = self._queues.get(queue)
        return account is None or account.allocated.less_equal(account.deserved)


def divide(total: Resources, queues: list[QueueAccount]) -> None:
    """Divides the total by weight; what a queue does not request is divided among the others."""
    remaining = total.clone()
    met: set[str] = set()
    while weight := sum(account.queue.weight for account in queues if account.name not in met):
        before = remaining.clone()
        increased, decreased = Resources(), Resources()
        for account in queues:
            if account.name in met:
                continue
            old = account.deserved
            new = old.clone().add(remaining.clone().scale(account.queue.weight / weight))
            new.lower_to(account.real_capability, missing_is_zero=False)
            new.lower_to(account.request, missing_is_zero=True)
            new.raise_to(account.guarantee)
            if account.request.less_equal(new) or new == old:
                met.add(account.name)
            increased.add(new.surplus_over(old))
            decreased.add(old.surplus_over(new))
            account.deserved = new
        remaining = remaining.clone().add(decreased).surplus_over(increased)
        if remaining.is_empty() or remaining == before:
            break
