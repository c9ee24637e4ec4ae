"""gang: a job starts only if its minimum of tasks can be placed; evictions do not go below the minimum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task
from pumice.core.configuration import PluginOptions
from pumice.core.model.group import PodGroupCondition
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.status import HOLDS_RESOURCES, TaskStatus
from pumice.core.session.closing.conditions import (
    SCHEDULED,
    set_condition,
    unschedulable,
    wait_text,
)
from pumice.core.session.closing.statuses import is_unchanged
from pumice.core.session.hooks import PERMIT
from pumice.core.session.policies import MissingTasks, MissingVote, SortKey, VictimRule
from pumice.core.session.session import Session


class GangPlugin:
    """Places a job only if its minimum of tasks fits, and protects the minimum from eviction."""

    name: ClassVar[str] = "gang"
    required: ClassVar[bool] = True

    def __init__(self, options: PluginOptions) -> None:
        self._jobs: dict[str, Job] = {}

    def open(self, session: Session) -> None:
        self._jobs = session.jobs
        hooks = session.hooks
        hooks.why_not_valid[self.name] = self._why_not_valid
        hooks.job_ready[self.name] = MissingTasks(missing_tasks)
        hooks.lasts[self.name] = lambda _point: True
        hooks.job_pipelined[self.name] = MissingVote(
            lambda job: missing_tasks(job, with_pipelined=True)
        )
        hooks.sub_job_ready[self.name] = MissingTasks(lambda sub_job: sub_job.short)
        hooks.sub_job_pipelined[self.name] = MissingVote(
            lambda sub_job: sub_job.short - sub_job.index.waiting_count
        )
        hooks.job_starving[self.name] = lambda job: job.is_starving
        # Jobs that are not ready come first.
        hooks.job_order[self.name] = SortKey(lambda job: job.is_ready)
        hooks.sub_job_order[self.name] = SortKey(lambda sub_job: sub_job.is_ready)
        rule = VictimRule(self._above_minimum, mark=_surplus, keeps_first=True, counts=True)
        hooks.preemptable[self.name] = rule
        hooks.reclaimable[self.name] = rule
        # The gang actions enforce the minima themselves.
        hooks.unified_evictable[self.name] = lambda _action, _job, tasks: (tasks, PERMIT)

    def _why_not_valid(self, job: Job) -> Reason | None:
        if job.role_minima and not job.has_roles(TaskStatus.PIPELINED, TaskStatus.PENDING):
            short = job.roles_short(job.role_counts(*TaskStatus))
            return Reason(self.name, ReasonCode.GANG_INVALID, subjects=tuple(short))
        if job.min_sub_jobs:
            for name, have, need in _missing_sub_jobs(job, lambda _: True):
                return Reason(
                    self.name, ReasonCode.GANG_INVALID, have=have, need=need, subjects=(name,)
                )
        least = job.min_available
        if len(job.index.pending) >= least or (valid := job.index.valid_count) >= least:
            return None
        return Reason(self.name, ReasonCode.GANG_INVALID, have=valid, need=least)

    def _above_minimum(self, _preemptor: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        """The first candidates of each job, as many as the job has ready above its minimum."""
        surplus: dict[str, int] = {}
        victims = []
        for task in candidates:
            job = self._jobs.get(task.job_id)
            if job is None:
                continue
            if job.id not in surplus:
                surplus[job.id] = _surplus(job)
            if surplus[job.id] > 0:
                surplus[job.id] -= 1
                victims.append(task)
        return victims, PERMIT

    def close(self, session: Session) -> None:
        reason = "tasks in gang are ready to be scheduled"
        ready = PodGroupCondition(SCHEDULED, "True", reason, "", session.id, session.now_ns)
        for job in session.concerned_jobs():
            if job.index.tasks and not is_unchanged(session, job):
                condition = ready if job.is_ready else self._why_not_ready(session, job)
                if condition is not None:
                    set_condition(session, job, condition)

    def _why_not_ready(self, session: Session, job: Job) -> PodGroupCondition | None:
        if _is_finishing(job):
            return None
        tried = (task.last_transaction for task in job.index.pending.values())
        placeable = sum(1 for last in tried if last is not None and last.status in HOLDS_RESOURCES)
        short = job.min_available - job.index.ready_count - placeable
        message = f"{short}/{len(job.index)} tasks in gang unschedulable: {wait_text(session, job)}"
        return unschedulable(session, "NotEnoughResources", message)


def missing_tasks(job: Job, *, with_pipelined: bool = False) -> int:
    """The least number of further tasks that the gang needs; 0 or less: it needs none.

    With ``with_pipelined``, pipelined tasks count as placed.
    """
    index = job.index
    missing = job.min_available - index.ready_count - index.pending_best_effort
    if with_pipelined:
        missing -= index.waiting_count
    if missing > 0 or (not job.role_minima and not job.min_sub_jobs):
        return missing
    more = (TaskStatus.PIPELINED,) if with_pipelined else ()
    short = _missing_sub_jobs(
        job, lambda sub_job: sub_job.is_pipelined if with_pipelined else sub_job.is_ready
    )
    return missing if job.has_roles(*more, best_effort=True) and not any(short) else 1


def _surplus(job: Job) -> int:
    """The number of ready tasks of the job above its minimum."""
    return job.index.ready_count - job.min_available


def _missing_sub_jobs(job: Job, counts: Callable[[SubJob], bool]) -> Iterator[tuple[str, int, int]]:
    """Sub-job policies with too few sub-jobs that count, with the actual and the required number."""
    if not any(job.min_sub_jobs.values()):
        return
    numbers = Counter(sub_job.group_id for sub_job in job.sub_jobs.values() if counts(sub_job))
    for group_id, need in sorted(job.min_sub_jobs.items()):
        if numbers[group_id] < need:
            yield group_id.rpartition("/")[2], numbers[group_id], need


def _is_finishing(job: Job) -> bool:
    """Whether some scheduled tasks of a started gang are being released, and no task is pending."""
    index = job.index
    return (
        index.releasing_scheduled_count > 0
        and not index.count(TaskStatus.PENDING, TaskStatus.PIPELINED)
        and index.scheduled_count + index.releasing_scheduled_count >= job.min_available
    )
