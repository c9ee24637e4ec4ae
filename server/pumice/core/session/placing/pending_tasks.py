"""The tasks of a job that are still to be placed, by sub-job."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task, TasksToPlace
from pumice.core.session.orders import LiveHeap

if TYPE_CHECKING:
    from pumice.core.session.session import Session


class PendingTasks:
    """Sub-jobs in order, each with its tasks in order."""

    __slots__ = ("sub_jobs", "tasks")

    def __init__(self, sub_jobs: LiveHeap[SubJob], tasks: dict[str, deque[Task]]) -> None:
        self.sub_jobs = sub_jobs
        self.tasks = tasks

    def __bool__(self) -> bool:
        return bool(self.sub_jobs)

    def clone(self) -> PendingTasks:
        return PendingTasks(self.sub_jobs.clone(), {k: v.copy() for k, v in self.tasks.items()})

    def take_over(self, other: PendingTasks) -> None:
        self.sub_jobs = other.sub_jobs
        self.tasks = other.tasks


def pending_tasks_of(session: Session, job: Job, *, gated: bool = True) -> PendingTasks:
    """The pending tasks with requests and without gates; with ``gated``, Volcano's own gate is allowed."""
    if not job.has_policies:
        pending = _placeable(job, gated=gated)
        return of_one_sub_job(session, job, session.orders.tasks(pending))
    required = _required(session, job)

    def first(left: SubJob, right: SubJob) -> bool:
        left_required, right_required = left.id in required, right.id in required
        if left_required != right_required:
            return left_required
        return session.orders.sub_job_first(left, right)

    sub_jobs: LiveHeap[SubJob] = LiveHeap(first)
    tasks: dict[str, deque[Task]] = {}
    for _, sub_job in sorted(job.sub_jobs.items()):
        pending = _placeable(sub_job, gated=gated)
        if pending:
            tasks[sub_job.id] = session.orders.waiting_tasks(session.orders.tasks(pending))
            sub_jobs.push(sub_job)
    return PendingTasks(sub_jobs, tasks)


def of_one_sub_job(session: Session, job: Job, tasks: list[Task]) -> PendingTasks:
    """The pending tasks of a job without policies; the tasks are in order."""
    sub_job = job.default_sub_job()
    sub_jobs: LiveHeap[SubJob] = LiveHeap(session.orders.sub_job_first)
    if tasks:
        sub_jobs.push(sub_job)
    waiting = session.orders.waiting_tasks(tasks)
    return PendingTasks(sub_jobs, {sub_job.id: waiting} if tasks else {})


def tasks_to_place_of(session: Session, job: Job) -> TasksToPlace:
    """The tasks to place of a job without policies; cached until the job changes.

    They are cached only if tasks are ordered by keys, and this session has not touched the job yet.
    """
    to_place = job.to_place
    touched = job.id in session.moves.touched_jobs
    if (
        to_place is not None
        and to_place.version == job.version
        and to_place.configuration is session.configuration
        and session.is_whole
        and not touched
    ):
        return to_place
    tasks, count = _placeable(job), len(job.index.tasks)
    if len(tasks) > 1:
        tasks = session.orders.tasks(tasks)
    needs_all = job.min_available == count and not job.stays_together
    is_uniform = needs_all and len(tasks) == count and _are_alike(tasks)
    to_place = TasksToPlace(job.version, session.configuration, tasks, needs_all, is_uniform)
    if session.orders.has_task_keys and not touched:
        job.to_place = to_place
    return to_place


def _are_alike(tasks: list[Task]) -> bool:
    """Whether all tasks are of one class, without gates and nominated nodes."""
    class_ = tasks[0].class_ if tasks else None
    for task in tasks:
        if task.class_ is not class_ or task.gated or task.pod.nominated_node_name:
            return False
    return bool(tasks)


def _placeable(part: Job | SubJob, *, gated: bool = True) -> list[Task]:
    return [
        task
        for task in part.index.pending.values()
        if not task.best_effort and (not task.gated or (gated and task.only_volcano_gate))
    ]


def _required(session: Session, job: Job) -> frozenset[str]:
    """The first sub-jobs that each policy needs to have enough ready sub-jobs."""
    if not job.has_policies:
        return frozenset()
    ready: dict[str, int] = {}
    unready: list[SubJob] = []
    for _, sub_job in sorted(job.sub_jobs.items()):
        if session.votes.is_sub_job_ready(job, sub_job):
            ready[sub_job.group_id] = ready.get(sub_job.group_id, 0) + 1
        else:
            unready.append(sub_job)
    required = set()
    ordered = LiveHeap(session.orders.sub_job_first, unready)
    while ordered:
        sub_job = ordered.pop()
        if ready.get(sub_job.group_id, 0) < job.min_sub_jobs.get(sub_job.group_id, 0):
            required.add(sub_job.id)
            ready[sub_job.group_id] = ready.get(sub_job.group_id, 0) + 1
    return frozenset(required)
