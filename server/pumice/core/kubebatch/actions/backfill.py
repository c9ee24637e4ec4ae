"""backfill, as in kube-batch: places best-effort tasks on the first node that passes the predicates."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.kubebatch.fit import allowed_nodes, refuse
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.model.status import TaskStatus
from pumice.core.session.session import Session


class KubeBatchBackfillAction:
    """Jobs by id, tasks by age, nodes by name; queues and scores do not count."""

    name: ClassVar[str] = "backfill"

    def execute(self, session: Session) -> None:
        assert isinstance(session, KubeBatchSession)
        for job in session.active_jobs:
            for task in job.index.in_order(TaskStatus.PENDING):
                if task.best_effort and not task.gated:
                    self._place(session, job, task)

    def _place(self, session: KubeBatchSession, job: Job, task: Task) -> None:
        view = session.view(task)
        rows = allowed_nodes(session, task, view) & view.fits_idle
        if rows.any():
            session.place(job, task, int(np.argmax(rows)))
        else:
            refuse(session, self.name, job, task, view)
