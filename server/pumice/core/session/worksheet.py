"""What of a job is still to be placed, sub-job by sub-job."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task
from pumice.core.model.status import TaskStatus
from pumice.core.session.heap import LiveHeap

if TYPE_CHECKING:
    from pumice.core.session.session import Session


class Worksheet:
    """Sub-jobs in order, each with its tasks in order."""

    __slots__ = ("sub_jobs", "tasks")

    def __init__(self, sub_jobs: LiveHeap[SubJob], tasks: dict[str, deque[Task]]) -> None:
        self.sub_jobs = sub_jobs
        self.tasks = tasks

    def __bool__(self) -> bool:
        return bool(self.sub_jobs)

    def clone(self) -> Worksheet:
        return Worksheet(self.sub_jobs.clone(), {k: deque(v) for k, v in self.tasks.items()})

    def take_over(self, other: Worksheet) -> None:
        self.sub_jobs = other.sub_jobs
        self.tasks = other.tasks


def worksheet_of(session: Session, job: Job) -> Worksheet:
    """The pending tasks that ask for something and are held by no foreign gate."""
    required = _required(session, job)

    def first(left: SubJob, right: SubJob) -> bool:
        left_required, right_required = left.id in required, right.id in required
        if left_required != right_required:
            return left_required
        return session.orders.sub_job_first(left, right)

    sub_jobs: LiveHeap[SubJob] = LiveHeap(first)
    tasks: dict[str, deque[Task]] = {}
    for _, sub_job in sorted(job.sub_jobs.items()):
        pending = [
            task
            for task in sub_job.index.with_status(TaskStatus.PENDING).values()
            if not task.best_effort and (not task.gated or task.only_volcano_gate)
        ]
        if pending:
            tasks[sub_job.id] = deque(session.orders.tasks(pending))
            sub_jobs.push(sub_job)
    return Worksheet(sub_jobs, tasks)


def _required(session: Session, job: Job) -> frozenset[str]:
    """The first sub-jobs that would bring each policy to its number of ready ones."""
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
