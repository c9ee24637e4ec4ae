"""Which queues may reclaim, and which tasks of other queues are their victims."""

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
_Remaining = Memo[CapacityAccount, Resources]


class Reclaiming:
    """Reclaims from queues above their deserved amount, never below their guarantee.

    ``levels`` is the number of ancestors that are considered beside the queue; 0 without a tree.
    """

    def __init__(
        self, session: Session, accounts: QueueAccounts[CapacityAccount], levels: int
    ) -> None:
        self._session = session
        self._accounts = accounts
        self._levels = levels
        # By queue; does not change in a session.
        self._requests = Memo(self._find_requests)

    def may_reclaim(self, account: CapacityAccount, tasks: Sequence[Task]) -> bool:
        """Whether the queue, or an ancestor, would stay within its deserved amount.

        One requested resource within the deserved amount is enough. All of them must be within the
        capability.
        """
        request = request_of(tasks)
        future = account.allocated.clone().add(request)
        if future.names_above_for(account.real_capability, request):
            return False
        if future.some_within(account.deserved, request):
            return True
        return any(
            ancestor.allocated.clone().add(request).some_within(ancestor.deserved, request)
            for ancestor in self._ancestors(account)
        )

    def _ancestors(self, account: CapacityAccount) -> list[CapacityAccount]:
        """The ancestors of a queue that are considered, the nearest first, without the root."""
        nearest = account.lineage[1 : self._levels + 1]
        return [ancestor for ancestor in nearest if ancestor.name != ROOT]

    def victims(self, reclaimer: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        """Victims in the order of eviction; each counts as evicted when the next one is checked."""
        reclaiming = self._accounts.of(reclaimer)
        if reclaiming is None:
            return [], REJECT
        remaining = _Remaining(lambda account: account.allocated.clone())
        victims = []
        queue = self._session.orders.victims(candidates, reclaimer)
        while queue:
            task = queue.pop()
            account = self._accounts.of(task)
            if account is None or not task.request.shares_names(reclaimer.request, pods=False):
                continue
            held = remaining[account]
            if not _keeps_guarantee(held, task, account):
                continue
            if not self._is_eligible(task, held, account, reclaimer, reclaiming):
                continue
            ancestors = self._other_ancestors(account, reclaiming)
            if all(_is_above_deserved(remaining[above], task, above) for above in ancestors):
                for each in (account, *ancestors):
                    remaining[each].subtract(task.request)
                victims.append(task)
        return victims, PERMIT

    def gang_victims(self, candidates: list[Task]) -> tuple[list[Task], int]:
        """Victims for the gang actions, in the given order; ancestors are not considered."""
        remaining = _Remaining(lambda account: account.allocated.clone())
        victims = []
        for task in candidates:
            account = self._accounts.of(task)
            if account is None:
                continue
            held = remaining[account]
            if _keeps_guarantee(held, task, account) and _is_above_deserved(held, task, account):
                held.subtract(task.request)
                victims.append(task)
        return victims, PERMIT

    def may_have_victims(self, job: Job) -> bool:
        """Whether a task of the job's queue could be a victim of any reclaimer now."""
        account = self._accounts.of_queue(job.queue)
        if account is None:
            return False
        requested, has_immediate = self._requests[account]
        return has_immediate or account.allocated.some_above(account.deserved, requested)

    def _find_requests(self, account: CapacityAccount) -> tuple[Resources, bool]:
        """What the tasks of a queue request, and whether one of them is an immediate victim."""
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
        reclaiming: CapacityAccount,
    ) -> bool:
        if not _is_immediate(task, account):
            return held.some_above(account.deserved, task.request)
        # Queues with a common ancestor do not reclaim from each other what neither of them deserves.
        return reclaimer.request.shares_names(reclaiming.deserved, pods=True) or not any(
            ancestor in self._ancestors(reclaiming) for ancestor in self._ancestors(account)
        )

    def _other_ancestors(
        self, account: CapacityAccount, reclaiming: CapacityAccount
    ) -> list[CapacityAccount]:
        """The considered ancestors of a queue that the reclaiming queue does not have at that level."""
        levels = enumerate(account.lineage[1 : self._levels + 1], start=1)
        others = [above for n, above in levels if above not in reclaiming.lineage[n : n + 1]]
        return [above for above in others if above.name != ROOT]


def _keeps_guarantee(held: Resources, task: Task, account: CapacityAccount) -> bool:
    return account.guarantee.less_equal(held.clone().subtract(task.request))


def _is_immediate(task: Task, account: CapacityAccount) -> bool:
    """Whether the task is an immediate victim: its queue deserves no resource that the task requests.

    The resource pods counts too.
    """
    return not task.request.shares_names(account.deserved, pods=True)


def _is_above_deserved(held: Resources, task: Task, account: CapacityAccount) -> bool:
    return _is_immediate(task, account) or held.some_above(account.deserved, task.request)
