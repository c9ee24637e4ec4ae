"""What running tasks hold, by queue and node: the nodes where victims could be enough for a task."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.nodes import Floats
from pumice.core.cache.tasks import Task
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.model.fit import Mask
from pumice.core.model.status import TaskStatus
from pumice.core.session.feasibility.views import ClassView


class RunningTasks:
    """Sums for one run of an action, updated after every move."""

    def __init__(self, session: KubeBatchSession) -> None:
        self._session = session
        self._sums: dict[str, Floats] = {}
        # Tasks that are in the sums, and on which row.
        self._rows: dict[str, int] = {}
        for name in session.queues:
            jobs = [job for job in session.jobs.values() if job.queue == name]
            self._change(name, (t for job in jobs for t in _running(job)), 1)
        self._seen = len(session.moves.log)

    def in_queue(self, job: Job, view: ClassView) -> Mask:
        """Rows where the other jobs of the queue hold enough."""
        self._sync()
        sums = self._sums[job.queue].copy()
        self._add(sums, _running(job), -1)
        return _enough(sums, view)

    def in_other_queues(self, queue: str, view: ClassView) -> Mask:
        self._sync()
        total = np.zeros_like(self._sums[queue])
        for name, sums in self._sums.items():
            if name != queue:
                total += sums
        return _enough(total, view)

    def in_job(self, job: Job, view: ClassView) -> Mask:
        sums = self._empty()
        self._add(sums, _running(job), 1)
        return _enough(sums, view)

    def _empty(self) -> Floats:
        # The last line counts tasks.
        return np.zeros((len(self._session.table.columns) + 1, len(self._session.table)))

    def _sync(self) -> None:
        log = self._session.moves.log
        for task in log[self._seen :]:
            job = self._session.jobs[task.job_id]
            if task.uid in self._rows:
                self._change(job.queue, (task,), -1)
                del self._rows[task.uid]
            if task.status is TaskStatus.RUNNING:
                self._change(job.queue, (task,), 1)
        self._seen = len(log)

    def _change(self, queue: str, tasks: Iterable[Task], sign: int) -> None:
        if queue not in self._sums:
            self._sums[queue] = self._empty()
        self._add(self._sums[queue], tasks, sign, note=sign > 0)

    def _add(self, sums: Floats, tasks: Iterable[Task], sign: int, *, note: bool = False) -> None:
        """Adds what tasks hold, in one array operation."""
        table = self._session.table
        rows: list[int] = []
        requests: list[Floats] = []
        for task in tasks:
            row = table.row_of(task.node_name)
            if row is None:
                continue
            if note:
                self._rows[task.uid] = row
            rows.append(row)
            requests.append(table.vector(task.class_))
        if rows:
            where = np.array(rows, dtype=np.intp)
            np.add.at(sums[:-1].T, where, sign * np.stack(requests))
            np.add.at(sums[-1], where, sign)


def _running(job: Job) -> list[Task]:
    return list(job.index.with_status(TaskStatus.RUNNING).values())


def _enough(held: Floats, view: ClassView) -> Mask:
    mask: Mask = held[-1] > 0
    for column, need in view.needs:
        mask &= held[column] >= need
    return mask
