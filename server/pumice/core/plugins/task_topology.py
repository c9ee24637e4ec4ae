"""task-topology: places roles of a job on the same node, or on different nodes.

Annotations of the PodGroup define affinity and anti-affinity between roles. The tasks of a job are
divided into buckets; the tasks of a bucket should be on one node. The plugin orders tasks by bucket,
and scores nodes by the number of tasks of a bucket that they have or can take.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.nodes import Floats
from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments, PluginOptions, integer
from pumice.core.model.fit import Mask
from pumice.core.model.resources import EPSILON, Resources
from pumice.core.session.hooks import EventHandler, Rows, Scores
from pumice.core.session.policies import PlainRule
from pumice.core.session.session import Session

_MAX_NODE_SCORE = 100
AFFINITY = "volcano.sh/task-topology-affinity"
ANTI_AFFINITY = "volcano.sh/task-topology-anti-affinity"
TASK_ORDER = "volcano.sh/task-topology-task-order"
_ROLE = "volcano.sh/task-spec"
# Volcano's priorities of roles, by the kind of their affinity.
_SELF_ANTI_AFFINITY, _INTER_AFFINITY, _SELF_AFFINITY, _INTER_ANTI_AFFINITY = 4, 3, 2, 1
Groups = list[list[str]]
_MIB = 1024 * 1024


class TaskTopologyArguments(Arguments):
    """The weight of the score."""

    weight = integer("task-topology.weight", 1, "weight of the score")


class TaskTopologyPlugin:
    """Divides the tasks of a job into buckets, and prefers nodes with room for more of a bucket."""

    name: ClassVar[str] = "task-topology"
    arguments: ClassVar[type[Arguments]] = TaskTopologyArguments

    def __init__(self, options: PluginOptions) -> None:
        self._weight = TaskTopologyArguments(options.arguments).weight
        self._jobs: dict[str, JobBuckets] = {}

    def open(self, session: Session) -> None:
        self._table = session.table
        for job in session.unsettled_jobs:
            topology = TaskTopology.of(job) if job.index.pending else None
            if topology is not None:
                self._jobs[job.id] = JobBuckets(job, topology)
        if not self._jobs:
            return
        hooks = session.hooks
        hooks.task_order[self.name] = self._compare
        hooks.task_score[self.name] = self._score
        hooks.is_plain[self.name] = PlainRule(
            lambda _: None, lambda task: self._bucket_of(task) is None
        )
        hooks.handlers.append(EventHandler(self._allocated))

    def _bucket_of(self, task: Task) -> Bucket | None:
        job = self._jobs.get(task.job_id)
        return None if job is None else job.bucket_of.get(task.uid)

    def _allocated(self, task: Task) -> None:
        job = self._jobs.get(task.job_id)
        if job is not None:
            job.place(task)

    # The order of tasks.

    def _compare(self, left: Task, right: Task) -> int:
        if left.job_id not in self._jobs or right.job_id not in self._jobs:
            return 0
        bucket, other = self._bucket_of(left), self._bucket_of(right)
        if (bucket is None) != (other is None):
            return -1 if other is None else 1
        if left.job_id != right.job_id or bucket is None or other is None:
            return 0
        # The larger bucket comes first. Sizes change with every placement, so that a SortKey is wrong.
        if len(bucket.pending) != len(other.pending):
            return len(other.pending) - len(bucket.pending)
        if bucket is not other:
            return bucket.index - other.index
        topology = self._jobs[left.job_id].topology
        ranks = topology.rank(role_of(left)), topology.rank(role_of(right))
        return int(ranks[0] < ranks[1]) - int(ranks[0] > ranks[1])

    # Scores.

    def _score(self, task: Task, rows: Rows) -> Scores | None:
        bucket = self._bucket_of(task)
        if bucket is None:
            return None
        job = self._jobs[task.job_id]
        counts = self._placed(task, job, bucket, rows) + float(len(bucket.pending))
        room = self._table.idle[:, rows] + self._table.releasing[:, rows]
        counts -= self._without_room(task, bucket, room)
        scores = counts * self._weight
        if job.max_size:
            scores = scores * _MAX_NODE_SCORE / job.max_size
        return np.where(self._has_room(task.request, room, 0.0), scores, 0.0)

    def _placed(self, task: Task, job: JobBuckets, bucket: Bucket, rows: Rows) -> Floats:
        """By row: placed tasks of the bucket, minus placed tasks with anti-affinity to the task."""
        counts: Floats = np.zeros(len(self._table))
        repelling, role = job.topology.repelling, role_of(task)
        repelled = [(node, -repelling(role, roles)) for node, roles in job.placed.items()]
        for node, number in (*bucket.on_node.items(), *repelled):
            row = self._table.row_of(node)
            if row is not None:
                counts[row] += number
        return counts[rows]

    def _without_room(self, task: Task, bucket: Bucket, room: Floats) -> Floats:
        """By row: the number of pending tasks of the bucket for which there is no room."""
        without: Floats = np.zeros(room.shape[1])
        too_small = ~self._has_room(bucket.request, room, EPSILON)
        if not too_small.any():
            return without
        remaining = bucket.request.clone()
        for other in sorted(bucket.pending.values(), key=lambda t: t.order_key):
            if other.uid == task.uid:
                continue
            remaining.subtract(other.request)
            without[too_small] += 1
            too_small &= ~self._has_room(remaining, room, EPSILON)
            if not too_small.any():
                break
        return without

    def _has_room(self, request: Resources, room: Floats, tolerance: float) -> Mask:
        """By row: whether the request fits; a request for a resource that no node offers does not."""
        fits: Mask = np.ones(room.shape[1], dtype=np.bool_)
        for name, amount in request.items():
            column = self._table.column_of(name)
            if column is not None:
                short = amount - room[column]
                fits &= (short <= 0) | (short < tolerance)
            elif amount >= max(tolerance, EPSILON):
                fits[:] = False
        return fits


def role_of(task: Task) -> str:
    """The role in the annotation; as in Volcano, the label with the same key is not read here."""
    return task.pod.annotations.get(_ROLE, "")


@dataclass(slots=True)
class TaskTopology:
    """Affinity and anti-affinity between the roles of a job."""

    # Pairs of roles, in both orders; a role can have affinity or anti-affinity to itself.
    near: set[tuple[str, str]] = field(default_factory=set)
    away: set[tuple[str, str]] = field(default_factory=set)
    # The highest priority of a role in the groups that contain it.
    priorities: dict[str, int] = field(default_factory=dict)
    orders: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, job: Job) -> TaskTopology | None:
        """The topology of a job; None: there is none, or it has an unknown or repeated role."""
        annotations = {} if job.group is None else job.group.annotations
        if not {AFFINITY, ANTI_AFFINITY, TASK_ORDER}.intersection(annotations):
            return None
        near, away = _groups(annotations.get(AFFINITY)), _groups(annotations.get(ANTI_AFFINITY))
        order = [annotations[TASK_ORDER].split(",")] if TASK_ORDER in annotations else []
        roles = {task.role for task in job.index}
        if not all(_is_valid(groups, roles) for groups in (near, away, order)):
            return None
        topology = cls()
        topology._add(near, topology.near, _SELF_AFFINITY, _INTER_AFFINITY)
        topology._add(away, topology.away, _SELF_ANTI_AFFINITY, _INTER_ANTI_AFFINITY)
        for names in order:
            topology.orders = {role: len(names) - index for index, role in enumerate(names)}
        return topology

    def _add(self, groups: Groups, pairs: set[tuple[str, str]], alone: int, together: int) -> None:
        """Adds groups of roles; the priority is ``alone`` for groups of one role."""
        for group in groups:
            is_one = len(group) == 1
            pairs.update((a, b) for a in group for b in group if a != b or is_one)
            priority = alone if is_one else together
            for role in group:
                self.priorities[role] = max(self.priorities.get(role, 0), priority)

    def rank(self, role: str) -> tuple[int, int]:
        """The rank of a role in the order of tasks; the higher rank comes first."""
        return self.orders.get(role, 0), self.priorities.get(role, 0)

    def affinity(self, role: str, roles: Mapping[str, int]) -> int:
        """The number of these tasks with affinity to a role, minus those with anti-affinity."""
        return sum(
            count * ((role, other) in self.near) - count * ((role, other) in self.away)
            for other, count in roles.items()
        )

    def repelling(self, role: str, roles: Mapping[str, int]) -> int:
        """The number of these tasks with anti-affinity to a role."""
        return sum(count for other, count in roles.items() if (role, other) in self.away)


def _groups(text: str | None) -> Groups:
    return [] if text is None else [part.split(",") for part in text.split(";")]


def _is_valid(groups: Groups, roles: set[str]) -> bool:
    """Whether all roles exist, and no group contains a role twice; empty names are ignored."""
    for group in groups:
        named = [role for role in group if role]
        if len(set(named)) < len(named) or not roles.issuperset(named):
            return False
    return True


class Bucket:
    """Tasks of a job that should be on one node."""

    def __init__(self, index: int) -> None:
        self.index = index
        # By uid.
        self.pending: dict[str, Task] = {}
        self.request = Resources()
        # The number of tasks by role, and of those with a node by node.
        self.roles, self.on_node = Counter[str](), Counter[str]()

    @property
    def load(self) -> float:
        """Volcano's sum over all resources, of millicores, mebibytes and scalars."""
        scalars = self.request.volcano_scalars().values()
        return float(self.request.milli_cpu + self.request.memory / _MIB) + sum(scalars)

    def add(self, task: Task) -> None:
        self.roles[role_of(task)] += 1
        if task.node_name:
            self.on_node[task.node_name] += 1
        else:
            self.pending[task.uid] = task
            self.request.add(task.request)

    def place(self, task: Task) -> None:
        """Counts a task as placed; as in Volcano, a placement that is undone still counts.

        So the request of the bucket becomes too small, or negative, when a task is placed again.
        """
        self.pending.pop(task.uid, None)
        self.request.subtract(task.request)
        self.on_node[task.node_name] += 1


class JobBuckets:
    """The buckets of one job, and its tasks that this session has placed."""

    def __init__(self, job: Job, topology: TaskTopology) -> None:
        self.topology = topology
        self._buckets: list[Bucket] = []
        # By uid of a task; only tasks whose role is in a group have a bucket.
        self.bucket_of: dict[str, Bucket] = {}
        # The number of tasks that this session has placed, by node and role.
        self.placed: defaultdict[str, Counter[str]] = defaultdict(Counter)
        named = topology.priorities.keys() - {""}
        by_node = defaultdict[str, Bucket](self._new)
        for task in sorted((t for t in job.index if role_of(t) in named), key=self._building_key):
            if task.node_name:
                bucket = by_node[task.node_name]
            else:
                bucket = self._best_for(role_of(task)) or self._new()
            bucket.add(task)
            self.bucket_of[task.uid] = bucket
        self.max_size = max((b.roles.total() for b in self._buckets), default=0)

    def _building_key(self, task: Task) -> tuple[int, str, int, int, str, str]:
        """Orders tasks on nodes first, then by role and name."""
        if task.node_name:
            return (0, task.node_name, 0, 0, task.name, task.uid)
        order, priority = self.topology.rank(role_of(task))
        return (1, "", -order, -priority, task.name, task.uid)

    def _new(self) -> Bucket:
        bucket = Bucket(len(self._buckets))
        self._buckets.append(bucket)
        return bucket

    def _best_for(self, role: str) -> Bucket | None:
        """The bucket with the highest affinity; of equals, the one with the smallest load."""
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
            self.placed[task.node_name][role] += 1
        bucket = self.bucket_of.get(task.uid)
        if bucket is not None:
            bucket.place(task)
