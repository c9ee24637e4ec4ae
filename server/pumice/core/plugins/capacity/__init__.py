"""capacity: divides the cluster by the deserved amounts, guarantees and capabilities of queues.

Queues with a smaller share of the deserved amount come first, no queue exceeds its capability, and
reclaim evicts pods of queues that have more than they deserve. With ``enableHierarchy`` the queues
form a tree. A capability can also limit claimed devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import QUEUE_ADMISSION, Task
from pumice.core.configuration import Arguments, Limit, PluginOptions, boolean, integer
from pumice.core.model.group import Queue, QueueState
from pumice.core.model.resources import Resources
from pumice.core.plugins.capacity.accounts import (
    CapacityAccount,
    GateReservations,
    common_level,
    compare_shares,
    tree_accounts,
    unrelated_accounts,
)
from pumice.core.plugins.capacity.device_quotas import EXCEEDED, DeviceQuotas, DeviceSimulation
from pumice.core.plugins.capacity.reclaiming import Reclaiming
from pumice.core.session.hooks import PERMIT, REJECT, EventHandler
from pumice.core.session.policies import AllocatableCount, VictimRule
from pumice.core.session.queues import Held, QueueAccount, QueueAccounts, QueueSimulation
from pumice.core.session.session import Session

_ALLOCATED = attrgetter("allocated")


class CapacityArguments(Arguments):
    """Which limits of queues are enforced, and how many ancestors reclaim considers."""

    levels = integer(
        "ancestorReclaimLevel",
        0,
        "number of ancestor queues that reclaim considers",
        Limit(at_least=0, otherwise="Volcano would use 0 instead"),
    )
    counts_devices = boolean(
        "capacity.DynamicResourceAllocationEnable",
        "limits of queues on claimed devices",
        default=True,
    )
    counts_device_capacity = boolean(
        "capacity.DRAConsumableCapacityEnable",
        "limits of queues on capacities of claimed devices",
        default=True,
    )


class CapacityPlugin:
    """Orders queues by their share of the deserved amount, and enforces their capability."""

    name: ClassVar[str] = "capacity"
    required: ClassVar[bool] = True
    arguments: ClassVar[type[Arguments]] = CapacityArguments

    def __init__(self, options: PluginOptions) -> None:
        self._arguments = CapacityArguments(options.arguments)
        self._is_tree = options.enabled("enableHierarchy")
        self._gates: GateReservations | None = None

    def open(self, session: Session) -> None:
        if QUEUE_ADMISSION in session.cache.settings.feature_gates:
            self._gates = GateReservations.of(session)
        found = tree_accounts(session) if self._is_tree else unrelated_accounts(session)
        # Where the queues do not form a tree, no queue has an account, and nothing is scheduled.
        self._queues = {} if isinstance(found, str) else found
        self._accounts = QueueAccounts(session, self.name, self._queues)
        self._quotas = DeviceQuotas(
            session,
            self._queues if self._arguments.counts_devices else {},
            with_capacity=self._arguments.counts_device_capacity,
        )
        for account in self._queues.values() if self._quotas else ():
            account.device_limit = partial(self._quotas.limit_reached, account)
        session.accounts = {**self._queues}
        levels = self._arguments.levels if self._is_tree else 0
        self._reclaiming = Reclaiming(session, self._accounts, levels)
        hooks = session.hooks
        self._is_usable = not isinstance(found, str)
        if isinstance(found, str):
            session.queue_fault = found
        else:
            hooks.queue_order[self.name] = self._queue_order
            if self._is_tree:
                hooks.victim_queue_order[self.name] = self._nearest_queue_first
        hooks.reclaimable[self.name] = VictimRule(
            self._reclaiming.victims, mark=self._reclaiming.may_have_victims, by_queue=True
        )
        hooks.unified_evictable[self.name] = self._unified_evictable
        hooks.preemptive[self.name] = self._may_reclaim
        lasting = {"queue_order", "unified_evictable"}
        if not self._quotas:
            # Limits on devices depend on the claims of each job.
            lasting.add("job_enqueueable")
        hooks.lasts[self.name] = lasting.__contains__
        # With the feature gate, every allowed task gets a reservation, which limits the next one.
        hooks.allocatable[self.name] = (
            AllocatableCount(self._allocatable_count) if self._gates is None else self._allocatable
        )
        hooks.job_enqueueable[self.name] = self._enqueueable
        hooks.job_enqueued[self.name] = self._enqueued
        hooks.simulation[self.name] = lambda _preemptor, _row: self._simulation()
        hooks.handlers.append(EventHandler.counting(self._change))

    # Order.

    def _queue_order(self, left: Queue, right: Queue) -> int:
        if left.priority != right.priority:
            return right.priority - left.priority
        one, other = self._queues[left.name], self._queues[right.name]
        if not self._is_tree:
            return compare_shares(one, other)
        if one.takes_jobs != other.takes_jobs:
            return -1 if one.takes_jobs else 1
        if not one.takes_jobs:
            return compare_shares(one, other)
        # The ancestors below the lowest common ancestor are compared.
        level = common_level(one, other) + 1
        return compare_shares(_at_level(one, level), _at_level(other, level))

    def _nearest_queue_first(self, left: Queue, right: Queue, preemptor: Queue) -> int:
        """Orders queues of victims: the queue nearest to the preemptor's queue in the tree is first."""
        account = self._queues[preemptor.name]
        left_level = common_level(self._queues[left.name], account)
        right_level = common_level(self._queues[right.name], account)
        return (left_level < right_level) - (left_level > right_level)

    # Victims.

    def _unified_evictable(
        self, action: str, _job: Job, candidates: list[Task]
    ) -> tuple[list[Task], int]:
        if action != "gangreclaim":
            return candidates, PERMIT
        return self._reclaiming.gang_victims(candidates) if self._is_usable else ([], REJECT)

    def _may_reclaim(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        if not self._is_usable or queue.state is not QueueState.OPEN:
            return False
        return self._reclaiming.may_reclaim(self._queues[queue.name], tasks)

    # Limits.

    def _allocatable(self, queue: Queue, task: Task) -> bool:
        account = self._accounts.of_open(queue)
        if account is None or not self._has_room(queue, task, _ALLOCATED):
            return False
        if account.device_limit(task) is not None:
            return False
        if self._gates is not None and task.wants_queue_admission:
            self._gates.add(queue.name, task)
        return True

    def _allocatable_count(self, queue: Queue, task: Task, count: int) -> int:
        if self._quotas and task.class_.spec.resource_claims:
            account = self._queues.get(queue.name)
            # Tasks of a class can have different claims, so that the result holds for one task only.
            is_full = account is not None and account.device_limit(task) is not None
            count = 0 if is_full else min(count, 1)
        return self._accounts.allowed_count(queue, task, count)

    def _has_room(self, queue: Queue, task: Task, held_by: Held) -> bool:
        """Whether the queue and its ancestors have room for the task beside reservations for others."""
        gates = self._gates
        if gates is None:
            return self._accounts.has_room(queue, task, held_by)

        def held_or_reserved(level: QueueAccount) -> Resources:
            held, reserved = held_by(level), gates.for_others(level.name, task)
            return held if reserved is None else held.clone().add(reserved)

        return self._accounts.has_room(queue, task, held_or_reserved)

    def _enqueueable(self, job: Job) -> int:
        vote, account = self._accounts.enqueueable(job), self._queues.get(job.queue)
        if vote != PERMIT or account is None:
            return vote
        limit = self._quotas.limit_of_minimum(account, job)
        return vote if limit is None else self._accounts.reject(job, [EXCEEDED], limit)

    def _enqueued(self, job: Job) -> None:
        account = self._queues.get(job.queue)
        if account is not None:
            self._quotas.admit(account, job)
        self._accounts.admit(job)

    def _simulation(self) -> QueueSimulation:
        if self._quotas:
            return DeviceSimulation(self._quotas, self._accounts, self._has_room)
        return QueueSimulation(self._accounts.lineage_of, self._has_room)

    # Events.

    def _change(self, tasks: Sequence[Task], sign: int) -> None:
        self._accounts.change(tasks, sign)
        account = self._accounts.of(tasks[0])
        if account is None or (self._gates is None and not self._quotas):
            return
        for task in tasks:
            if self._quotas:
                self._quotas.change(account, task, sign)
            if self._gates is not None and sign > 0:
                self._gates.remove(task)
            elif self._gates is not None and task.wants_queue_admission:
                self._gates.add(account.name, task)


def _at_level(leaf: CapacityAccount, level: int) -> CapacityAccount:
    """The ancestor of a queue at a level of the tree; the queue itself if it has none at that level."""
    return leaf.ancestors[level] if level < len(leaf.ancestors) else leaf
