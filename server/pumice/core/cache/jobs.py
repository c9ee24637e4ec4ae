"""A job: a PodGroup and the tasks that name it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pumice.core.cache.subjobs import SubJob, match_values, sub_job_id
from pumice.core.cache.task_index import TaskIndex
from pumice.core.cache.tasks import Task, TasksToPlace
from pumice.core.model.group import PodGroup, PodGroupPhase, PodGroupStatus
from pumice.core.model.resources import Resources
from pumice.core.model.status import HOLDS_RESOURCES, TaskStatus
from pumice.patterns.golang import parse_int

if TYPE_CHECKING:
    from pumice.core.model.fit import FitErrors

_NOT_ADMITTED = (PodGroupPhase.PENDING, PodGroupPhase.NONE)
_OCCUPIED = (*sorted(HOLDS_RESOURCES), TaskStatus.SUCCEEDED)


@dataclass(slots=True, eq=False, repr=False)
class Job:
    """The tasks of one PodGroup; a job without a PodGroup is not scheduled."""

    id: str
    # The set to which a change of this job adds its id.
    _changed: set[str] = field(default_factory=set)
    # Grows with every change that matters to a session.
    version: int = 0
    group: PodGroup | None = None
    has_policies: bool = False
    queue: str = ""
    priority: int = 0
    creation_time_ns: int = 0
    min_available: int = 0
    role_minima: dict[str, int] = field(default_factory=dict)
    role_minima_total: int = 0
    # None: the PodGroup gives none, which is not the same as empty.
    min_resources: Resources | None = None
    # The phase as the running session sees it; the PodGroup's own between sessions.
    phase: PodGroupPhase = PodGroupPhase.NONE
    index: TaskIndex = field(default_factory=TaskIndex)
    sub_jobs: dict[str, SubJob] = field(default_factory=dict)
    # By the uid of the task; empty without policies, when there is one sub-job.
    _sub_job_of: dict[str, SubJob] = field(default_factory=dict)
    min_sub_jobs: dict[str, int] = field(default_factory=dict)
    fit_errors: dict[str, FitErrors] = field(default_factory=dict)
    # The version of the job when its status was last written, and the fit errors at that time; None:
    # the session had also moved some of its tasks, so that the errors hold no longer.
    closed_version: int = -1
    closed_errors: dict[str, FitErrors] | None = None
    # The text that its condition then added to Volcano's text.
    closed_text: str = ""
    to_place: TasksToPlace | None = None

    def __repr__(self) -> str:
        return f"Job({self.id}, {len(self.index)} tasks)"

    def touch(self) -> None:
        """Notes a change that matters to a session."""
        self.version += 1
        self._changed.add(self.id)

    # Changes.

    def set_group(
        self, group: PodGroup, default_queue: str, ignored_resources: Collection[str] = ()
    ) -> None:
        old = self.group
        self.group = group
        self.has_policies = bool(group.sub_group_policies)
        self.queue = group.queue or default_queue
        self.creation_time_ns = group.creation_time_ns
        self.min_available = group.min_member
        self.role_minima = dict(group.min_task_member)
        self.role_minima_total = sum(self.role_minima.values())
        resources = group.min_resources
        self.min_resources = None
        if resources is not None:
            counted = (item for item in resources if item[0] not in ignored_resources)
            self.min_resources = Resources.of(counted)
        self.phase = group.status.phase
        if old is None or _shape(old) != _shape(group):
            self._divide()
        self.touch()

    def clear_group(self) -> None:
        self.group, self.has_policies = None, False
        self._divide()
        self.touch()

    def add(self, tasks: dict[str, Task]) -> None:
        """Adds tasks of one class, status and priority, by uid."""
        self.index.add(tasks)
        # Without policies there is one sub-job, and only the priority of the tasks matters to it.
        self._join(tasks.values() if self.has_policies else [next(iter(tasks.values()))])
        self.touch()

    def remove(self, task: Task) -> None:
        self.index.remove(task)
        sub_job = self.sub_job_of(task.uid)
        if self.has_policies:
            del self._sub_job_of[task.uid]
            sub_job.index.remove(task)
            if not len(sub_job.index):
                del self.sub_jobs[sub_job.id]
        # The priority is at least zero. Most pods of a job have the same one, so that mostly the first
        # other pod shows that the priority of the sub-job stays.
        if 0 < task.priority == sub_job.priority and not any(
            other.priority == task.priority for other in sub_job.index
        ):
            sub_job.priority = max((0, *(other.priority for other in sub_job.index)))
        self.fit_errors.pop(task.uid, None)
        self.touch()

    def set_status(self, tasks: list[Task], status: TaskStatus) -> None:
        """Sets the status of tasks that are of one class, sub-job and status."""
        self.index.move(tasks, status)
        if self.has_policies:
            self._sub_job_of[tasks[0].uid].index.move(tasks, status)
        for task in tasks:
            task.status = status

    def _divide(self) -> None:
        self.sub_jobs, self._sub_job_of = {}, {}
        policies = self.group.sub_group_policies if self.group else ()
        self.min_sub_jobs = {f"{self.id}/{p.name}": p.min_sub_groups for p in policies}
        self._join(self.index)

    def _join(self, tasks: Iterable[Task]) -> None:
        """Puts tasks into their sub-jobs."""
        for task in tasks:
            sub_job = self._sub_job_for(task)
            sub_job.priority = max(sub_job.priority, task.priority)
            if self.has_policies:
                self._sub_job_of[task.uid] = sub_job
                sub_job.index.add({task.uid: task})

    def _sub_job_for(self, task: Task) -> SubJob:
        for policy in self.group.sub_group_policies if self.group else ():
            values = match_values(policy, task.pod)
            if not values:
                continue
            id_ = sub_job_id(self.id, policy.name, values)
            if id_ not in self.sub_jobs:
                self.sub_jobs[id_] = SubJob(
                    id_,
                    f"{self.id}/{policy.name}",
                    self.id,
                    policy.sub_group_size,
                    TaskIndex(),
                    policy.network_topology,
                    parse_int(values[0]) or 0,
                )
            return self.sub_jobs[id_]
        return self.default_sub_job()

    def default_sub_job(self) -> SubJob:
        """The sub-job of tasks that match no policy; without policies it is the whole job."""
        sub_job = self.sub_jobs.get(self.id)
        if sub_job is None:
            topology = self.group.network_topology if self.group else None
            whole = (self.min_available, self.index)
            minimum, index = (1, TaskIndex()) if self.has_policies else whole
            sub_job = SubJob(self.id, self.id, self.id, minimum, index, topology)
            self.sub_jobs[self.id] = sub_job
        return sub_job

    # Queries.

    def sub_job_of(self, uid: str) -> SubJob:
        """The sub-job of a task."""
        return self._sub_job_of[uid] if self.has_policies else self.default_sub_job()

    @property
    def namespace(self) -> str:
        return self.id.partition("/")[0]

    @property
    def name(self) -> str:
        return self.id.partition("/")[2]

    @property
    def status(self) -> PodGroupStatus:
        return self.group.status if self.group else PodGroupStatus()

    @property
    def keeps_phase(self) -> bool:
        """Whether the job's phase is stored in the cluster."""
        return True

    @property
    def has_network_topology(self) -> bool:
        if self.group is not None and self.group.network_topology is not None:
            return True
        return self.has_policies and any(s.network_topology for s in self.sub_jobs.values())

    @property
    def topology_key(self) -> str:
        """The label whose value must be the same on all nodes with pods of the job."""
        return self.group.topology_key if self.group is not None else ""

    @property
    def stays_together(self) -> bool:
        """Whether it is placed within a domain: a HyperNode, or nodes with the same label value."""
        return bool(self.topology_key) or self.has_network_topology

    @property
    def is_settled(self) -> bool:
        """Whether none of its tasks waits, and it has not changed since its status was written."""
        return (
            self.closed_version == self.version and not self.index.pending and not self.is_pending
        )

    @property
    def is_pending(self) -> bool:
        return self.phase in _NOT_ADMITTED

    @property
    def is_ready(self) -> bool:
        index = self.index
        return index.ready_count + index.pending_best_effort >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        return self.index.is_pipelined(self.min_available)

    @property
    def is_starving(self) -> bool:
        return self.index.waiting_count + self.index.ready_count < self.min_available

    @property
    def enforces_roles(self) -> bool:
        """Whether role minima count: they do not if their sum exceeds the job's minimum."""
        return bool(self.role_minima) and self.min_available >= self.role_minima_total

    def role_counts(self, *statuses: TaskStatus, best_effort: bool = False) -> dict[str, int]:
        """Tasks per role in these statuses, pending best-effort tasks included on request."""
        counts = Counter(
            task.role for status in statuses for task in self.index.with_status(status).values()
        )
        if best_effort:
            pending = self.index.pending.values()
            counts.update(task.role for task in pending if task.best_effort)
        return counts

    def roles_short(self, counts: dict[str, int]) -> list[str]:
        return [r for r, low in sorted(self.role_minima.items()) if counts.get(r, 0) < low]

    def has_roles(self, *statuses: TaskStatus, best_effort: bool = False) -> bool:
        """Whether enough tasks of each role hold resources, succeeded or have these statuses."""
        if not self.enforces_roles:
            return True
        counts = self.role_counts(*_OCCUPIED, *statuses, best_effort=best_effort)
        return not self.roles_short(counts)

    def failed_roles(self, sub_job: SubJob) -> set[str]:
        """Roles of the sub-job with a task that found no node in this session."""
        tasks, of = self.index.tasks, self.sub_job_of
        return {tasks[uid].role for uid in self.fit_errors if of(uid) is sub_job}

    def needs_more_tries(self, sub_job: SubJob) -> bool:
        """Whether the job can still become ready without the tasks that found no node."""
        if self.min_available == len(self.index) or sub_job.min_available >= len(sub_job.index):
            return False
        if self.has_policies:
            return True
        failed = self.failed_roles(sub_job)
        if self.min_available < self.role_minima_total:
            pending = self.index.pending.values()
            left = sum(1 for task in pending if task.role not in failed)
            return self.index.ready_count + left >= self.min_available
        occupied = self.role_counts(*_OCCUPIED, best_effort=True)
        return not any(occupied.get(role, 0) < self.role_minima.get(role, 0) for role in failed)

    def minimum(self) -> Resources:
        return Resources() if self.min_resources is None else self.min_resources

    def elastic(self) -> Resources:
        """What the job holds above its minimum; without a minimum, all that it holds."""
        return self.index.allocated.surplus_over(self.minimum())

    def without_gated(self, amount: Resources) -> Resources:
        """The amount less what gated tasks ask for, never below zero."""
        gated = self.gated_request()
        if gated.is_empty():
            return amount
        result = amount.clone()
        result.milli_cpu = max(result.milli_cpu - gated.milli_cpu, 0)
        result.memory = max(result.memory - gated.memory, 0)
        for name, held in result.scalars.items():
            if name in gated.scalars:
                result.scalars[name] = max(held - gated.scalars[name], 0)
        return result

    def gated_request(self) -> Resources:
        """What gated tasks ask for; Volcano's own gate does not count as one."""
        total = Resources()
        for task in self.index:
            if task.gated and not task.only_volcano_gate:
                total.add(task.request)
        return total


def _shape(group: PodGroup) -> tuple[object, ...]:
    """The fields that decide how a job is divided."""
    return (group.sub_group_policies, group.network_topology, group.min_member)
