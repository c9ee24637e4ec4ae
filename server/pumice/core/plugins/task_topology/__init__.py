"""task-topology: places the roles of a job near to each other, or apart."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pumice.core.cache.nodes import Floats
from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments, PluginOptions, integer
from pumice.core.model.fit import Mask
from pumice.core.model.resources import EPSILON, Resources
from pumice.core.plugins.task_topology.buckets import Bucket, JobBuckets, TaskTopology, role_of
from pumice.core.session.hooks import EventHandler, Rows, Scores
from pumice.core.session.policies import PlainRule
from pumice.core.session.session import Session

_FULL = 100


class TaskTopologyArguments(Arguments):
    """The weight of the score."""

    weight = integer("task-topology.weight", 1, "weight of the score")


class TaskTopologyPlugin:
    """Divides the tasks of a job into buckets, and prefers nodes that take much of a bucket."""

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
        return None if job is None else job.of(task)

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
        # Large buckets first. This changes while tasks are placed, so that it cannot be a key.
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
        """By row: tasks of the bucket that are there, less those placed there that repel it."""
        counts: Floats = np.zeros(len(self._table))
        repulsion, role = job.topology.repulsion, role_of(task)
        repelled = [(node, -repulsion(role, roles)) for node, roles in job.placed.items()]
        for node, number in (*bucket.on_node.items(), *repelled):
            row = self._table.row_of(node)
            if row is not None:
                counts[row] += number
        return counts[rows]

    def _left_out(self, task: Task, bucket: Bucket, room: Floats) -> Floats:
        """By row: how many pending tasks of the bucket must stay out for the rest to fit."""
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
        """Which columns of the room take the request; what a node does not offer is none of it."""
        fits: Mask = np.ones(room.shape[1], dtype=np.bool_)
        for name, amount in request.items():
            column = self._table.column_of(name)
            if column is not None:
                short = amount - room[column]
                fits &= (short <= 0) | (short < tolerance)
            elif amount >= max(tolerance, EPSILON):
                fits[:] = False
        return fits
