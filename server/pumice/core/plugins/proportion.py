"""proportion: divides the cluster among queues by weight.

A queue deserves no more than it requests. Queues are ordered by their share of the deserved amount,
kept below their capability, and reclaim from queues that have more than they deserve.
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
        """The accounts of the queues, with what each deserves."""
        accounts = flat_accounts(session, QueueAccount)
        divide(session.total, list(accounts.values()))
        return accounts

    def _overused(self, queue: Queue) -> bool:
        state = self._queues[queue.name]
        return state.deserved.less_equal(state.allocated)

    def _may_reclaim(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        state = self._accounts.of_open(queue)
        if state is None:
            return False
        return state.allocated.has_room_for(request_of(tasks), state.deserved)

    def _above_deserved(self, _task: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        """Victims until each queue is at its deserved amount; the last victim may bring it below."""
        left: dict[str, Resources] = {}
        victims = []
        for task in candidates:
            state = self._accounts.of(task)
            if state is None:
                continue
            allocated = left.setdefault(state.queue.name, state.allocated.clone())
            if not allocated.less_equal(state.deserved):
                allocated.subtract(task.request)
                victims.append(task)
        return victims, PERMIT

    def _within_deserved(self, queue: str) -> bool:
        state = self._queues.get(queue)
        return state is None or state.allocated.less_equal(state.deserved)


def divide(total: Resources, queues: list[QueueAccount]) -> None:
    """Divides the total by weight; what a queue does not request is divided among the others."""
    remaining = total.clone()
    met: set[str] = set()
    while weight := sum(state.queue.weight for state in queues if state.queue.name not in met):
        before = remaining.clone()
        increased, decreased = Resources(), Resources()
        for state in queues:
            if state.queue.name in met:
                continue
            old = state.deserved
            new = old.clone().add(remaining.clone().scale(state.queue.weight / weight))
            new.lower_to(state.real_capability, missing_is_zero=False)
            new.lower_to(state.request, missing_is_zero=True)
            new.raise_to(state.guarantee)
            if state.request.less_equal(new) or new == old:
                met.add(state.queue.name)
            increased.add(new.surplus_over(old))
            decreased.add(old.surplus_over(new))
            state.deserved = new
        remaining = remaining.clone().add(decreased).surplus_over(increased)
        if remaining.is_empty() or remaining == before:
            break
