"""gang: a job starts with its minimum of tasks, or not at all."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import ArgumentSchema, PluginOptions
from pumice.core.model.group import PodGroupCondition
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.status import HOLDS_RESOURCES, TaskStatus
from pumice.core.session.closing.conditions import with_condition
from pumice.core.session.closing.messages import SCHEDULED, UNSCHEDULABLE, wait_text
from pumice.core.session.closing.statuses import is_unchanged
from pumice.core.session.hooks import PERMIT
from pumice.core.session.policies import MissingTasks, MissingVote, SortKey, VictimRule
from pumice.core.session.session import Session


class GangPlugin:
    """Holds a job back until its minimum fits at once, and protects the minimum from eviction."""

    name: ClassVar[str] = "gang"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema()

    def __init__(self, options: PluginOptions) -> None:
        self._jobs: dict[str, Job] = {}

    def open(self, session: Session) -> None:
        self._jobs = session.jobs
        hooks = session.hooks
        hooks.why_not_valid[self.name] = self._why_not_valid
        hooks.job_ready[self.name] = MissingTasks(missing_tasks)
        hooks.lasts[self.name] = lambda _point: True
        hooks.job_pipelined[self.name] = MissingVote(missing_waiting_tasks)
        hooks.sub_job_ready[self.name] = MissingTasks(lambda sub_job: sub_job.short)
        hooks.sub_job_pipelined[self.name] = MissingVote(
            lambda sub_job: sub_job.short - sub_job.index.waiting_count
        )
        hooks.job_starving[self.name] = lambda job: job.is_starving
        # Jobs that are not ready come first.
        hooks.job_order[self.name] = SortKey(lambda job: job.is_ready)
        hooks.sub_job_order[self.name] = SortKey(lambda sub_job: sub_job.is_ready)
        rule = VictimRule(
            self._above_minimum, mark=_surplus, limit=lambda _: 0, keeps_first=True, counts=True
        )
        hooks.preemptable[self.name] = rule
        hooks.reclaimable[self.name] = rule
        # The gang actions see to the minima themselves.
        hooks.unified_evictable[self.name] = lambda _action, _job, tasks: (tasks, PERMIT)

    def _why_not_valid(self, job: Job) -> Reason | None:
        if job.enforces_roles and not job.roles_valid():
            short = job.roles_short(job.role_counts(*TaskStatus))
            return Reason(self.name, ReasonCode.GANG_INVALID, subjects=tuple(short))
        if job.min_sub_jobs:
            reason = self._why_too_few_sub_jobs(job)
            if reason is not None:
                return reason
        if len(job.index.pending) >= job.min_available:
            return None
        valid = job.index.valid_count
        if valid < job.min_available:
            return Reason(self.name, ReasonCode.GANG_INVALID, have=valid, need=job.min_available)
        return None

    def _why_too_few_sub_jobs(self, job: Job) -> Reason | None:
        groups: dict[str, int] = {}
        for sub_job in job.sub_jobs.values():
            groups[sub_job.group_id] = groups.get(sub_job.group_id, 0) + 1
        for group_id, minimum in sorted(job.min_sub_jobs.items()):
            have = groups.get(group_id, 0)
            if have < minimum:
                policy = group_id.rpartition("/")[2]
                return Reason(
                    self.name, ReasonCode.GANG_INVALID, have=have, need=minimum, subjects=(policy,)
                )
        return None

    def _above_minimum(self, _preemptor: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        """Only what a job has above its minimum may go, counted in the order of candidates."""
        left: dict[str, int] = {}
        victims = []
        for task in candidates:
            job = self._jobs.get(task.job_id)
            if job is None:
                continue
            if job.id not in left:
                left[job.id] = _surplus(job)
            if left[job.id] > 0:
                left[job.id] -= 1
                victims.append(task)
        return victims, PERMIT

    def close(self, session: Session) -> None:
        reason = "tasks in gang are ready to be scheduled"
        ready = PodGroupCondition(SCHEDULED, "True", reason, "", session.id, session.now_ns)
        for job in session.concerned_jobs():
            if len(job.index) and not is_unchanged(session, job):
                condition = ready if job.is_ready else self._why_not_ready(session, job)
                if condition is not None:
                    conditions = session.conditions.get(job.id, job.status.conditions)
                    session.conditions[job.id] = with_condition(conditions, condition)

    def _why_not_ready(self, session: Session, job: Job) -> PodGroupCondition | None:
        if _only_waits_for_the_end(job):
            return None
        short = job.min_available - job.index.ready_count - _could_have_been_placed(job)
        message = f"{short}/{len(job.index)} tasks in gang unschedulable: {wait_text(session, job)}"
        return PodGroupCondition(
            UNSCHEDULABLE, "True", "NotEnoughResources", message, session.id, session.now_ns
        )


def missing_tasks(job: Job) -> int:
    """How many more tasks the gang needs at least; 0 or less: it is ready."""
    missing = job.min_available - job.index.ready_count - job.index.pending_best_effort
    if missing > 0 or (not job.role_minima and not job.min_sub_jobs):
        return missing
    ready = job.roles_ready() and _enough_sub_jobs(job, lambda sub_job: sub_job.is_ready)
    return missing if ready else 1


def missing_waiting_tasks(job: Job) -> int:
    """The same where tasks that were promised a place count like placed ones."""
    index = job.index
    placed = index.ready_count + index.pending_best_effort + index.waiting_count
    missing = job.min_available - placed
    if missing > 0 or (not job.role_minima and not job.min_sub_jobs):
        return missing
    enough = job.roles_pipelined() and _enough_sub_jobs(job, lambda part: part.is_pipelined)
    return missing if enough else 1


def _surplus(job: Job) -> int:
    """How many tasks the job has above its minimum."""
    return job.index.ready_count - job.min_available


def _enough_sub_jobs(job: Job, condition: object) -> bool:
    if not any(job.min_sub_jobs.values()):
        return True
    counts: dict[str, int] = {}
    for sub_job in job.sub_jobs.values():
        if condition(sub_job):  # type: ignore[operator]
            counts[sub_job.group_id] = counts.get(sub_job.group_id, 0) + 1
    return all(counts.get(group, 0) >= low for group, low in job.min_sub_jobs.items())


def _could_have_been_placed(job: Job) -> int:
    pending = job.index.pending.values()
    return sum(
        1
        for task in pending
        if task.last_transaction is not None and task.last_transaction.status in HOLDS_RESOURCES
    )


def _only_waits_for_the_end(job: Job) -> bool:
    """Whether the job is only finishing: tasks are being released and none is pending."""
    index = job.index
    return (
        index.releasing_scheduled_count > 0
        and not index.count(TaskStatus.PENDING, TaskStatus.PIPELINED)
        and index.scheduled_count + index.releasing_scheduled_count >= job.min_available
    )
