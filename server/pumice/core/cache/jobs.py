"""A job: a PodGroup and the tasks that carry its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.core.cache.index import TaskIndex
from pumice.core.cache.subjobs import SubJob, first_as_index, match_values, sub_job_id
from pumice.core.cache.tasks import Task, TasksToPlace
from pumice.core.model.group import PodGroup, PodGroupPhase, PodGroupStatus
from pumice.core.model.resources import Resources
from pumice.core.model.status import HOLDS_RESOURCES, TaskStatus

if TYPE_CHECKING:
    from pumice.core.model.fit import FitErrors

_NOT_LET_IN = (PodGroupPhase.PENDING, PodGroupPhase.NONE)
_OCCUPIED = (*sorted(HOLDS_RESOURCES), TaskStatus.SUCCEEDED)


class Job:
    """The tasks of one PodGroup; a job without a PodGroup is not scheduled."""

    __slots__ = (
        "_changed",
        "closed_errors",
        "closed_text",
        "closed_version",
        "creation_time_ns",
        "fit_errors",
        "group",
        "id",
        "index",
        "min_available",
        "min_resources",
        "min_sub_jobs",
        "phase",
        "priority",
        "queue",
        "role_minima",
        "role_minima_total",
        "sub_job_of",
        "sub_jobs",
        "to_place",
        "version",
    )

    def __init__(self, id_: str, changed: set[str] | None = None) -> None:
        self.id = id_
        self.group: PodGroup | None = None
        self.queue = ""
        self.priority = 0
        self.creation_time_ns = 0
        self.min_available = 0
        self.role_minima: dict[str, int] = {}
        self.role_minima_total = 0
        # None: the PodGroup gives none, which is not the same as empty.
        self.min_resources: Resources | None = None
        # The phase as the running session sees it; the PodGroup's own between sessions.
        self.phase = PodGroupPhase.NONE
        self.index = TaskIndex()
        self.sub_jobs: dict[str, SubJob] = {}
        self.sub_job_of: dict[str, SubJob] = {}
        self.min_sub_jobs: dict[str, int] = {}
        self.fit_errors: dict[str, FitErrors] = {}
        # Grows with every change that matters to a session; then the id is added to ``_changed``.
        self.version = 0
        self._changed = set() if changed is None else changed
        # The version that the last session wrote its status for, and what it had found then; None
        # where it had also tried to place some tasks, which does not outlast it.
        self.closed_version = -1
        self.closed_errors: dict[str, FitErrors] | None = None
        # What its condition then added to Volcano's text.
        self.closed_text = ""
        self.to_place: TasksToPlace | None = None

    def __repr__(self) -> str:
        return f"Job({self.id}, {len(self.index)} tasks)"

    def touch(self) -> None:
        """Something changed that matters to a session."""
        self.version += 1
        self._changed.add(self.id)

    # What the deltas say.

    def set_group(self, group: PodGroup, default_queue: str) -> None:
        old = self.group
        self.group = group
        self.queue = group.queue or default_queue
        self.creation_time_ns = group.creation_time_ns
        self.min_available = group.min_member
        self.role_minima = dict(group.min_task_member)
        self.role_minima_total = sum(self.role_minima.values())
        resources = group.min_resources
        self.min_resources = None if resources is None else Resources.of(resources)
        self.phase = group.status.phase
        if old is None or _shape(old) != _shape(group):
            self._divide()
        self.touch()

    def clear_group(self) -> None:
        self.group = None
        self.touch()

    def add(self, task: Task) -> None:
        self.index.add(task)
        self._assign(task)
        self.touch()

    def add_alike(self, tasks: dict[str, Task]) -> None:
        """Tasks of one class, status and priority, by uid."""
        if self.has_policies:
            for task in tasks.values():
                self.add(task)
            return
        self.index.add_alike(tasks)
        sub_job = self.default_sub_job()
        sub_job.priority = max(sub_job.priority, next(iter(tasks.values())).priority)
        self.sub_job_of.update(dict.fromkeys(tasks, sub_job))
        self.touch()

    def remove(self, task: Task) -> None:
        self.index.remove(task)
        sub_job = self.sub_job_of.pop(task.uid)
        if sub_job.index is not self.index:
            sub_job.index.remove(task)
            if not len(sub_job.index):
                del self.sub_jobs[sub_job.id]
        # It never falls below zero, where it begins. Most pods of a job are alike, so that the first
        # other one settles it: to walk over all of them for each would be too much.
        if 0 < task.priority == sub_job.priority and not any(
            other.priority == task.priority for other in sub_job.index
        ):
            sub_job.priority = max((0, *(other.priority for other in sub_job.index)))
        self.fit_errors.pop(task.uid, None)
        self.touch()

    def set_status(self, task: Task, status: TaskStatus) -> None:
        self.index.move(task, status)
        sub_index = self.sub_job_of[task.uid].index
        if sub_index is not self.index:
            sub_index.move(task, status)
        task.status = status

    def set_status_many(self, tasks: list[Task], status: TaskStatus) -> None:
        """For tasks of one class, sub-job and status that are not best-effort."""
        old = tasks[0].status
        self.index.move_many(tasks, old, status)
        sub_index = self.sub_job_of[tasks[0].uid].index
        if sub_index is not self.index:
            sub_index.move_many(tasks, old, status)
        for task in tasks:
            task.status = status

    def _divide(self) -> None:
        """Makes the sub-jobs anew."""
        self.sub_jobs = {}
        self.sub_job_of = {}
        policies = self.group.sub_group_policies if self.group else ()
        self.min_sub_jobs = {f"{self.id}/{p.name}": p.min_sub_groups for p in policies}
        for task in self.index:
            self._assign(task)

    def _assign(self, task: Task) -> None:
        sub_job = None if self.has_policies else self.sub_jobs.get(self.id)
        if sub_job is None:
            sub_job = self._sub_job_for(task)
        self.sub_job_of[task.uid] = sub_job
        sub_job.priority = max(sub_job.priority, task.priority)
        if sub_job.index is not self.index:
            sub_job.index.add(task)

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
                    first_as_index(values),
                )
            return self.sub_jobs[id_]
        return self.default_sub_job()

    def default_sub_job(self) -> SubJob:
        """The sub-job of all that no policy takes; without policies it is the whole job."""
        if self.id not in self.sub_jobs:
            topology = self.group.network_topology if self.group else None
            if self.has_policies:
                sub_job = SubJob(self.id, self.id, self.id, 1, TaskIndex(), topology)
            else:
                minimum = self.min_available
                sub_job = SubJob(self.id, self.id, self.id, minimum, self.index, topology)
            self.sub_jobs[self.id] = sub_job
        return self.sub_jobs[self.id]

    # Queries.

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
        """Whether the cluster remembers the job's phase for us."""
        return True

    @property
    def has_policies(self) -> bool:
        return self.group is not None and bool(self.group.sub_group_policies)

    @property
    def has_network_topology(self) -> bool:
        if self.group is not None and self.group.network_topology is not None:
            return True
        return self.has_policies and any(s.network_topology for s in self.sub_jobs.values())

    @property
    def is_settled(self) -> bool:
        """Nothing of it waits, and nothing happened since its status was last written."""
        return (
            self.closed_version == self.version and not self.index.pending and not self.is_pending
        )

    @property
    def is_pending(self) -> bool:
        return self.phase in _NOT_LET_IN

    @property
    def is_ready(self) -> bool:
        return self.index.is_ready(self.min_available)

    @property
    def is_pipelined(self) -> bool:
        return self.index.is_pipelined(self.min_available)

    @property
    def is_starving(self) -> bool:
        return self.index.waiting_count + self.index.ready_count < self.min_available

    @property
    def enforces_roles(self) -> bool:
        """Role minima count only while they do not sum up to more than the job's minimum."""
        return bool(self.role_minima) and self.min_available >= self.role_minima_total

    def role_counts(self, *statuses: TaskStatus, best_effort: bool = False) -> dict[str, int]:
        """Tasks per role in these statuses, pending best-effort tasks included on request."""
        counts: dict[str, int] = {}
        for status in statuses:
            for task in self.index.with_status(status).values():
                counts[task.role] = counts.get(task.role, 0) + 1
        if best_effort:
            for task in self.index.pending.values():
                if task.best_effort:
                    counts[task.role] = counts.get(task.role, 0) + 1
        return counts

    def roles_short(self, counts: dict[str, int]) -> list[str]:
        return [r for r, low in sorted(self.role_minima.items()) if counts.get(r, 0) < low]

    def roles_ready(self) -> bool:
        if not self.enforces_roles:
            return True
        return not self.roles_short(self.role_counts(*_OCCUPIED, best_effort=True))

    def roles_pipelined(self) -> bool:
        if not self.enforces_roles:
            return True
        counts = self.role_counts(*_OCCUPIED, TaskStatus.PIPELINED, best_effort=True)
        return not self.roles_short(counts)

    def roles_valid(self) -> bool:
        if not self.enforces_roles:
            return True
        counts = self.role_counts(*_OCCUPIED, TaskStatus.PIPELINED, TaskStatus.PENDING)
        return not self.roles_short(counts)

    def failed_roles(self, sub_job: SubJob) -> set[str]:
        """Roles of the sub-job with a task that found no node in this session."""
        tasks, of = self.index.tasks, self.sub_job_of
        return {tasks[uid].role for uid in self.fit_errors if of[uid] is sub_job}

    def needs_more_tries(self, sub_job: SubJob) -> bool:
        """Whether, after a task found no node, the job can still become ready without it."""
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
        """What the job holds above its minimum: all of it when it names none."""
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
        """What tasks behind gates of others ask for; our own gate does not hold them back."""
        total = Resources()
        for task in self.index:
            if task.gated and not task.only_volcano_gate:
                total.add(task.request)
        return total


def _shape(group: PodGroup) -> tuple[object, ...]:
    """The fields that decide how a job is divided."""
    return (group.sub_group_policies, group.network_topology, group.min_member)
