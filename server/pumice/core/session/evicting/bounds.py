"""What evictions could free at most: the jobs that may have victims, and what they hold on each node."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pumice.core.cache.evictable import RUNNING, EvictableTasks, Whole
from pumice.core.cache.jobs import Job
from pumice.core.cache.nodes import Floats, NodeTable
from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Mask
from pumice.core.session.policies import VictimRule

if TYPE_CHECKING:
    from pumice.core.session.session import Session

_NO_JOB = -2
_NO_QUEUE = -1


class VictimJobs:
    """Jobs by the number that they have among all tasks that can be evicted."""

    def __init__(self, session: Session) -> None:
        evictable, queues = session.cache.evictable, session.queues
        # The numbers hold as long as this is the generation of the tasks.
        self.generation = evictable.generation
        # None: a job that is not in the session.
        self.jobs = [*map(session.jobs.get, evictable.job_ids)]
        self._numbers = {name: number for number, name in enumerate(queues)}
        of_job = [_NO_JOB if job is None else self._numbers[job.queue] for job in self.jobs]
        self._queue: Whole = np.array(of_job, dtype=np.int64)
        gives = [number for number, q in enumerate(queues.values()) if q.is_reclaimable]
        self._gives: Mask = np.isin(self._queue, gives)

    def in_queue(self, name: str) -> Mask:
        """Jobs of the queue."""
        jobs: Mask = self._queue == self._numbers.get(name, _NO_QUEUE)
        return jobs

    def in_other_queues(self, name: str) -> Mask:
        """Jobs of other queues that are reclaimable."""
        return self._gives & ~self.in_queue(name)


class VictimMarks:
    """The marks of all jobs under the bounds of one extension point, and preemptors' limits."""

    def __init__(self, session: Session, bounds: list[VictimRule]) -> None:
        self._session = session
        self._bounds = bounds
        self._seen = 0
        self.is_started = False
        self._job_ids: dict[str, int] = {}
        self._jobs_of_queue: dict[str, list[int]] = {}
        # By bound and job number.
        self.values: Floats = np.zeros((len(bounds), 0))
        # Every change: the bound, the mark before and after it.
        self.changes: list[tuple[int, float, float]] = []
        # How many of these made a mark larger.
        self.rises = 0

    def start(self, job_ids: dict[str, int]) -> None:
        """Asks about every job, under the number it has from now on."""
        self.is_started, self._seen = True, len(self._session.moves.log)
        self._job_ids, self._jobs_of_queue = job_ids, {}
        self.values = np.zeros((len(self._bounds), len(job_ids)))
        by_queue: dict[str, list[Job]] = {}
        for job in filter(None, map(self._session.jobs.get, job_ids)):
            by_queue.setdefault(job.queue, []).append(job)
        for queue, jobs in by_queue.items():
            numbers = self._jobs_of_queue[queue] = [job_ids[job.id] for job in jobs]
            for values, bound in zip(self.values, self._bounds, strict=True):
                marks = bound.mark(jobs[0]) if bound.by_queue else [bound.mark(j) for j in jobs]
                values[numbers] = marks

    def follow(self) -> None:
        """Marks again what tasks that moved may have changed."""
        log = self._session.moves.log
        if self._seen == len(log) or not self.is_started:
            return
        for id_ in dict.fromkeys([task.job_id for task in log[self._seen :]]):
            job = self._session.jobs.get(id_)
            if job is not None:
                self._mark(job)
        self._seen = len(log)

    def _mark(self, job: Job) -> None:
        own, of_queue = self._job_ids.get(job.id), self._jobs_of_queue.get(job.queue)
        for position, bound in enumerate(self._bounds):
            where = of_queue if bound.by_queue else own
            if where is None:
                # It has no candidates.
                continue
            first = where[0] if isinstance(where, list) else where
            mark, before = bound.mark(job), self.values.item(position, first)
            if mark != before:
                self.values[position, where] = mark
                self.changes.append((position, before, mark))
                self.rises += mark > before

    def limits(self, preemptor: Task) -> list[float]:
        """What a job's marks have to be above, by bound."""
        return [bound.limit(preemptor) for bound in self._bounds]


# Tasks, and how many of them may be named in one answer.
Group = tuple[list[Task], int]


class VictimTier:
    """The plugins of one tier; those with a bound are known by their positions among all bounds."""

    def __init__(self, policies: list[Any], rules: list[VictimRule]) -> None:
        own = [
            (position, rule)
            for position, rule in enumerate(rules)
            if any(policy is rule for policy in policies)
        ]
        self.bounded = [position for position, _ in own]
        self.counting = [position for position, rule in own if rule.counts]
        # Each but the last keeps a job's first candidate: where they might all offer the same job,
        # they agree.
        self.orderly = all(
            isinstance(policy, VictimRule) and policy.keeps_first for policy in policies[:-1]
        )

    def offers(self, by_job: dict[int, list[Task]], surplus: dict[int, list[float]]) -> list[Group]:
        """The candidates on one node that the plugins might agree on.

        The surplus is how far a job's mark is above the limit, by bound.
        """
        common = [n for n in by_job if all(surplus[n][i] > 0 for i in self.bounded)]
        if common and self.orderly:
            return [(by_job[n], self._most(surplus[n], len(by_job[n]))) for n in common]
        # Elsewhere the last plugin decides, if all of them offer a victim.
        if common or all(any(surplus[n][i] > 0 for n in by_job) for i in self.bounded):
            return [(tasks, len(tasks)) for tasks in by_job.values()]
        return []

    def _most(self, surplus: list[float], there: int) -> int:
        counts = [min(surplus[position], there) for position in self.counting]
        return math.ceil(min(counts, default=there))


def would_free(
    table: NodeTable, row: int, groups: Iterable[Group], needs: list[tuple[int, float]]
) -> bool:
    """Whether what will be free on a node, and the groups' tasks, are enough.

    All tasks of a group that is too large count as its largest task, so that the sum is never too
    small.
    """
    vectors = [([table.vector(task.class_) for task in tasks], most) for tasks, most in groups]
    for column, need in needs:
        freed = float(table.future[column, row])
        for parts, most in vectors:
            amounts = [float(part[column]) for part in parts]
            total = sum(amounts)
            if most < len(amounts):
                total = min(total, most * max(amounts))
            freed += total
        if freed < need:
            return False
    return True


@dataclass(frozen=True, slots=True)
class EvictableSums:
    """What candidates hold on each node, and how many they are, by row."""

    count: Whole
    held: Floats


def sums_of(
    table: NodeTable,
    tasks: EvictableTasks,
    jobs: Mask,
    caps: Whole | None = None,
    *,
    running_only: bool,
    best_effort_only: bool,
) -> EvictableSums:
    """Sums over the tasks of some jobs, and of each job no more tasks a node than its cap.

    All tasks of a capped job count as its largest task on the node, so that the sum is never too
    small.
    """
    candidates: Mask = tasks.state == RUNNING if running_only else tasks.state > 0
    candidates &= jobs[tasks.job]
    if best_effort_only:
        candidates &= tasks.best_effort
    chosen, size = np.flatnonzero(candidates), len(table)
    rows = tasks.row[chosen]
    if caps is None:
        amounts = [np.bincount(rows, part[chosen], minlength=size) for part in tasks.request]
    else:
        pairs, number = tasks.pair[chosen], len(tasks.pair_row)
        most = caps[tasks.pair_job].astype(np.float64) * tasks.pair_most
        amounts = [
            np.bincount(
                tasks.pair_row,
                np.minimum(np.bincount(pairs, part[chosen], minlength=number), limit),
                minlength=size,
            )
            for part, limit in zip(tasks.request, most, strict=True)
        ]
    return EvictableSums(np.bincount(rows, minlength=size), np.stack(amounts))
