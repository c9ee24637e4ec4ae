"""Buckets: the tasks of a job that shall be near to each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.model.resources import Resources
from pumice.core.plugins.task_topology.topology import TaskTopology, role_of

_MIB = 1024 * 1024
# Amounts that Volcano counts in thousandths and pumice does not.
_COUNTED_WHOLE = ("ephemeral-storage", "hugepages-")


class Bucket:
    """Tasks that attract each other, or do not mind each other."""

    __slots__ = ("bound", "index", "load", "on_node", "pending", "request", "roles")

    def __init__(self, index: int) -> None:
        self.index = index
        # By uid.
        self.pending: dict[str, Task] = {}
        self.request = Resources()
        self.roles: dict[str, int] = {}
        self.bound = 0
        self.on_node: dict[str, int] = {}
        # What its pending tasks ask for, as one number.
        self.load = 0.0

    def add(self, role: str, task: Task) -> None:
        self.roles[role] = self.roles.get(role, 0) + 1
        if task.node_name:
            self._bind(task)
            return
        self.pending[task.uid] = task
        self.request.add(task.request)
        self.load += _load(task.request)

    def place(self, task: Task) -> None:
        """A task was placed in this session; Volcano does not notice when that is undone."""
        if self.pending.pop(task.uid, None) is not None:
            self.request.subtract(task.request)
            self.load -= _load(task.request)
        self._bind(task)

    def _bind(self, task: Task) -> None:
        self.on_node[task.node_name] = self.on_node.get(task.node_name, 0) + 1
        self.bound += 1

    @property
    def size(self) -> int:
        return len(self.pending) + self.bound


class JobBuckets:
    """The buckets of one job, and what this session has placed of it."""

    def __init__(self, job: Job, topology: TaskTopology) -> None:
        self.topology = topology
        self._buckets: list[Bucket] = []
        self._of_task: dict[str, Bucket] = {}
        self.max_size = 0
        # By node: tasks that this session has placed there, by role.
        self.placed: dict[str, dict[str, int]] = {}
        self._build([task for task in job.index if _has_place(task, topology)])

    def of(self, task: Task) -> Bucket | None:
        return self._of_task.get(task.uid)

    def _build(self, tasks: Iterable[Task]) -> None:
        by_node: dict[str, Bucket] = {}
        for task in sorted(tasks, key=self._building_key):
            role = role_of(task)
            if task.node_name:
                bucket = by_node.get(task.node_name)
                if bucket is None:
                    bucket = by_node[task.node_name] = self._new()
            else:
                bucket = self._best_for(role) or self._new()
            bucket.add(role, task)
            self._of_task[task.uid] = bucket
            self.max_size = max(self.max_size, bucket.size)

    def _building_key(self, task: Task) -> tuple[int, str, int, int, str, str]:
        """Tasks that are on nodes first, then by role and name."""
        if task.node_name:
            return (0, task.node_name, 0, 0, task.name, task.uid)
        order, priority = self.topology.rank(role_of(task))
        return (1, "", -order, -priority, task.name, task.uid)

    def _new(self) -> Bucket:
        bucket = Bucket(len(self._buckets))
        self._buckets.append(bucket)
        return bucket

    def _best_for(self, role: str) -> Bucket | None:
        """The bucket with the highest affinity, of equals the one that asks for least."""
        best, highest = None, 0
        for bucket in self._buckets:
            affinity = self.topology.affinity(role, bucket.roles)
            if affinity < 0:
                continue
            if best is None or affinity > highest:
                best, highest = bucket, affinity
            elif affinity == highest and bucket.load < best.load:
                best = bucket
        return best

    def place(self, task: Task) -> None:
        role = role_of(task)
        if role:
            here = self.placed.setdefault(task.node_name, {})
            here[role] = here.get(role, 0) + 1
        bucket = self._of_task.get(task.uid)
        if bucket is not None:
            bucket.place(task)


def _load(request: Resources) -> float:
    """Volcano's sum over all resources: millicores, mebibytes, and scalars as they are."""
    load = float(request.milli_cpu + request.memory / _MIB)
    return load + sum(_as_volcano(request.scalars))


def _as_volcano(scalars: Mapping[str, int | float]) -> Iterable[float]:
    for name, amount in sorted(scalars.items()):
        yield float(amount * 1000 if name.startswith(_COUNTED_WHOLE) else amount)


def _has_place(task: Task, topology: TaskTopology) -> bool:
    """Whether the task belongs into a bucket: it has a role that some group names."""
    return bool(role_of(task)) and role_of(task) in topology.priorities
