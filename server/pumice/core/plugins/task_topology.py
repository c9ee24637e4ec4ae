"""task-topology: places the roles of a job near to each other, or apart.

Annotations of the PodGroup say which roles attract and repel each other. The tasks of a job are
divided into buckets, which should each be on one node. The plugin orders tasks by bucket, and scores
nodes by how much of a bucket they can take.
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

_FULL = 100
AFFINITY = "volcano.sh/task-topology-affinity"
ANTI_AFFINITY = "volcano.sh/task-topology-anti-affinity"
TASK_ORDER = "volcano.sh/task-topology-task-order"
_ROLE = "volcano.sh/task-spec"
_AWAY_FROM_ITSELF, _NEAR_OTHERS, _NEAR_ITSELF, _AWAY_FROM_OTHERS = 4, 3, 2, 1
Groups = list[list[str]]
_MIB = 1024 * 1024


class TaskTopologyArguments(Arguments):
    """The weight of the score."""

    weight = integer("task-topology.weight", 1, "weight of the score")


class TaskTopologyPlugin:
    """Divides the tasks of a job into buckets, and prefers nodes with room for much of a bucket."""

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
        mine, other = self._bucket_of(left), self._bucket_of(right)
        if (mine is None) != (other is None):
            return -1 if other is None else 1
        if left.job_id != right.job_id or mine is None or other is None:
            return 0
        # Large buckets first. Their sizes change while tasks are placed, so that this is no sort key.
        if len(mine.pending) != len(other.pending):
            return len(other.pending) - len(mine.pending)
        if mine is not other:
            return mine.index - other.index
        topology = self._jobs[left.job_id].topology
        ranks = topology.rank(role_of(left)), topology.rank(role_of(right))
        return int(ranks[0] < ranks[1]) - int(ranks[0] > ranks[1])

    # Scores.

    def _score(self, task: Task, rows: Rows) -> Scores | None:
        bucket = self._bucket_of(task)
        if bucket is None:
            return None
        job = self._jobs[task.job_id]
        counts = self._base(task, job, bucket, rows) + float(len(bucket.pending))
        room = self._table.idle[:, rows] + self._table.releasing[:, rows]
        counts -= self._left_out(task, bucket, room)
        scores = counts * self._weight
        if job.max_size:
            scores = scores * _FULL / job.max_size
        return np.where(self._has_room(task.request, room, 0.0), scores, 0.0)

    def _base(self, task: Task, job: JobBuckets, bucket: Bucket, rows: Rows) -> Floats:
        """By row: the tasks of the bucket that are there, minus the placed tasks that repel the role."""
        counts: Floats = np.zeros(len(self._table))
        repulsion, role = job.topology.repulsion, role_of(task)
        repelled = [(node, -repulsion(role, roles)) for node, roles in job.placed.items()]
        for node, number in (*bucket.on_node.items(), *repelled):
            row = self._table.row_of(node)
            if row is not None:
                counts[row] += number
        return counts[rows]

    def _left_out(self, task: Task, bucket: Bucket, room: Floats) -> Floats:
        """By row: the number of pending tasks of the bucket for which there is no room."""
        left_out: Floats = np.zeros(room.shape[1])
        tight = ~self._has_room(bucket.request, room, EPSILON)
        if not tight.any():
            return left_out
        remaining = bucket.request.clone()
        for other in sorted(bucket.pending.values(), key=lambda t: t.order_key):
            if other.uid == task.uid:
                continue
            remaining.subtract(other.request)
            left_out[tight] += 1
            tight &= ~self._has_room(remaining, room, EPSILON)
            if not tight.any():
                break
        return left_out

    def _has_room(self, request: Resources, room: Floats, tolerance: float) -> Mask:
        """By row: whether the request fits; a resource that no node offers does not."""
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
    """The role in the annotation; a label does not count here."""
    return task.pod.annotations.get(_ROLE, "")


@dataclass(slots=True)
class TaskTopology:
    """Which roles of a job attract and repel each other."""

    # Pairs of roles, in both orders; a role can attract or repel itself.
    near: set[tuple[str, str]] = field(default_factory=set)
    away: set[tuple[str, str]] = field(default_factory=set)
    # The highest priority of a role, over the groups that name it.
    priorities: dict[str, int] = field(default_factory=dict)
    orders: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, job: Job) -> TaskTopology | None:
        """The topology of a job; None: it has none, or it names unknown roles or a role twice."""
        annotations = {} if job.group is None else job.group.annotations
        if not {AFFINITY, ANTI_AFFINITY, TASK_ORDER}.intersection(annotations):
            return None
        near, away = _groups(annotations.get(AFFINITY)), _groups(annotations.get(ANTI_AFFINITY))
        order = [annotations[TASK_ORDER].split(",")] if TASK_ORDER in annotations else []
        roles = {task.role for task in job.index}
        if not all(_is_sound(groups, roles) for groups in (near, away, order)):
            return None
        topology = cls()
        topology._add(near, topology.near, _NEAR_ITSELF, _NEAR_OTHERS)
        topology._add(away, topology.away, _AWAY_FROM_ITSELF, _AWAY_FROM_OTHERS)
        for names in order:
            topology.orders = {role: len(names) - place for place, role in enumerate(names)}
        return topology

    def _add(self, groups: Groups, pairs: set[tuple[str, str]], alone: int, together: int) -> None:
        for group in groups:
            if len(group) == 1:
                pairs.add((group[0], group[0]))
            else:
                pairs.update((a, b) for a in group for b in group if a != b)
            value = alone if len(group) == 1 else together
            for role in group:
                self.priorities[role] = max(self.priorities.get(role, 0), value)

    def rank(self, role: str) -> tuple[int, int]:
        """The higher comes first."""
        return self.orders.get(role, 0), self.priorities.get(role, 0)

    def affinity(self, role: str, roles: Mapping[str, int]) -> int:
        """The number of these tasks that attract a role, minus those that repel it."""
        return sum(
            count * ((role, other) in self.near) - count * ((role, other) in self.away)
            for other, count in roles.items()
        )

    def repulsion(self, role: str, roles: Mapping[str, int]) -> int:
        """The number of these tasks that repel a role."""
        return sum(count for other, count in roles.items() if (role, other) in self.away)


def _groups(text: str | None) -> Groups:
    return [] if text is None else [part.split(",") for part in text.split(";")]


def _is_sound(groups: Groups, roles: set[str]) -> bool:
    """Whether all roles exist, and none is named twice in a group; empty names do not count."""
    for group in groups:
        named = [role for role in group if role]
        if len(set(named)) < len(named) or not roles.issuperset(named):
            return False
    return True


class Bucket:
    """Tasks with affinity to each other, or without anti-affinity."""

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
        """Counts a task as placed; as in Volcano, an undone placement still counts.

        So the request of the bucket becomes too small, or negative, when a task is placed again.
        """
        self.pending.pop(task.uid, None)
        self.request.subtract(task.request)
        self.on_node[task.node_name] += 1


class JobBuckets:
    """The buckets of one job, and the tasks of it that this session has placed."""

    def __init__(self, job: Job, topology: TaskTopology) -> None:
        self.topology = topology
        self._buckets: list[Bucket] = []
        # By uid of a task whose role a group names.
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
        """The bucket with the highest affinity; of equals, the one that requests least."""
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
