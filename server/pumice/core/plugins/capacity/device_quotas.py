"""Limits of queues on claimed devices, by device class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from pumice.core.cache.claimed_devices import (
    COUNT,
    ClaimedAmounts,
    claimed_devices,
    class_of,
    limits_by_class,
)
from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.model.devices import ResourceClaim
from pumice.core.model.group import Queue
from pumice.core.model.memo import Memo
from pumice.core.model.reasons import QueueLimit
from pumice.core.model.status import HOLDS_RESOURCES
from pumice.core.plugins.capacity.accounts import CapacityAccount
from pumice.core.session.queues import Held, QueueAccount, QueueAccounts, QueueSimulation
from pumice.core.session.session import Session

# The name of a limit on devices in Volcano's event about a job that is not admitted.
EXCEEDED = "dra-resource-exceeded"

# Returns what a queue holds, or would hold in a simulation.
HeldBy = Callable[["DeviceQuota"], ClaimedAmounts]


class DeviceQuota:
    """The limits of one queue, what its tasks hold, and the minima of jobs that this session admitted."""

    def __init__(self, limits: Mapping[str, Mapping[str, int]]) -> None:
        # By device class and resource.
        self.limits = limits
        self.held = ClaimedAmounts()
        self.inqueue = Counter[str]()

    def exceeded(
        self,
        claims: Iterable[ResourceClaim],
        claimed: ClaimedAmounts,
        with_capacity: bool,
        *,
        with_inqueue: bool,
    ) -> tuple[str, int, int, int] | None:
        """The first exceeded limit: its name, and what is requested, used and allowed.

        A class that the queue does not name has no limit. As in Volcano, the capacities of a named
        class cannot be requested where the queue does not limit them, and a limit of zero devices
        is no limit.
        """
        requests = claimed_devices(claim for claim in claims if not claimed.counts(claim))
        for name in sorted(requests, key=class_of):
            limits, is_count = self.limits.get(class_of(name)), name.startswith(COUNT)
            if limits is None or not (is_count or with_capacity):
                continue
            requested, allowed = requests[name], limits.get(name, 0)
            if is_count and not allowed:
                continue
            used = claimed.amounts[name] + (self.inqueue[name] if with_inqueue else 0)
            if used + requested > allowed or name not in limits:
                return name, requested, used, allowed
        return None

    def admit(self, claims: Iterable[ResourceClaim]) -> None:
        """Counts the claims of an admitted job's minimum that no placed task uses yet."""
        self.inqueue.update(claimed_devices(c for c in claims if not self.held.counts(c)))


def _held(quota: DeviceQuota) -> ClaimedAmounts:
    return quota.held


class DeviceQuotas:
    """The quotas of the queues whose capability names device classes."""

    def __init__(
        self, session: Session, accounts: Mapping[str, CapacityAccount], *, with_capacity: bool
    ) -> None:
        self._devices, self._with_capacity = session.cache.devices, with_capacity
        self._by_queue: dict[str, DeviceQuota] = {}
        for name, account in accounts.items():
            if limits := limits_by_class(account.queue.capability or ()):
                self._by_queue[name] = DeviceQuota(limits)
        if self._by_queue:
            self._count(session, accounts)

    def _count(self, session: Session, accounts: Mapping[str, CapacityAccount]) -> None:
        for task in self._devices.users.values():
            job = session.jobs.get(task.job_id)
            account = None if job is None else accounts.get(job.queue)
            if account is not None and task.status in HOLDS_RESOURCES:
                self.change(account, task, 1)

    def __bool__(self) -> bool:
        return bool(self._by_queue)

    def _lineage(self, account: QueueAccount) -> list[tuple[str, DeviceQuota]]:
        """The quotas of a queue and its ancestors, with the names of their queues."""
        names = [level.name for level in account.lineage]
        return [(name, self._by_queue[name]) for name in names if name in self._by_queue]

    def change(
        self, account: CapacityAccount, task: Task, sign: int, held_by: HeldBy = _held
    ) -> None:
        """Counts a task of the queue that was placed (1) or removed (-1)."""
        apply = ClaimedAmounts.add if sign > 0 else ClaimedAmounts.remove
        claims = self._devices.claims_of(task)
        for _, quota in self._lineage(account):
            apply(held_by(quota), claims)

    def limit_reached(
        self, account: CapacityAccount, task: Task, held_by: HeldBy = _held
    ) -> QueueLimit | None:
        """The first limit, of the queue or an ancestor, that the task would exceed."""
        return self._first_limit(account, self._devices.claims_of(task), held_by)

    def limit_of_minimum(self, account: CapacityAccount, job: Job) -> QueueLimit | None:
        """The first limit that the job's minimum would exceed; the minima of admitted jobs count."""
        return self._first_limit(account, self._minimum(job), _held, with_inqueue=True)

    def _first_limit(
        self,
        account: CapacityAccount,
        claims: list[ResourceClaim],
        held_by: HeldBy,
        *,
        with_inqueue: bool = False,
    ) -> QueueLimit | None:
        for name, quota in self._lineage(account) if claims else ():
            found = quota.exceeded(
                claims, held_by(quota), self._with_capacity, with_inqueue=with_inqueue
            )
            if found is not None:
                return QueueLimit(name, *found)
        return None

    def admit(self, account: CapacityAccount, job: Job) -> None:
        """Counts the minimum of a job that was admitted."""
        claims = self._minimum(job)
        for _, quota in self._lineage(account):
            quota.admit(claims)

    def _minimum(self, job: Job) -> list[ResourceClaim]:
        """The claims of the job's minimum of tasks, each once."""
        tasks = sorted(
            (task for task in job.index.tasks.values() if task.class_.spec.resource_claims),
            key=lambda task: task.key,
        )
        if job.role_minima:
            minimum = []
            for role, count in job.role_minima.items():
                minimum += [task for task in tasks if task.role == role][:count]
        else:
            minimum = tasks[: job.min_available]
        claims_of = self._devices.claims_of
        return [*{claim.key: claim for task in minimum for claim in claims_of(task)}.values()]


class DeviceSimulation(QueueSimulation):
    """A simulation of queues that also counts claimed devices."""

    def __init__(
        self,
        quotas: DeviceQuotas,
        accounts: QueueAccounts[CapacityAccount],
        has_room: Callable[[Queue, Task, Held], bool],
    ) -> None:
        super().__init__(accounts.lineage_of, has_room)
        self._quotas, self._accounts = quotas, accounts
        self._claimed = Memo[DeviceQuota, ClaimedAmounts](lambda quota: quota.held.clone())

    def _change(self, task: Task, sign: int) -> str | None:
        account = self._accounts.of(task)
        if account is not None:
            self._quotas.change(account, task, sign, self._claimed.__getitem__)
        return super()._change(task, sign)

    def is_allocatable(self, queue: Queue, task: Task) -> bool:
        account, claimed = self._accounts.of(task), self._claimed.__getitem__
        if account is not None and self._quotas.limit_reached(account, task, claimed):
            return False
        return super().is_allocatable(queue, task)
