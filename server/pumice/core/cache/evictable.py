"""Every task that an eviction could remove, in arrays, node by node.

The search for victims sums over these instead of walking nodes. They are kept across sessions and
follow the node table's changes; they are rebuilt when a task was added since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.status import BOUND as _BOUND
from pumice.core.model.status import RUNNING as _RUNNING

if TYPE_CHECKING:
    from pumice.core.cache.nodes import NodeTable

GONE, BOUND, RUNNING = 0, 1, 2
_CODES = {_BOUND: BOUND, _RUNNING: RUNNING}

Whole = NDArray[np.int64]


class EvictableTasks:
    """Tasks that are bound or running, may be preempted and belong to a job; sorted by row."""

    def __init__(self, table: NodeTable, *, preemptable_only: bool) -> None:
        self._table = table
        # Whether pods that are marked as not preemptable are left out.
        self._preemptable_only = preemptable_only
        self._layout = -1
        self._position = -1
        # Grows when the arrays are rebuilt, which invalidates their positions.
        self.generation = 0
        self._is_used = False
        self._rebuild()

    def sync(self) -> None:
        """Brings the states up to date; call before reading."""
        table = self._table
        self._is_used = True
        if self._layout != table.layout:
            self._rebuild()
            return
        if self._position == table.changes:
            return
        for row in table.touched_since(self._position).tolist():
            if not self._refresh(row):
                self._rebuild()
                return
        self._position = table.changes

    def release(self) -> None:
        """Frees the arrays, before a session, where the last session did not read them."""
        if not self._is_used and self.tasks:
            self._rebuild(empty=True)
            self._layout = -1
        self._is_used = False

    def _rebuild(self, *, empty: bool = False) -> None:
        table, selects = self._table, self._preemptable_only
        tasks: list[Task] = []
        job_ids: dict[str, int] = {}
        starts, jobs, bound = [0], [], []
        last, number = "", -1
        for entry in table.rows:
            for task in () if empty else entry.tasks.values():
                status = task.status
                if status is _RUNNING or status is _BOUND:
                    job_id = task.job_id
                    if not job_id or (selects and not task.pod.preemptable):
                        continue
                    if job_id != last:
                        # Tasks of one job are often next to each other.
                        last, number = job_id, job_ids.setdefault(job_id, len(job_ids))
                    if status is _BOUND:
                        bound.append(len(tasks))
                    tasks.append(task)
                    jobs.append(number)
            starts.append(len(tasks))
        self.tasks, self.job_ids, self.starts = tasks, job_ids, starts
        # The same as lists, for lookups of single nodes.
        self.jobs = jobs
        self.job: Whole = np.array(jobs, dtype=np.int64)
        self.row: Whole = np.repeat(np.arange(len(table)), np.diff(np.array(starts)))
        self.state = np.full(len(tasks), RUNNING, dtype=np.int8)
        self.state[bound] = BOUND
        self._join_jobs()
        self._look_up_classes()
        self._pair_up()
        self._layout, self._position = table.layout, table.changes
        self.generation += 1

    def _join_jobs(self) -> None:
        """Sorts the tasks of each node by job; mostly they are sorted already."""
        order = np.lexsort((self.job, self.row))
        if (np.diff(order) == 1).all():
            return
        self.tasks = [self.tasks[position] for position in order.tolist()]
        self.job, self.state = self.job[order], self.state[order]
        self.jobs = self.job.tolist()

    def _pair_up(self) -> None:
        """Numbers the pairs of a node and a job; the tasks of a pair are next to each other."""
        first = np.ones(len(self.tasks), dtype=np.bool_)
        first[1:] = (np.diff(self.row) != 0) | (np.diff(self.job) != 0)
        heads = np.flatnonzero(first)
        # Where the tasks of each pair begin; the last entry is the number of all tasks.
        self.pair_heads: list[int] = [*heads.tolist(), len(self.tasks)]
        self.pair: Whole = np.cumsum(first) - 1
        self.pair_row, self.pair_job = self.row[heads], self.job[heads]
        # The largest request of any of them, by column.
        self.pair_most: Whole = (
            np.maximum.reduceat(self.request, heads, axis=1) if len(heads) else self.request
        )
        self.pair_starts: list[int] = np.searchsorted(heads, self.starts).tolist()
        # The largest number of tasks that a job has on one node.
        self.job_most: Whole = np.zeros(len(self.job_ids), dtype=np.int64)
        np.maximum.at(self.job_most, self.pair_job, np.bincount(self.pair, minlength=len(heads)))
        # Rows by job: those of job number j are job_rows[job_starts[j] : job_starts[j + 1]].
        self.job_rows: Whole = self.pair_row[np.argsort(self.pair_job, kind="stable")]
        counts = np.bincount(self.pair_job, minlength=len(self.job_ids))
        self.job_starts: Whole = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))

    def _look_up_classes(self) -> None:
        """What each task would free, in whole numbers, so that sums are exact."""
        kind_of: dict[TaskClass, int] = {}
        kinds = [kind_of.setdefault(task.class_, len(kind_of)) for task in self.tasks]
        vectors = [[int(part) for part in self._table.vector(class_)] for class_ in kind_of]
        which = np.array(kinds, dtype=np.intp)
        # Task by task, shared by those of one class.
        self.requests = [vectors[kind] for kind in kinds]
        # The same by column and task.
        width = len(self._table.columns)
        by_kind = np.array(vectors, dtype=np.int64).reshape(len(vectors), width)
        self.request: Whole = by_kind.T.take(which, axis=1)
        best_effort = np.array([class_.best_effort for class_ in kind_of], dtype=np.bool_)
        self.best_effort = best_effort[which]

    def _refresh(self, row: int) -> bool:
        """Updates the states of a row's tasks; false: the row has a task that is not in the arrays."""
        tasks = self._table.rows[row].tasks
        evictable, everyone = 0, not self._preemptable_only
        for task in tasks.values():
            if task.status in _CODES and (everyone or task.pod.preemptable) and task.job_id:
                evictable += 1
        for position in range(self.starts[row], self.starts[row + 1]):
            task = self.tasks[position]
            code = GONE
            if tasks.get(task.uid) is task:
                code = _CODES.get(task.status, GONE)
                evictable -= code != GONE
            self.state[position] = code
        return evictable == 0
