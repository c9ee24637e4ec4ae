"""Limits of queues on devices that are claimed, by device class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pumice.core.cache.claimed_devices import (
    COUNT,
    ByClass,
    ClaimedAmounts,
    by_class,
    claimed_devices,
)
from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.model.devices import ResourceClaim
from pumice.core.model.group import Queue
from pumice.core.model.reasons import QueueLimit
from pumice.core.model.status import HOLDS_RESOURCES
from pumice.core.plugins.capacity.accounts import CapacityAccount
from pumice.core.session.queues import Held, QueueAccount, QueueAccounts, QueueSimulation
from pumice.core.session.session import Session

# What Volcano names in the event of a job that is not admitted.
EXCEEDED = "dra-resource-exceeded"

# What queues would hold, by name.
Changed = dict[str, ClaimedAmounts]
Change = Callable[[ClaimedAmounts, list[ResourceClaim]], None]


class DeviceQuota:
    """One queue: what it may have, what its tasks have, and what was promised to jobs."""

    __slots__ = ("held", "limits", "promised")

    def __init__(self, limits: ByClass) -> None:
        self.limits = limits
        self.held = ClaimedAmounts()
        self.promised: dict[str, int] = {}

    def exceeded(
        self,
        claims: Iterable[ResourceClaim],
        claimed: ClaimedAmounts,
        with_capacity: bool,
        *,
        with_promised: bool,
    ) -> tuple[str, int, int, int] | None:
        """The first limit in the way: its name, and what is asked, used and allowed.

        A class that the queue does not name has no limit. Of a class that it names, a capacity
        that it does not name cannot be had, and a number of 0 is no limit, as in Volcano.
        """
        wanted = _merged(claim for claim in claims if not claimed.counts(claim))
        for class_ in sorted(wanted.keys() & self.limits.keys()):
            limits = self.limits[class_]
            for name, asked in wanted[class_].items():
                is_count = name.startswith(COUNT)
                allowed = limits.get(name, 0)
                if (is_count and not allowed) or not (is_count or with_capacity):
                    continue
                used = claimed.amounts.get(name, 0)
                used += self.promised.get(name, 0) if with_promised else 0
                if used + asked > allowed or name not in limits:
                    return name, asked, used, allowed
        return None

    def promise(self, claims: Iterable[ResourceClaim]) -> None:
        for amounts in _merged(c for c in claims if not self.held.counts(c)).values():
            for name, amount in amounts.items():
                self.promised[name] = self.promised.get(name, 0) + amount


class DeviceQuotas:
    """The queues of a session whose capability names device classes."""

    def __init__(
        self,
        session: Session,
        accounts: Mapping[str, CapacityAccount],
        *,
        with_capacity: bool,
    ) -> None:
        self._devices, self._with_capacity = session.cache.devices, with_capacity
        self._by_queue: dict[str, DeviceQuota] = {}
        for name, account in accounts.items():
            if limits := by_class(account.queue.capability or ()):
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

    def of(self, account: QueueAccount) -> DeviceQuota | None:
        return self._by_queue.get(account.name)

    def claims_of(self, task: Task) -> list[ResourceClaim]:
        return self._devices.claims_of(task)

    def change(self, account: CapacityAccount, task: Task, sign: int) -> None:
        """A task of the queue was placed (1) or removed (-1)."""
        apply = ClaimedAmounts.add if sign > 0 else ClaimedAmounts.remove
        claims = self.claims_of(task)
        for level in account.lineage:
            quota = self._by_queue.get(level.name)
            if quota is not None:
                apply(quota.held, claims)

    def limit_reached(
        self, account: CapacityAccount, task: Task, changed: Changed | None = None
    ) -> QueueLimit | None:
        """The first limit, of the queue or one above it, that the task would exceed.

        ``changed`` has what some queues hold instead of what they hold now.
        """
        return self._first_limit(account, self.claims_of(task), changed or {})

    def limit_of_minimum(self, account: CapacityAccount, job: Job) -> QueueLimit | None:
        """The first limit that the job's minimum would exceed, beside what was promised."""
        return self._first_limit(account, self._minimum(job), {}, with_promised=True)

    def _first_limit(
        self,
        account: CapacityAccount,
        claims: list[ResourceClaim],
        changed: Changed,
        *,
        with_promised: bool = False,
    ) -> QueueLimit | None:
        for level in account.lineage if claims else ():
            quota = self._by_queue.get(level.name)
            if quota is None:
                continue
            held = changed.get(level.name, quota.held)
            found = quota.exceeded(claims, held, self._with_capacity, with_promised=with_promised)
            if found is not None:
                return QueueLimit(level.name, *found)
        return None

    def promise(self, account: CapacityAccount, job: Job) -> None:
        claims = self._minimum(job)
        for level in account.lineage:
            quota = self._by_queue.get(level.name)
            if quota is not None:
                quota.promise(claims)

    def _minimum(self, job: Job) -> list[ResourceClaim]:
        """The claims of the tasks that the job needs at least, each once."""
        tasks = sorted(
            (task for task in job.index.tasks.values() if task.class_.spec.resource_claims),
            key=lambda task: task.key,
        )
        if job.role_minima:
            least = [
                task
                for role, count in job.role_minima.items()
                for task in [task for task in tasks if task.role == role][:count]
            ]
        else:
            least = tasks[: job.min_available]
        return [*{claim.key: claim for task in least for claim in self.claims_of(task)}.values()]


class DeviceSimulation(QueueSimulation):
    """What queues would hold without some tasks, devices included."""

    def __init__(
        self,
        quotas: DeviceQuotas,
        accounts: QueueAccounts[CapacityAccount],
        has_room: Callable[[Queue, Task, Held], bool],
    ) -> None:
        super().__init__(accounts.lineage_of, has_room)
        self._quotas, self._accounts = quotas, accounts
        self._claimed: Changed = {}

    def remove(self, task: Task) -> str | None:
        self._follow(task, ClaimedAmounts.remove)
        return super().remove(task)

    def add(self, task: Task) -> str | None:
        self._follow(task, ClaimedAmounts.add)
        return super().add(task)

    def _follow(self, task: Task, change: Change) -> None:
        claims = self._quotas.claims_of(task)
        for level in self._accounts.lineage_of(task) if claims else ():
            quota = self._quotas.of(level)
            if quota is not None:
                if level.name not in self._claimed:
                    self._claimed[level.name] = quota.held.clone()
                change(self._claimed[level.name], claims)

    def is_allocatable(self, queue: Queue, task: Task) -> bool:
        account = self._accounts.of(task)
        if account is not None and self._quotas.limit_reached(account, task, self._claimed):
            return False
        return super().is_allocatable(queue, task)


def _merged(claims: Iterable[ResourceClaim]) -> ByClass:
    total: ByClass = {}
    for claim in claims:
        for class_, amounts in claimed_devices(claim).items():
            sums = total.setdefault(class_, {})
            for name, amount in amounts.items():
                sums[name] = sums.get(name, 0) + amount
    return total
