"""priority, as in kube-batch: victims are found by the priorities of jobs alone."""

from __future__ import annotations

from pumice.core.cache.tasks import Task
from pumice.core.plugins.priority import PriorityPlugin


class KubeBatchPriorityPlugin(PriorityPlugin):
    """Orders by priority; a task never preempts tasks of its own job."""

    def _victims(self, preemptor: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        others = [task for task in candidates if task.job_id != preemptor.job_id]
        return super()._victims(preemptor, others)
