"""The cluster as kube-batch sees it: other pods, jobs, queues and nodes than Volcano."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pumice.core.cache.cluster import ClusterCache
from pumice.core.cache.jobs import Job
from pumice.core.cache.nodes import CPU_COLUMN, MEMORY_COLUMN
from pumice.core.cache.pod_updates import PodUpdates
from pumice.core.cache.settings import CacheSettings
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.deltas import ClusterObject
from pumice.core.kubebatch.jobs import (
    KubeBatchClass,
    KubeBatchJob,
    KubeBatchTask,
    Origin,
    is_group_id,
)
from pumice.core.kubebatch.tolerance import counts, tolerance_of
from pumice.core.model.fit import Mask
from pumice.core.model.group import PodDisruptionBudget, PodGroup, Queue, QueueState
from pumice.core.model.pod import Pod, PodPhase
from pumice.core.model.resources import Resources

# The compatibility switch by which namespaces are the queues (up to v0.4).
NAMESPACE_AS_QUEUE = "namespace-as-queue"
# A pod that must be near the incoming one counts as if it preferred to be, with this weight.
_HARD_AFFINITY_WEIGHT = 1


class KubeBatchPodUpdates(PodUpdates):
    """Also puts pods without a PodGroup into jobs: that of their controller, or one of their own."""

    _cache: KubeBatchCache

    def upsert(self, pod: Pod) -> None:
        known = pod.uid in self._tasks
        super().upsert(pod)
        task = self._tasks.get(pod.uid)
        if not known and task is not None and task.job_id:
            self._cache.cool_downs.end(task.job_id)
        self._cache.update_groups()

    def restore(self, task: Task) -> None:
        super().restore(task)
        self._cache.update_groups()

    def _can_enter_together(self, alike: list[Pod], uids: list[str]) -> bool:
        # A pod may bring a job of its own.
        return False

    def _is_ours(self, pod: Pod) -> bool:
        """Our pending pods, and the pods of all schedulers that are not pending."""
        if pod.phase is not PodPhase.PENDING:
            return True
        return pod.spec.scheduler_name in self._cache.settings.scheduler_names

    def _job_id_of(self, pod: Pod) -> str:
        """The PodGroup's, the controller's or the pod's own; other schedulers' pods have none."""
        if pod.group_name:
            return super()._job_id_of(pod)
        if pod.spec.scheduler_name not in self._cache.settings.scheduler_names:
            return ""
        return pod.controller_uid or pod.uid

    def _enter(self, tasks: dict[str, Task]) -> None:
        super()._enter(tasks)
        for task in tasks.values():
            if task.job_id and not is_group_id(task.job_id):
                self._cache.kube_batch_job(task.job_id).joined(task)
                self._cache.outdated[task.job_id] = None

    def _forget(self, task: Task) -> None:
        super()._forget(task)
        if task.job_id and not is_group_id(task.job_id):
            self._cache.kube_batch_job(task.job_id).left(task)
            self._cache.outdated[task.job_id] = None


class KubeBatchCache(ClusterCache):
    """Makes jobs of controllers and budgets, and leaves out nodes that hold more than they have."""

    job_type: ClassVar[type[Job]] = KubeBatchJob
    task_type: ClassVar[type[Task]] = KubeBatchTask
    class_type: ClassVar[type[TaskClass]] = KubeBatchClass
    pod_updates_type: ClassVar[type[PodUpdates]] = KubeBatchPodUpdates
    offers_devices: ClassVar[bool] = False
    honours_preemptable: ClassVar[bool] = False

    def __init__(self, settings: CacheSettings | None = None) -> None:
        # Jobs without a PodGroup whose pods came or went: their groups may have to change.
        self.outdated: dict[str, None] = {}
        super().__init__(settings)
        self.pods.hard_affinity_weight = _HARD_AFFINITY_WEIGHT

    @property
    def _namespaces_are_queues(self) -> bool:
        return NAMESPACE_AS_QUEUE in self.settings.compat

    # Upserts and deletions.

    def upsert(self, item: ClusterObject) -> None:
        if isinstance(item, PodDisruptionBudget):
            old = self.budgets.by_uid(item.uid)
            super().upsert(item)
            self._reassign_budgets(old, item)
        else:
            super().upsert(item)
        self.update_groups()

    def delete(self, kind: type[ClusterObject], uid: str) -> None:
        old = self.budgets.by_uid(uid) if kind is PodDisruptionBudget else None
        super().delete(kind, uid)
        self._reassign_budgets(old)
        self.update_groups()

    def settle(self) -> None:
        super().settle()
        self.update_groups()

    # Jobs without a PodGroup.

    def kube_batch_job(self, id_: str) -> KubeBatchJob:
        job = self.jobs.get_or_add(id_)
        assert isinstance(job, KubeBatchJob)
        return job

    def _reassign_budgets(self, *changed: PodDisruptionBudget | None) -> None:
        """Gives jobs their budgets; of several budgets of one controller the newest counts."""
        for uid in dict.fromkeys(b.controller_uid for b in changed if b is not None):
            if not uid or is_group_id(uid):
                continue
            own = [budget for budget in self.budgets if budget.controller_uid == uid]
            job = self.kube_batch_job(uid)
            job.budget = max(
                own, key=lambda b: (b.creation_time_ns, b.namespace, b.name), default=None
            )
            self.outdated[uid] = None

    def update_groups(self) -> None:
        """Gives jobs without a PodGroup their groups, and drops empty jobs."""
        if not self.outdated:
            return
        outdated, self.outdated = self.outdated, {}
        for id_ in outdated:
            job = self.kube_batch_job(id_)
            group = job.group_in_memory()
            if group is None:
                job.clear_group()
                self.jobs.moved.add(job.id)
                self.drop_if_done(job)
            elif job.group != group:
                self._give_group(job, group)
                self.cool_downs.end(id_)

    def _give_group(self, job: Job, group: PodGroup) -> None:
        super()._give_group(job, group)
        if self._namespaces_are_queues:
            # The queue of the PodGroup is ignored.
            job.queue = self.settings.default_queue or group.namespace
        self.jobs.moved.add(job.id)

    def _priority_of(self, job: Job) -> int:
        # A budget has no priority class, and kube-batch gives it no default either.
        if isinstance(job, KubeBatchJob) and job.origin is Origin.BUDGET:
            return 0
        return super()._priority_of(job)

    # Queries of sessions.

    def session_queues(self) -> dict[str, Queue]:
        if not self._namespaces_are_queues:
            return super().session_queues()
        return {
            n.name: Queue(n.uid, n.name, weight=1, state=QueueState.OPEN) for n in self.namespaces
        }

    def in_sync(self) -> Mask:
        """Nodes that hold no more than they have; the others are left out of sessions."""
        table = self.table
        good: Mask = np.ones(len(table), dtype=np.bool_)
        for column, name in enumerate(table.columns):
            if not counts(name):
                continue
            tolerance = tolerance_of(name)
            over = table.used[column] - table.allocatable[column] >= tolerance
            if column not in (CPU_COLUMN, MEMORY_COLUMN):
                over &= table.used[column] > tolerance
            good &= ~over
        if any(self._lacks_column(class_) for class_ in self.classes):
            for entry in table.rows:
                if any(self._lacks_column(task.class_) for task in entry.tasks.values()):
                    good[entry.row] = False
        return good

    def _lacks_column(self, class_: TaskClass) -> bool:
        """Whether tasks of the class use a resource that no node offers."""
        table = self.table
        return any(
            amount > tolerance_of(name) and table.column_of(name) is None
            for name, amount in class_.request.scalars.items()
            if counts(name)
        )

    def session_total(self) -> Resources:
        total = self.table.sum_of(self.table.allocatable[:, self.in_sync()])
        total.scalars = {name: held for name, held in total.scalars.items() if counts(name)}
        return total
