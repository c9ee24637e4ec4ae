"""priority: jobs and tasks of higher priority come first."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import PluginOptions
from pumice.core.session.hooks import PERMIT
from pumice.core.session.policies import SortKey, VictimRule
from pumice.core.session.session import Session


class PriorityPlugin:
    """Orders jobs and tasks by priority, and lets higher priorities preempt lower ones."""

    name: ClassVar[str] = "priority"

    def __init__(self, options: PluginOptions) -> None:
        self._jobs: dict[str, Job] = {}

    def open(self, session: Session) -> None:
        self._jobs = session.jobs
        hooks = session.hooks
        hooks.task_order[self.name] = SortKey(lambda task: -task.priority)
        hooks.job_order[self.name] = SortKey(lambda job: -job.priority)
        hooks.sub_job_order[self.name] = SortKey(lambda sub_job: -sub_job.priority)
        hooks.lasts[self.name] = lambda _point: True
        hooks.preemptable[self.name] = VictimRule(
            self._lower,
            mark=lambda job: -job.priority,
            limit=lambda preemptor: -self._jobs[preemptor.job_id].priority,
            keeps_first=True,
        )
        hooks.unified_evictable[self.name] = self._lower_jobs
        hooks.job_starving[self.name] = lambda job: (
            job.index.ready_count + job.index.waiting_count < len(job.index)
        )

    def _lower(self, preemptor: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        job = self._jobs.get(preemptor.job_id)
        if job is None:
            return [], PERMIT
        return [
            task
            for task in candidates
            if (
                task.priority < preemptor.priority
                if task.job_id == preemptor.job_id
                else self._is_lower(task, job)
            )
        ], PERMIT

    def _lower_jobs(self, action: str, job: Job, candidates: list[Task]) -> tuple[list[Task], int]:
        if action == "gangreclaim":
            return candidates, PERMIT
        return [task for task in candidates if self._is_lower(task, job)], PERMIT

    def _is_lower(self, task: Task, job: Job) -> bool:
        """Whether the task is of a job with a lower priority."""
        other = self._jobs.get(task.job_id)
        return other is not None and other.priority < job.priority
