"""proportion, as in kube-batch: by weight alone, capped by the request of a queue."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.tasks import Task
from pumice.core.configuration import ArgumentSchema, PluginOptions
from pumice.core.kubebatch.plugins.drf import KubeBatchAccount
from pumice.core.kubebatch.tolerance import KUBE_BATCH_TOLERANCE, lesser
from pumice.core.model.group import Queue
from pumice.core.model.resources import Resources
from pumice.core.session.hooks import PERMIT, EventHandler
from pumice.core.session.session import Session


class KubeBatchProportionPlugin:
    """Divides the cluster among the queues that have jobs."""

    name: ClassVar[str] = "proportion"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema()

    def __init__(self, options: PluginOptions) -> None:
        self._queues: dict[str, KubeBatchAccount] = {}

    def open(self, session: Session) -> None:
        self._session = session
        for name in session.totals.queues():
            self._queues[name] = KubeBatchAccount(
                session.queues[name], session.totals.of(name), session.total
            )
        divide(session.total, list(self._queues.values()))
        session.accounts = {**self._queues}
        hooks = session.hooks
        hooks.queue_order[self.name] = self._queue_order
        hooks.overused[self.name] = self._overused
        hooks.reclaimable[self.name] = self._above_deserved
        hooks.handlers.append(EventHandler(self._allocated, self._deallocated))

    def _queue_order(self, left: Queue, right: Queue) -> int:
        mine, other = self._queues[left.name].share, self._queues[right.name].share
        return (mine > other) - (mine < other)

    def _overused(self, queue: Queue) -> bool:
        account = self._queues[queue.name]
        return KUBE_BATCH_TOLERANCE.is_at_most(account.deserved, account.allocated)

    def _above_deserved(self, _task: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        """Tasks without which a queue still has all that it deserves.

        A task that is not chosen counts as gone for the tasks after it, too.
        """
        left: dict[str, Resources] = {}
        victims = []
        for task in candidates:
            account = self._account_of(task)
            allocated = left.setdefault(account.name, account.allocated.clone())
            if KUBE_BATCH_TOLERANCE.is_less(allocated, task.request):
                continue
            allocated.subtract(task.request)
            if KUBE_BATCH_TOLERANCE.is_at_most(account.deserved, allocated):
                victims.append(task)
        return victims, PERMIT

    def _account_of(self, task: Task) -> KubeBatchAccount:
        return self._queues[self._session.jobs[task.job_id].queue]

    def _allocated(self, task: Task) -> None:
        self._account_of(task).take(task.request)

    def _deallocated(self, task: Task) -> None:
        self._account_of(task).give_back(task.request)


def divide(total: Resources, queues: list[KubeBatchAccount]) -> None:
    """Divides what is left by weight, until nothing is left or every queue is met.

    A queue is met when it requests less than its share in every dimension. Only then is its share
    reduced to its request.
    """
    remaining = total.clone()
    met: set[str] = set()
    while weight := sum(a.queue.weight for a in queues if a.name not in met):
        more, less = Resources(), Resources()
        for account in queues:
            if account.name in met:
                continue
            old = account.deserved
            new = old.clone().add(remaining.clone().scale(account.queue.weight / weight))
            if KUBE_BATCH_TOLERANCE.is_less(account.request, new):
                new = lesser(new, account.request)
                met.add(account.name)
            account.deserved = new
            _note_change(old, new, more, less)
        remaining.subtract(more).add(less)
        if KUBE_BATCH_TOLERANCE.is_empty(remaining):
            break


def _note_change(old: Resources, new: Resources, more: Resources, less: Resources) -> None:
    """Adds up increases and decreases; a scalar that was dropped is lost."""
    more.add(
        Resources(
            max(new.milli_cpu - old.milli_cpu, 0),
            max(new.memory - old.memory, 0),
            {n: v - old.get(n) for n, v in new.scalars.items() if v > old.get(n)},
        )
    )
    less.add(
        Resources(
            max(old.milli_cpu - new.milli_cpu, 0),
            max(old.memory - new.memory, 0),
            {n: old.get(n) - v for n, v in new.scalars.items() if v <= old.get(n)},
        )
    )
