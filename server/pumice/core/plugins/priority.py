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
            self._victims,
            mark=lambda job: -job.priority,
            limit=lambda preemptor: -self._jobs[preemptor.job_id].priority,
            keeps_first=True,
        )
        hooks.unified_evictable[self.name] = self._gang_victims
        hooks.job_starving[self.name] = lambda job: (
            job.index.ready_count + job.index.waiting_count < len(job.index)
        )

    def _victims(self, preemptor: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        """Tasks of jobs with a lower priority, and tasks of the same job with a lower task priority."""
        job = self._jobs.get(preemptor.job_id)
        if job is None:
            return [], PERMIT
        return [
            task
            for task in candidates
            if (
                task.priority < preemptor.priority
                if task.job_id == preemptor.job_id
                else self._has_lower_job(task, job)
            )
        ], PERMIT

    def _gang_victims(self, action: str, job: Job, tasks: list[Task]) -> tuple[list[Task], int]:
        if action == "gangreclaim":
            return tasks, PERMIT
        return [task for task in tasks if self._has_lower_job(task, job)], PERMIT

    def _has_lower_job(self, task: Task, job: Job) -> bool:
        """Whether the task belongs to a job with a lower priority than the given one."""
        other = self._jobs.get(task.job_id)
        return other is not None and other.priority < job.priority
