"""Applies new, changed and deleted pods to the tasks, jobs and nodes of the cache."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from pumice.core.cache.assumptions import Assumption
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.deltas import Upserted
from pumice.core.errors import ObjectError
from pumice.core.model.pod import Pod
from pumice.core.model.status import COMPLETED, HOLDS_RESOURCES, PENDING, TaskStatus, status_of

if TYPE_CHECKING:
    from pumice.core.cache.cluster import ClusterCache

# The fields that change during a pod's life; the others rarely do.
_CHANGING = ("phase", "node_name", "nominated_node_name", "conditions", "start_time_ns")
_changing = attrgetter(*_CHANGING)
# Equal for pods of one job, class and priority. If all of them are on nodes, or none, they also
# have one status.
_alike = attrgetter("group_name", "namespace", "phase", "terminating", "task_priority", "spec")
_lasting = attrgetter(*(n for n in Pod.__slots__ if n not in _CHANGING and n != "labels"))


class PodUpdates:
    """Makes tasks of pods, and updates the tasks with their pods."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache, self._classes = cache, cache.classes
        self._tasks, self._foreign = cache.tasks, cache.foreign
        self._table, self._assumptions = cache.table, cache.assumptions

    def upsert_all(self, pods: Iterable[Pod]) -> list[tuple[Upserted, ObjectError]]:
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
                    self.upsert(pod)
                except ObjectError as error:
                    refused.append((Upserted(pod), error))
        return refused

    def _can_enter_together(self, alike: list[Pod], uids: list[str]) -> bool:
        """Whether these pods are new and valid, and no decision about them is open."""
        first = alike[0]
        if len(uids) == 1 or len(self._assumptions) or not self._classes.knows(first):
            return False
        names, nodes = [pod.name for pod in alike], [pod.node_name for pod in alike]
        return (
            self._tasks.keys().isdisjoint(uids)
            and not (self._foreign and self._foreign.keys() & uids)
            and len(set(uids)) == len(uids)
            and all(nodes) == any(nodes)
            and all(uids)
            and all(names)
            and self._is_ours(first)
        )

    def _enter_together(self, pods: list[Pod], uids: list[str]) -> None:
        """Adds new pods that are alike; the result is that of ``upsert`` for each of them."""
        first = pods[0]
        class_, job_id = self._classes.class_of(first), self._job_id_of(first)
        make = self._cache.task_type
        self._enter({uid: make(pod, class_, job_id) for uid, pod in zip(uids, pods, strict=True)})
        self._cache.version += len(pods)
        if status_of(first) is PENDING:
            self._cache.placement_changes += len(pods)

    def upsert(self, pod: Pod) -> None:
        uid = pod.uid
        known = self._tasks.get(uid)
        lasts = known is not None and _lasting(known.pod) == _lasting(pod)
        if known is not None and lasts and self._is_unchanged(known, pod):
            return
        class_ = self._classes.check(pod)
        self._cache.version += 1
        if not self._is_ours(pod):
            self._foreign[uid] = pod
            if known is not None:
                self._forget(known)
            return
        if self._foreign:
            self._foreign.pop(uid, None)
        assumed = self._assumptions.confirm(pod)
        if known is not None:
            if lasts and self._restate(known, pod, assumed):
                return
            self._forget(known)
        if class_ is None:
            class_ = self._classes.class_of(pod)
        task = self._cache.task_type(pod, class_, self._job_id_of(pod))
        if assumed is not None:
            task.status, task.node_name = assumed
            task.bind_annotations = self._assumptions.annotations_of(pod.uid)
        if known is not None:
            self._take_over(known, task)
        self._enter({uid: task})
        if _is_placement_change(known, task):
            self._cache.placement_changes += 1

    def _take_over(self, known: Task, task: Task) -> None:
        """Copies to a task what stays valid from the task that it replaces."""
        if known.pod.conditions == task.pod.conditions:
            task.reported_condition = known.reported_condition
        if not task.pod.node_name and not task.bind_annotations:
            # The bind is not confirmed yet.
            task.bind_annotations = known.bind_annotations
        if known.node_name != task.node_name:
            # The pod is not on the node that we chose.
            self._release(task.uid)

    def _is_unchanged(self, task: Task, pod: Pod) -> bool:
        """Whether an update changes nothing; any update closes an expired decision."""
        return (
            _changing(task.pod) == _changing(pod)
            and task.pod.labels == pod.labels
            and not self._assumptions.is_expired(pod.uid)
        )

    def _restate(self, task: Task, pod: Pod, assumed: tuple[TaskStatus, str] | None) -> bool:
        """Updates a task in place, if it holds the same resources as before; false: it does not.

        Most updates are of this kind: the pod was bound to the node that we chose, or has started.
        """
        status, node_name = assumed or (status_of(pod), pod.node_name)
        stays = status is task.status or {status, task.status} <= HOLDS_RESOURCES
        if not stays or node_name != task.node_name or task.class_.spec.volumes:
            return False
        job = self._cache.jobs[task.job_id] if task.job_id else None
        shows_more = task.pod.conditions != pod.conditions
        if task.pod.labels == pod.labels:
            task.pod = pod
        elif job is not None and job.has_policies:
            # The pod may belong to another sub-job now.
            return False
        else:
            self._relabel(task, pod)
        task.eviction_occurred = False
        task.last_transaction = None
        if pod.node_name:
            # The pod itself now has the annotations of the bind.
            task.bind_annotations = ()
        if shows_more:
            task.reported_condition = None
        if job is not None:
            if status is not task.status:
                job.set_status([task], status)
            job.fit_errors.pop(task.uid, None)
            job.touch()
        task.status = status
        if task.counted_status is not None:
            self._table.restate(task)
        return True

    def _relabel(self, task: Task, pod: Pod) -> None:
        """Sets the pod of a task, and updates the indexes that count pods by their labels."""
        row = None if task.counted_status is None else self._table.row_of(task.node_name)
        if row is None or self._table.unsettled:
            task.pod = pod
            return
        self._cache.pods.change([row], [task], -1)
        task.pod = pod
        self._cache.pods.change([row], [task], 1)

    def _is_ours(self, pod: Pod) -> bool:
        """Whether we schedule the pod, or it is on a node."""
        return (
            bool(pod.node_name) or pod.spec.scheduler_name in self._cache.settings.scheduler_names
        )

    def _job_id_of(self, pod: Pod) -> str:
        return f"{pod.namespace}/{pod.group_name}" if pod.group_name else ""

    def _enter(self, tasks: dict[str, Task]) -> None:
        """Adds tasks of one job, class, priority and status, all on nodes or none, by uid."""
        first = next(iter(tasks.values()))
        self._tasks.update(tasks)
        self._classes.count(first.class_, len(tasks))
        if first.node_name and first.status not in COMPLETED:
            self._table.add(tasks)
        if first.job_id:
            job = self._cache.jobs.get_or_add(first.job_id)
            if first.job_id is not job.id:
                # All tasks of the job share one string.
                for task in tasks.values():
                    task.job_id = job.id
            job.add(tasks)
        spec = first.class_.spec
        if spec.volumes:
            for task in tasks.values():
                self._cache.storage.users.change(task, 1)
        if spec.resource_claims:
            self._cache.devices.users.update(tasks)

    def _forget(self, task: Task) -> None:
        del self._tasks[task.uid]
        self._classes.count(task.class_, -1)
        if task.counted_status is not None:
            self._table.remove(task)
        if task.class_.spec.volumes:
            self._cache.storage.users.change(task, -1)
        self._cache.devices.users.pop(task.uid, None)
        if task.job_id:
            job = self._cache.jobs[task.job_id]
            job.remove(task)
            self._cache.drop_if_done(job)

    def delete(self, uid: str) -> None:
        self._foreign.pop(uid, None)
        self._assumptions.pod_gone(uid)
        self._release(uid)
        task = self._tasks.get(uid)
        if task is not None:
            self._forget(task)
            self._cache.version += 1
            self._cache.placement_changes += 1

    # Decisions.

    def assume(self, assumption: Assumption) -> None:
        """Opens an assumption about a decision of another engine, and applies it to its task."""
        self._assumptions.open(assumption)
        task = self._tasks[assumption.pod_uid]
        again = self._copy_of(task, task.class_, assumption.status, assumption.node_name)
        again.bind_annotations = assumption.annotations or task.bind_annotations
        self._replace(task, again)
        self._cache.version += 1

    def restore(self, task: Task) -> None:
        """Resets a task to the state of its pod, after a decision has failed."""
        self._replace(task, self._cache.task_type(task.pod, task.class_, task.job_id))
        self._release(task.uid)
        self._cache.version += 1
        self._cache.placement_changes += 1

    def reclassify(self) -> None:
        """Updates the classes of tasks whose volumes have changed."""
        for task in self._cache.storage.users.take_outdated():
            class_ = self._classes.class_of(task.pod)
            if class_ is not task.class_:
                again = self._copy_of(task, class_, task.status, task.node_name)
                self._replace(task, again)

    def _copy_of(self, task: Task, class_: TaskClass, status: TaskStatus, node_name: str) -> Task:
        again = self._cache.task_type(task.pod, class_, task.job_id)
        again.status, again.node_name = status, node_name
        again.reported_condition = task.reported_condition
        return again

    def _replace(self, task: Task, again: Task) -> None:
        self._forget(task)
        self._enter({again.uid: again})

    def _release(self, uid: str) -> None:
        """Frees the volumes and devices that were chosen for a pod."""
        for reservations in self._cache.reservations:
            reservations.unreserve(uid)


def _is_placement_change(old: Task | None, new: Task) -> bool:
    """Whether an update of a pod may allow a placement: the pod waits, or it frees resources."""
    if old is None or old.class_ is not new.class_:
        return new.status is PENDING or old is not None
    return old.status is not new.status and new.status not in HOLDS_RESOURCES
