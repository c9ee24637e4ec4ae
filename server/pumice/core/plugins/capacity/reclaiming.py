"""The rules by which queues reclaim from each other."""

from __future__ import annotations

from collections.abc import Sequence

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.model.memo import Memo
from pumice.core.model.resources import Resources
from pumice.core.plugins.capacity.accounts import ROOT, CapacityAccount
from pumice.core.session.hooks import PERMIT, REJECT
from pumice.core.session.queues import QueueAccounts, request_of
from pumice.core.session.session import Session

# What queues would hold after the eviction of the victims so far.
_Left = Memo[CapacityAccount, Resources]


class Reclaiming:
    """Reclaims from queues above their deserved amount, never below their guarantee.

    ``levels`` is the number of ancestors that count beside the queue; 0 without a tree.
    """

    def __init__(
        self, session: Session, accounts: QueueAccounts[CapacityAccount], levels: int
    ) -> None:
        self._session = session
        self._accounts = accounts
        self._levels = levels
        # By queue; does not change in a session.
        self._uses = Memo(self._uses_of)

    def may_reclaim(self, account: CapacityAccount, tasks: Sequence[Task]) -> bool:
        """Whether the queue, or an ancestor, would stay within its deserved amount.

        One requested dimension within it is enough. The capability must not be exceeded in any.
        """
        request = request_of(tasks)
        future = account.allocated.clone().add(request)
        if future.names_above_for(account.real_capability, request):
            return False
        if future.some_within(account.deserved, request):
            return True
        return any(
            above.allocated.clone().add(request).some_within(above.deserved, request)
            for above in self._above(account)
        )

    def _above(self, account: CapacityAccount) -> list[CapacityAccount]:
        """The ancestors of a queue that count, the nearest first, without the root."""
        nearest = account.lineage[1 : self._levels + 1]
        return [above for above in nearest if above.name != ROOT]

    def victims(self, reclaimer: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        """Victims in the order of eviction; each counts as evicted when the next one is checked."""
        mine = self._accounts.of(reclaimer)
        if mine is None:
            return [], REJECT
        left = _Left(lambda account: account.allocated.clone())
        victims = []
        queue = self._session.orders.victims(candidates, reclaimer)
        while queue:
            task = queue.pop()
            account = self._accounts.of(task)
            if account is None or not task.request.shares_names(reclaimer.request, pods=False):
                continue
            held = left[account]
            if not _spares_guarantee(held, task, account):
                continue
            if not self._is_eligible(task, held, account, reclaimer, mine):
                continue
            above = self._ancestors_above_deserved(task, account, mine, left)
            if above is None:
                continue
            for amount in (held, *above):
                amount.subtract(task.request)
            victims.append(task)
        return victims, PERMIT

    def gang_victims(self, candidates: list[Task]) -> tuple[list[Task], int]:
        """Victims for the gang actions, in the given order; ancestors do not count."""
        left = _Left(lambda account: account.allocated.clone())
        victims = []
        for task in candidates:
            account = self._accounts.of(task)
            if account is None:
                continue
            held = left[account]
            if _spares_guarantee(held, task, account) and _is_above_deserved(held, task, account):
                held.subtract(task.request)
                victims.append(task)
        return victims, PERMIT

    def may_have_victims(self, job: Job) -> bool:
        """Whether a task of the job's queue could be a victim now, for some reclaimer."""
        account = self._accounts.of_queue(job.queue)
        if account is None:
            return False
        requested, immediate = self._uses[account]
        return immediate or account.allocated.some_above(account.deserved, requested)

    def _uses_of(self, account: CapacityAccount) -> tuple[Resources, bool]:
        """What the tasks of a queue request, and whether some use no resource that the queue deserves."""
        requested = Resources()
        classes: dict[int, Task] = {}
        for job in self._session.jobs.values():
            if job.queue == account.name:
                requested.add(job.index.total_request)
                classes.update((task.class_.number, task) for task in job.index)
        return requested, any(_is_immediate(task, account) for task in classes.values())

    def _is_eligible(
        self,
        task: Task,
        held: Resources,
        account: CapacityAccount,
        reclaimer: Task,
        mine: CapacityAccount,
    ) -> bool:
        if not _is_immediate(task, account):
            return held.some_above(account.deserved, task.request)
        # Queues with a common ancestor do not reclaim from each other what neither of them deserves.
        return reclaimer.request.shares_names(mine.deserved, pods=True) or not any(
            above in self._above(mine) for above in self._above(account)
        )

    def _ancestors_above_deserved(
        self, task: Task, account: CapacityAccount, mine: CapacityAccount, left: _Left
    ) -> list[Resources] | None:
        """What the ancestors hold that count; None: one of them is not above its deserved amount."""
        asked = []
        for step, above in enumerate(account.lineage[1 : self._levels + 1], start=1):
            if above.name == ROOT or above in mine.lineage[step : step + 1]:
                continue
            held = left[above]
            if not _is_above_deserved(held, task, above):
                return None
            asked.append(held)
        return asked


def _spares_guarantee(held: Resources, task: Task, account: CapacityAccount) -> bool:
    return account.guarantee.less_equal(held.clone().subtract(task.request))


def _is_immediate(task: Task, account: CapacityAccount) -> bool:
    """Whether the queue deserves none of the resources that the task uses, pods included."""
    return not task.request.shares_names(account.deserved, pods=True)


def _is_above_deserved(held: Resources, task: Task, account: CapacityAccount) -> bool:
    return _is_immediate(task, account) or held.some_above(account.deserved, task.request)
