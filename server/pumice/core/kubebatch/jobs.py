"""Jobs as kube-batch makes them: from a PodGroup, from a controller's pods, or from a budget.

Pods that name no PodGroup join the job of their controller, or are a job of their own. Its group
exists in memory only and is made from the oldest pod. A PodDisruptionBudget of the same controller
takes the group's place.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import Enum

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.kubebatch.tolerance import counted, is_empty, least
from pumice.core.model.group import PodDisruptionBudget, PodGroup, PodGroupStatus
from pumice.core.model.pod import Pod
from pumice.core.model.resources import Number

MIN_MEMBER_ANNOTATION = "scheduling.k8s.io/group-min-member"
SHADOW_ANNOTATION = "volcano/shadow-pod-group"
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


class Origin(Enum):
    """What a job was made from."""

    POD_GROUP = 1
    PODS = 2
    BUDGET = 3


class KubeBatchClass(TaskClass):
    """Requests only resources that kube-batch counts; below the tolerance a request is zero."""

    __slots__ = ()

    def __post_init__(self) -> None:
        self.amounts = counted(self.amounts)
        super().__post_init__()
        self.best_effort = is_empty(self.request)

    def least(self, resource: str) -> Number | None:
        return least(resource, self.request.get(resource))


class KubeBatchTask(Task):
    """Equal tasks are ordered by age and uid; numbers in their names do not count."""

    __slots__ = ()

    @property
    def pod_index(self) -> int | None:
        return None


class KubeBatchJob(Job):
    """Ready when enough tasks are placed or finished; pending best-effort tasks do not count."""

    __slots__ = ("budget", "left_out_for", "oldest")

    def __init__(self, id_: str, changed: set[str]) -> None:
        super().__init__(id_, changed)
        self.budget: PodDisruptionBudget | None = None
        # The oldest pod of a job without a PodGroup.
        self.oldest: Task | None = None
        # The message of the event that reported why the job is left out of sessions.
        self.left_out_for = ""

    @property
    def origin(self) -> Origin:
        if is_group_id(self.id):
            return Origin.POD_GROUP
        return Origin.PODS if self.budget is None else Origin.BUDGET

    @property
    def namespace(self) -> str:
        return self.group.namespace if self.group else super().namespace

    @property
    def name(self) -> str:
        return self.group.name if self.group else super().name

    @property
    def is_ready(self) -> bool:
        return self.index.ready_count >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        return self.index.waiting_count + self.index.ready_count >= self.min_available

    @property
    def keeps_phase(self) -> bool:
        return self.origin is Origin.POD_GROUP

    def note_status(self, status: PodGroupStatus) -> None:
        """Keeps the status of a job whose group exists in memory only."""
        if self.group is not None:
            self.group = replace(self.group, status=status)
            self.phase = status.phase

    def group_in_memory(self) -> PodGroup | None:
        """The group that a job without a PodGroup has now."""
        if self.budget is not None:
            return self._group_of(self.budget, self.budget.name, self.budget.min_available)
        if not len(self.index):
            self.oldest = None
            return None
        if self.oldest is None:
            self.oldest = min(self.index, key=lambda task: task.order_key)
        pod = self.oldest.pod
        return self._group_of(pod, self.id, _min_member(pod), pod.spec.priority_class_name)

    def _group_of(
        self, source: Pod | PodDisruptionBudget, name: str, minimum: int, priority_class: str = ""
    ) -> PodGroup:
        return PodGroup(
            # Without a uid: the cluster has no such object.
            "",
            source.namespace,
            name,
            creation_time_ns=source.creation_time_ns,
            annotations={SHADOW_ANNOTATION: self.id},
            min_member=minimum,
            priority_class_name=priority_class,
            status=self.status,
        )

    def joined(self, task: Task) -> None:
        if self.oldest is not None and task.order_key < self.oldest.order_key:
            self.oldest = task

    def left(self, task: Task) -> None:
        if self.oldest is task:
            self.oldest = None


def is_group_id(job_id: str) -> bool:
    """Whether a job is that of a PodGroup: its id is a namespace and a name, that of others a uid."""
    return "/" in job_id


def _min_member(pod: Pod) -> int:
    """The number in the annotation; 1 without a valid one."""
    text = pod.annotations.get(MIN_MEMBER_ANNOTATION, "")
    return int(text) if _INTEGER.fullmatch(text) else 1
