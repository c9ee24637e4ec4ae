"""proportion and drf, as in kube-batch: by weight alone, capped by the request, with shares of its own."""

from __future__ import annotations

from pumice.core.cache.tasks import Task
from pumice.core.kubebatch.tolerance import is_at_most, is_empty, is_less, lesser
from pumice.core.model.group import Queue
from pumice.core.model.resources import Number, Resources
from pumice.core.plugins.drf import DrfPlugin
from pumice.core.plugins.proportion import ProportionPlugin
from pumice.core.session.hooks import PERMIT
from pumice.core.session.policies import SortKey
from pumice.core.session.queues import QueueAccount
from pumice.core.session.session import Session


def share(part: Resources, whole: Resources) -> float:
    """The dominant share; of a resource that the whole does not have, any amount is 1."""
    return max(_ratio(part.get(name), amount) for name, amount in whole.items())


def _ratio(part: Number, whole: Number) -> float:
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return max(part / whole, 0.0)


class KubeBatchAccount(QueueAccount):
    """A queue with kube-batch's share."""

    def share_now(self) -> float:
        return share(self.allocated, self.deserved)


class KubeBatchDrfPlugin(DrfPlugin):
    """The job with the smallest dominant share comes first."""

    def share(self, held: Resources) -> float:
        return share(held, self._session.total)


class KubeBatchProportionPlugin(ProportionPlugin):
    """Divides the cluster among the queues that have jobs."""

    def open(self, session: Session) -> None:
        super().open(session)
        session.hooks.queue_order[self.name] = SortKey(lambda queue: self._queues[queue.name].share)

    def _divided(self, session: Session) -> dict[str, QueueAccount]:
        queues, totals = session.queues, session.totals
        accounts: dict[str, QueueAccount] = {
            name: KubeBatchAccount(queues[name], totals.of(name), session.total)
            for name in totals.queues()
        }
        divide(session.total, list(accounts.values()))
        return accounts

    def _overused(self, queue: Queue) -> bool:
        account = self._queues[queue.name]
        return is_at_most(account.deserved, account.allocated)

    def _above_deserved(self, _task: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        """Tasks without which a queue still has all that it deserves.

        A task that is not chosen counts as gone for the tasks after it, too.
        """
        left: dict[str, Resources] = {}
        victims = []
        for task in candidates:
            account = self._accounts.of(task)
            assert account is not None
            allocated = left.setdefault(account.name, account.allocated.clone())
            if is_less(allocated, task.request):
                continue
            allocated.subtract(task.request)
            if is_at_most(account.deserved, allocated):
                victims.append(task)
        return victims, PERMIT


def divide(total: Resources, queues: list[QueueAccount]) -> None:
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
            if is_less(account.request, new):
                new = lesser(new, account.request)
                met.add(account.name)
            account.deserved = new
            more.add(new.surplus_over(old))
            less.add(_loss(old, new))
        remaining.subtract(more).add(less)
        if is_empty(remaining):
            break


def _loss(old: Resources, new: Resources) -> Resources:
    """What a share has lost; a scalar that was dropped is not counted."""
    return Resources(
        max(old.milli_cpu - new.milli_cpu, 0),
        max(old.memory - new.memory, 0),
        {n: old.get(n) - v for n, v in new.scalars.items() if v <= old.get(n)},
    )
