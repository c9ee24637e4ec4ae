"""priority, as in kube-batch: victims are found by the priorities of jobs alone."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import ArgumentSchema, PluginOptions
from pumice.core.session.hooks import PERMIT
from pumice.core.session.policies import SortKey
from pumice.core.session.session import Session


class KubeBatchPriorityPlugin:
    """Orders by priority; a task never preempts tasks of its own job."""

    name: ClassVar[str] = "priority"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema()

    def __init__(self, options: PluginOptions) -> None:
        self._jobs: dict[str, Job] = {}

    def open(self, session: Session) -> None:
        self._jobs = session.jobs
        hooks = session.hooks
        hooks.task_order[self.name] = SortKey(lambda task: -task.priority)
        hooks.job_order[self.name] = SortKey(lambda job: -job.priority)
        hooks.preemptable[self.name] = self._lower

    def _lower(self, preemptor: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        mine = self._jobs[preemptor.job_id].priority
        lower = [
            task
            for task in candidates
            if (job := self._jobs.get(task.job_id)) is not None and job.priority < mine
        ]
        return lower, PERMIT
