"""Bundles of victims: tasks of one job that are evicted together for a gang."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cmp_to_key
from math import inf

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.model.resources import Resources
from pumice.core.model.status import HOLDS_RESOURCES, TaskStatus
from pumice.core.session.queues import request_of

_OCCUPIED = (*sorted(HOLDS_RESOURCES), TaskStatus.SUCCEEDED)
# Whether the tasks of the first of two jobs are evicted first; None: the jobs are equal.
JobFirst = Callable[[Job, Job], bool | None]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Tasks of one job in one domain."""

    job: Job
    tasks: tuple[Task, ...]
    # Whether the job would be below its minimum without these tasks.
    breaks_gang: bool = False


def bundles_of(job: Job, tasks: list[Task]) -> list[Bundle]:
    """The tasks above the job's minima, and the others as one bundle that breaks the gang."""
    ordered = sorted(tasks, key=lambda task: (task.priority, task.uid))
    if job.index.ready_count < job.min_available:
        # The gang is broken already.
        return [Bundle(job, tuple(ordered))]
    surplus = _Surplus(job)
    above: list[Task] = []
    others: list[Task] = []
    for task in ordered:
        (above if surplus.take(task) else others).append(task)
    parts = ((above, False), (others, True))
    return [Bundle(job, tuple(tasks), breaks_gang) for tasks, breaks_gang in parts if tasks]


class _Surplus:
    """The surplus of a job above its minima: of tasks, of each role, and of each policy's sub-jobs."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._tasks = job.index.ready_count - job.min_available
        self._roles: dict[str, int] = {}
        if job.enforces_roles:
            counts = job.role_counts(*_OCCUPIED, best_effort=True)
            self._roles = {r: counts.get(r, 0) - low for r, low in job.role_minima.items()}
        self._broken: set[str] = set()
        self._sub_jobs = Counter[str]()
        for sub_job in job.sub_jobs.values() if job.min_sub_jobs else ():
            if sub_job.is_ready:
                self._sub_jobs[sub_job.group_id] += 1
            else:
                self._broken.add(sub_job.id)
        self._sub_jobs.subtract(job.min_sub_jobs)

    def take(self, task: Task) -> bool:
        """Removes a task from the surplus; false: the job needs the task."""
        if self._tasks <= 0 or self._roles.get(task.role, 1) <= 0:
            return False
        if self._job.min_sub_jobs and not self._take_sub_job(task):
            return False
        self._tasks -= 1
        if task.role in self._roles:
            self._roles[task.role] -= 1
        return True

    def _take_sub_job(self, task: Task) -> bool:
        """Removes the sub-job of its first evicted task from the surplus; false: the job needs it."""
        sub_job = self._job.sub_job_of(task.uid)
        if sub_job.id in self._broken:
            return True
        if self._sub_jobs[sub_job.group_id] <= 0:
            return False
        self._broken.add(sub_job.id)
        self._sub_jobs[sub_job.group_id] -= 1
        return True


def allowed_bundles(bundles: list[Bundle], allowed: set[str]) -> list[Bundle]:
    """The bundles with the allowed tasks; a bundle that breaks its gang must be allowed as a whole."""
    found = []
    for bundle in bundles:
        tasks = tuple(task for task in bundle.tasks if task.uid in allowed)
        if tasks and (not bundle.breaks_gang or len(tasks) == len(bundle.tasks)):
            found.append(replace(bundle, tasks=tasks))
    return found


def in_order(bundles: list[Bundle], need: Resources, first: JobFirst) -> list[Bundle]:
    """Bundles that break no gang come first; then the order is by the victims' jobs and by yield."""
    known = [(bundle, _yield_of(bundle, need)) for bundle in bundles]

    def compare(left: tuple[Bundle, float], right: tuple[Bundle, float]) -> int:
        one, other = left[0], right[0]
        if one.breaks_gang != other.breaks_gang:
            return 1 if one.breaks_gang else -1
        before = first(one.job, other.job)
        if before is not None:
            return -1 if before else 1
        if left[1] != right[1]:
            return -1 if left[1] > right[1] else 1
        keys = [(b.job.id, b.tasks[0].uid, len(b.tasks)) for b in (one, other)]
        return (keys[0] > keys[1]) - (keys[0] < keys[1])

    return [bundle for bundle, _ in sorted(known, key=cmp_to_key(compare))]


def _yield_of(bundle: Bundle, need: Resources) -> float:
    """The part of the need that a bundle frees, divided by the part that its job loses."""
    if not bundle.breaks_gang:
        return inf
    gained, lost = 0.0, 0.0
    freed, whole = request_of(bundle.tasks), bundle.job.index.total_request
    for name in need.names():
        needed = need.get(name)
        gained += min(freed.get(name), needed) / needed
        lost += whole.get(name) / needed
    return gained / lost if lost else inf
