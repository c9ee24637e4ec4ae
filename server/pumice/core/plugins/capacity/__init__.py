"""capacity: queues with amounts that they deserve, are guaranteed and may use at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import QUEUE_ADMISSION, Task
from pumice.core.configuration import ArgumentSchema, ArgumentType, Limit, PluginOptions
from pumice.core.model.group import Queue, QueueState
from pumice.core.model.reasons import QueueLimit, Reason, ReasonCode
from pumice.core.plugins.capacity.accounts import (
    CapacityAccount,
    common_level,
    compare_shares,
    flat_accounts,
)
from pumice.core.plugins.capacity.device_quotas import EXCEEDED, DeviceQuotas, DeviceSimulation
from pumice.core.plugins.capacity.gates import GateReservations
from pumice.core.plugins.capacity.reclaiming import Reclaiming
from pumice.core.plugins.capacity.tree import tree_accounts, tree_fault
from pumice.core.session.hooks import PERMIT, REJECT, EventHandler
from pumice.core.session.policies import AllocatableCount, VictimRule
from pumice.core.session.queues import Held, QueueSimulation
from pumice.core.session.session import Session

_LEVELS = "ancestorReclaimLevel"
_ALLOCATED = attrgetter("allocated")
_DEVICES = "capacity.DynamicResourceAllocationEnable"
_DEVICE_CAPACITY = "capacity.DRAConsumableCapacityEnable"


class CapacityPlugin:
    """Orders queues by their share of the deserved amount, and enforces their capability."""

    name: ClassVar[str] = "capacity"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema(
        {
            _LEVELS: ArgumentType.INT,
            _DEVICES: ArgumentType.BOOL,
            _DEVICE_CAPACITY: ArgumentType.BOOL,
        },
        limits={_LEVELS: Limit(at_least=0, otherwise="Volcano would use 0 instead")},
        defaults={_LEVELS: 0, _DEVICES: True, _DEVICE_CAPACITY: True},
    )

    def __init__(self, options: PluginOptions) -> None:
        self._is_tree = options.enabled("enableHierarchy")
        levels = max(options.arguments.integer(_LEVELS, 0), 0)
        self._levels = levels if self._is_tree else 0
        # None: the queues form no tree, and nobody gets anything in this session.
        self._accounts: Mapping[str, CapacityAccount] | None = None
        self._gates: GateReservations | None = None
        # Off: claims for devices are not counted.
        self._counts_devices = options.arguments.boolean(_DEVICES, default=True)
        self._counts_device_capacity = options.arguments.boolean(_DEVICE_CAPACITY, default=True)

    def open(self, session: Session) -> None:
        self._session = session
        if QUEUE_ADMISSION in session.cache.settings.feature_gates:
            self._gates = GateReservations.of(session)
        accounts = tree_accounts(session) if self._is_tree else flat_accounts(session)
        self._accounts = accounts
        if accounts is None:
            session.queue_fault = tree_fault(session)
        self._quotas = DeviceQuotas(
            session,
            (accounts or {}) if self._counts_devices else {},
            with_capacity=self._counts_device_capacity,
        )
        for account in (accounts or {}).values() if self._quotas else ():
            account.device_limit = self._quotas.limit_reached
        # What people are shown of queues; copied, since accounts here know more.
        session.accounts = {**(accounts or {})}
        self._reclaiming = Reclaiming(session, accounts or {}, self._levels)
        hooks = session.hooks
        if accounts is not None:
            hooks.queue_order[self.name] = self._queue_order
            if self._is_tree:
                hooks.victim_queue_order[self.name] = self._nearest_queue_first
        hooks.reclaimable[self.name] = VictimRule(
            self._reclaimable, mark=self._reclaiming.may_yield, limit=lambda _: 0, by_queue=True
        )
        hooks.unified_evictable[self.name] = self._unified_evictable
        hooks.preemptive[self.name] = self._may_reclaim
        hooks.lasts[self.name] = lambda point: point == "queue_order"
        # With gates, every task that is allowed changes what the next one may have.
        hooks.allocatable[self.name] = (
            AllocatableCount(self._allocatable_count) if self._gates is None else self._allocatable
        )
        hooks.job_enqueueable[self.name] = self._enqueueable
        hooks.job_enqueued[self.name] = self._enqueued
        hooks.simulation[self.name] = lambda _preemptor, _row: self._simulation()
        hooks.handlers.append(
            EventHandler(self._allocated, self._deallocated, self._allocated_many)
        )

    # Order.

    def _queue_order(self, left: Queue, right: Queue) -> int:
        if left.priority != right.priority:
            return right.priority - left.priority
        assert self._accounts is not None
        mine, other = self._accounts[left.name], self._accounts[right.name]
        if not self._is_tree:
            return compare_shares(mine, other)
        if mine.is_leaf != other.is_leaf:
            return -1 if mine.is_leaf else 1
        if not mine.is_leaf:
            return compare_shares(mine, other)
        below = common_level(mine, other) + 1
        return compare_shares(_branch(mine, below), _branch(other, below))

    def _nearest_queue_first(self, left: Queue, right: Queue, preemptor: Queue) -> int:
        """Victims come first from the queue that is nearest to the preemptor's in the tree."""
        assert self._accounts is not None
        mine = self._accounts[preemptor.name]
        nearness = common_level(self._accounts[left.name], mine)
        other = common_level(self._accounts[right.name], mine)
        return (nearness < other) - (nearness > other)

    # Victims.

    def _reclaimable(self, reclaimer: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        if self._accounts is None:
            return [], REJECT
        return self._reclaiming.victims(reclaimer, candidates)

    def _unified_evictable(
        self, action: str, _job: Job, candidates: list[Task]
    ) -> tuple[list[Task], int]:
        if action != "gangreclaim":
            return candidates, PERMIT
        if self._accounts is None:
            return [], REJECT
        return self._reclaiming.gang_victims(candidates)

    def _may_reclaim(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        if self._accounts is None or queue.state is not QueueState.OPEN:
            return False
        return self._reclaiming.may_reclaim(self._accounts[queue.name], tasks)

    # Ceilings.

    def _allocatable(self, queue: Queue, task: Task) -> bool:
        if queue.state is not QueueState.OPEN or not self._has_room(queue, task, _ALLOCATED):
            return False
        account = self._account_of(task)
        if account is not None and account.device_limit(account, task) is not None:
            return False
        if self._gates is not None and task.wants_queue_admission:
            self._gates.add(queue.name, task)
        return True

    def _allocatable_count(self, queue: Queue, task: Task, count: int) -> int:
        account = self._accounts.get(queue.name) if self._accounts is not None else None
        if account is None or not account.is_leaf or queue.state is not QueueState.OPEN:
            return 0
        if self._quotas and task.class_.spec.resource_claims:
            # Tasks of one class have claims of their own.
            count = min(count, 1) if account.device_limit(account, task) is None else 0
        for level in account.lineage:
            count = level.allocated.times_within(task.request, level.real_capability, count)
        return count

    def _has_room(self, queue: Queue, task: Task, held_by: Held) -> bool:
        """Whether the queue and all above it may take the task, on top of what they hold."""
        account = self._accounts.get(queue.name) if self._accounts is not None else None
        if account is None or not account.is_leaf:
            return False
        for level in account.lineage:
            held = held_by(level)
            if self._gates is not None:
                kept = self._gates.for_others(level.name, task)
                held = held if kept is None else held.clone().add(kept)
            if not held.has_room_for(task.request, level.real_capability):
                return False
        return True

    def _enqueueable(self, job: Job) -> int:
        session, queue = self._session, self._session.queue_of(job)
        account = self._accounts.get(queue.name) if self._accounts is not None else None
        if account is None or not account.is_leaf or queue.state is not QueueState.OPEN:
            reason = Reason(self.name, ReasonCode.QUEUE_NOT_OPEN, subjects=(queue.name,))
            session.explain(job, reason)
            return REJECT
        if job.min_resources is not None:
            for level in account.lineage:
                above = level.names_over_ceiling(job.min_resources)
                if above:
                    return self._rejected(job, above)
        limit = self._quotas.limit_of_minimum(account, job)
        return PERMIT if limit is None else self._rejected(job, [EXCEEDED], limit)

    def _rejected(self, job: Job, above: list[str], *limits: QueueLimit) -> int:
        session, names = self._session, ", ".join(f"insufficient {name}" for name in above)
        session.tell(job, "Unschedulable", f"queue resource quota insufficient: {names}")
        reason = Reason(self.name, ReasonCode.QUEUE_QUOTA, subjects=tuple(above), limits=limits)
        session.explain(job, reason)
        return REJECT

    def _enqueued(self, job: Job) -> None:
        account = self._accounts.get(job.queue) if self._accounts is not None else None
        if account is not None:
            self._quotas.promise(account, job)
        if account is not None and job.min_resources is not None:
            promised = job.without_gated(job.min_resources)
            for level in account.lineage:
                level.inqueue.add(promised)

    def _simulation(self) -> QueueSimulation:
        if self._quotas:
            return DeviceSimulation(self._quotas, self._account_of, self._has_room)
        return QueueSimulation(self._lineage_of, self._has_room)

    # Events.

    def _lineage_of(self, task: Task) -> tuple[CapacityAccount, ...]:
        account = self._account_of(task)
        return () if account is None else account.lineage

    def _account_of(self, task: Task) -> CapacityAccount | None:
        job = self._session.jobs.get(task.job_id)
        if job is None or self._accounts is None:
            return None
        return self._accounts.get(job.queue)

    def _allocated(self, task: Task) -> None:
        account = self._account_of(task)
        if account is None:
            return
        account.take_with_ancestors(task.request)
        if self._quotas:
            self._quotas.allocated(account, task)
        if self._gates is not None:
            self._gates.remove(task)

    def _allocated_many(self, tasks: list[Task]) -> None:
        if self._gates is not None or self._quotas:
            for task in tasks:
                self._allocated(task)
            return
        account = self._account_of(tasks[0])
        if account is not None:
            account.take_with_ancestors(tasks[0].request, len(tasks))

    def _deallocated(self, task: Task) -> None:
        account = self._account_of(task)
        if account is None:
            return
        account.give_back_with_ancestors(task.request)
        if self._quotas:
            self._quotas.deallocated(account, task)
        if self._gates is not None and task.wants_queue_admission:
            self._gates.add(account.name, task)


def _branch(leaf: CapacityAccount, level: int) -> CapacityAccount:
    """The queue above the leaf at a level, or the leaf itself."""
    return leaf.ancestors[level] if level < len(leaf.ancestors) else leaf
