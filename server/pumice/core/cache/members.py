"""Pods as the cache holds them: tasks of classes and jobs, on nodes or waiting."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import ClassVar

from pumice.core.cache.assumptions import Assumptions
from pumice.core.cache.broken import BrokenGangs
from pumice.core.cache.classes import ClassRegistry
from pumice.core.cache.devices import DeviceCache
from pumice.core.cache.evictable import EvictableTasks
from pumice.core.cache.job_index import JobIndex
from pumice.core.cache.jobs import Job
from pumice.core.cache.labels import NodeLabels
from pumice.core.cache.nodes import NodeTable
from pumice.core.cache.pods import PodIndex
from pumice.core.cache.settings import CacheSettings
from pumice.core.cache.storage import StorageCache
from pumice.core.cache.store import ObjectStores
from pumice.core.cache.tasks import Task, TaskClass, is_placement_change
from pumice.core.cache.totals import QueueTotals
from pumice.core.deltas import Upserted
from pumice.core.errors import ObjectError
from pumice.core.model.pod import Pod
from pumice.core.model.status import COMPLETED, HOLDS_RESOURCES, TaskStatus, status_of

# The fields that change during a pod's life; the others rarely do.
_CHANGING = ("phase", "node_name", "nominated_node_name", "conditions", "start_time_ns")
_changing = attrgetter(*_CHANGING)
# What pods share that are of one job, class and priority and, all on nodes or none, one status.
_alike = attrgetter("group_name", "namespace", "phase", "terminating", "task_priority", "spec")
_lasting = attrgetter(*(n for n in Pod.__slots__ if n not in _CHANGING and n != "labels"))


class TaskCache:
    """The part of the cluster's cache that pods change."""

    job_type: ClassVar[type[Job]] = Job
    task_type: ClassVar[type[Task]] = Task
    class_type: ClassVar[type[TaskClass]] = TaskClass

    def __init__(self, settings: CacheSettings | None = None) -> None:
        self.settings = settings or CacheSettings()
        self.table = NodeTable()
        self.labels, self.evictable = NodeLabels(self.table), EvictableTasks(self.table)
        self.pods = PodIndex(self.table)
        self.table.watcher = self.pods.change
        self.table.is_watched = self.pods.is_concerned_by
        self.stores = ObjectStores()
        self.storage, self.devices = StorageCache(self.stores), DeviceCache(self.stores)
        self.classes = ClassRegistry(self)
        self.assumptions = Assumptions()
        self.totals = QueueTotals()
        self.job_index = JobIndex(self.totals)
        self.jobs: dict[str, Job] = {}
        self.tasks: dict[str, Task] = {}
        # Pods of other schedulers that are not on a node yet, by uid; we do not schedule them.
        self.foreign: dict[str, Pod] = {}
        self.broken = BrokenGangs()
        # Grows with every delta that changed something.
        self.version = 0
        # Grows with every change after which something could be placed that could not be before.
        # An update that only confirms our own bind is not such a change.
        self.placement_changes = 0

    # Pods are added, changed and deleted.

    def upsert_pods(self, pods: Iterable[Pod]) -> list[tuple[Upserted, ObjectError]]:
        """Adds or replaces pods, in order; returns those that are invalid, and why.

        Consecutive new pods of a job are added together.
        """
        refused = []
        for _, group in groupby(pods, _alike):
            alike = [*group]
            uids = [pod.uid for pod in alike]
            if self._can_enter_together(alike, uids):
                self._enter_together(alike, uids)
                continue
            for pod in alike:
                try:
                    self._upsert_pod(pod)
                except ObjectError as error:
                    refused.append((Upserted(pod), error))
        return refused

    def _can_enter_together(self, alike: list[Pod], uids: list[str]) -> bool:
        """Whether these pods are new and valid, and no decision about them is open."""
        first = alike[0]
        if len(uids) == 1 or len(self.assumptions) or not self.classes.knows(first):
            return False
        names, nodes = [pod.name for pod in alike], [pod.node_name for pod in alike]
        return (
            self.tasks.keys().isdisjoint(uids)
            and not (self.foreign and self.foreign.keys() & uids)
            and len(set(uids)) == len(uids)
            and all(nodes) == any(nodes)
            and all(uids)
            and all(names)
            and self._is_ours(first)
        )

    def _enter_together(self, pods: list[Pod], uids: list[str]) -> None:
        """Does for new pods that are alike what ``_upsert_pod`` does for each."""
        first = pods[0]
        class_, job_id = self.classes.class_of(first), self._job_id_of(first)
        job = self._job(job_id) if job_id else None
        if job is not None:
            # One text for all tasks of the job.
            job_id = job.id
        make = self.task_type
        tasks = {uid: make(pod, class_, job_id) for uid, pod in zip(uids, pods, strict=True)}
        self.tasks.update(tasks)
        self.classes.count(class_, len(tasks))
        status = status_of(first)
        if first.node_name and status not in COMPLETED:
            self.table.add_alike(tasks)
        if job is not None:
            job.add_alike(tasks)
        self.version += len(pods)
        if status is TaskStatus.PENDING:
            self.placement_changes += len(pods)

    def _upsert_pod(self, pod: Pod) -> None:
        uid = pod.uid
        known = self.tasks.get(uid)
        lasts = known is not None and _lasting(known.pod) == _lasting(pod)
        if known is not None and lasts and self._is_unchanged(known, pod):
            return
        class_ = self.classes.check(pod)
        self.version += 1
        if not self._is_ours(pod):
            self.foreign[uid] = pod
            if known is not None:
                self._forget(known)
            return
        if self.foreign:
            self.foreign.pop(uid, None)
        assumed = self.assumptions.confirm(pod)
        if known is not None:
            if lasts and self._restate(known, pod, assumed):
                return
            self._forget(known)
        if class_ is None:
            class_ = self.classes.class_of(pod)
        task = self.task_type(pod, class_, self._job_id_of(pod))
        if assumed is not None:
            task.status, task.node_name = assumed
            task.bind_annotations = self.assumptions.annotations_of(pod.uid)
        if known is not None:
            self._take_over(known, task)
        self._enter(task)
        if is_placement_change(known, task):
            self.placement_changes += 1

    def _take_over(self, known: Task, task: Task) -> None:
        """Copies to a task what stays valid of the one that it replaces."""
        if known.pod.conditions == task.pod.conditions:
            task.reported_condition = known.reported_condition
        if not task.pod.node_name and not task.bind_annotations:
            # The bind is not confirmed yet.
            task.bind_annotations = known.bind_annotations
        if known.node_name != task.node_name:
            # It is not on the node that we chose.
            self.storage.ledger.failed(task.uid)
            self.devices.ledger.failed(task.uid)

    def _is_unchanged(self, task: Task, pod: Pod) -> bool:
        """Whether an update changes nothing. An expired decision is closed by any update."""
        return (
            _changing(task.pod) == _changing(pod)
            and task.pod.labels == pod.labels
            and not self.assumptions.is_expired(pod.uid)
        )

    def _restate(self, task: Task, pod: Pod, assumed: tuple[TaskStatus, str] | None) -> bool:
        """Changes only the status of a task that holds the same resources; false: it cannot.

        Most updates of a pod are of that kind: it was bound to the node that we chose, or it has started.
        """
        status, node_name = assumed or (status_of(pod), pod.node_name)
        stays = status is task.status or {status, task.status} <= HOLDS_RESOURCES
        if not stays or node_name != task.node_name or task.class_.spec.volumes:
            return False
        job = self.jobs[task.job_id] if task.job_id else None
        shows_more = task.pod.conditions != pod.conditions
        if task.pod.labels == pod.labels:
            task.pod = pod
        elif job is not None and job.has_policies:
            # It may belong to another sub-job now.
            return False
        else:
            self._relabel(task, pod)
        task.eviction_occurred = False
        task.last_transaction = None
        if pod.node_name:
            # It shows what the bind has added.
            task.bind_annotations = ()
        if shows_more:
            task.reported_condition = None
        if job is not None:
            if status is not task.status:
                job.set_status(task, status)
            job.fit_errors.pop(task.uid, None)
            job.touch()
        task.status = status
        if task.ledger_status is not None:
            self.table.restate_task(task)
        return True

    def _relabel(self, task: Task, pod: Pod) -> None:
        """Updates what counts pods by their labels: other pods' affinity and spread rules."""
        row = None if task.ledger_status is None else self.table.row_of(task.node_name)
        if row is None or self.table.unsettled:
            task.pod = pod
            return
        self.pods.change(row, task, -1)
        task.pod = pod
        self.pods.change(row, task, 1)

    def _is_ours(self, pod: Pod) -> bool:
        """Pods that we schedule, and all that use a node."""
        return bool(pod.node_name) or pod.spec.scheduler_name in self.settings.scheduler_names

    def _job_id_of(self, pod: Pod) -> str:
        return f"{pod.namespace}/{pod.group_name}" if pod.group_name else ""

    def _enter(self, task: Task) -> None:
        self.tasks[task.uid] = task
        self.classes.count(task.class_, 1)
        if task.node_name and task.status not in COMPLETED:
            self.table.add_task(task)
            if not self.table.unsettled:
                self._kube(task, 1)
        if task.job_id:
            job = self._job(task.job_id)
            # One text for all tasks of the job.
            task.job_id = job.id
            job.add(task)
        if task.class_.spec.volumes:
            self.storage.users.add(task)
        if task.class_.spec.resource_claims:
            self.devices.users[task.uid] = task

    def _forget(self, task: Task) -> None:
        del self.tasks[task.uid]
        self.classes.count(task.class_, -1)
        if task.ledger_status is not None:
            self._kube(task, -1)
            self.table.remove_task(task)
            entry = self.table.entries.get(task.node_name)
            if entry is not None:
                self.table.forget_if_empty(entry)
        if task.class_.spec.volumes:
            self.storage.users.remove(task)
        self.devices.users.pop(task.uid, None)
        if task.job_id:
            job = self.jobs[task.job_id]
            job.remove(task)
            self._drop_if_done(job)

    def _kube(self, task: Task, sign: int) -> None:
        """Updates Kubernetes' view; settling fills the rows that are not placed yet."""
        table = self.table
        if table.unsettled:
            return
        row = table.row_of(task.node_name)
        if row is not None:
            (table.kube_add if sign > 0 else table.kube_remove)(row, task)

    def _job(self, id_: str) -> Job:
        job = self.jobs.get(id_)
        if job is None:
            job = self.jobs[id_] = self.job_type(id_, self.job_index.changed)
        return job

    def _drop_if_done(self, job: Job) -> None:
        if job.group is None and not len(job.index):
            self.jobs.pop(job.id, None)
            self.totals.forget(job.id)
            self.assumptions.end_cool_down(job.id)

    def _delete_pod(self, uid: str) -> None:
        self.foreign.pop(uid, None)
        self.assumptions.pod_gone(uid)
        self.storage.ledger.failed(uid)
        self.devices.ledger.failed(uid)
        task = self.tasks.get(uid)
        if task is not None:
            self._forget(task)
            self.version += 1
            self.placement_changes += 1

    def forget_classes(self) -> list[int]:
        """Forgets the classes that no task has any more; returns their numbers."""
        gone = self.classes.forget_unused()
        if gone:
            self.pods.forget_classes(gone)
        return [class_.number for class_ in gone]

    # Decisions.

    def assume(self, task: Task, status: TaskStatus, node_name: str) -> None:
        """Applies a decision of another engine to a task."""
        self._forget(task)
        again = self.task_type(task.pod, task.class_, task.job_id)
        again.status, again.node_name, again.reported_condition = (
            status,
            node_name,
            task.reported_condition,
        )
        again.bind_annotations = self.assumptions.annotations_of(task.uid) or task.bind_annotations
        self._enter(again)
        self.version += 1

    def restore(self, task: Task) -> None:
        """A decision failed: the task is again what its pod says."""
        self._forget(task)
        self._enter(self.task_type(task.pod, task.class_, task.job_id))
        self.storage.ledger.failed(task.uid)
        self.devices.ledger.failed(task.uid)
        self.version += 1
        self.placement_changes += 1
