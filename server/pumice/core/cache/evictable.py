"""Every task that an eviction could remove, in arrays, node by node.

The search for victims sums over these instead of walking nodes. They are kept across sessions and
follow the node table's changes; they are rebuilt when a task was added since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.fit import Mask
from pumice.core.model.status import BOUND, RUNNING

if TYPE_CHECKING:
    from pumice.core.cache.nodes import NodeTable

# The states of tasks. A task that was evicted or has left its node keeps its position.
_GONE, _BOUND, _RUNNING = 0, 1, 2
_STATES = {BOUND: _BOUND, RUNNING: _RUNNING}

Integers = NDArray[np.int64]
Positions = NDArray[np.intp]


class EvictableTasks:
    """Tasks that are bound or running, may be preempted and belong to a job.

    They are sorted by node and job. The tasks of one job on one node are a *holding*.
    """

    def __init__(self, table: NodeTable, *, preemptable_only: bool) -> None:
        self._table = table
        # Whether pods that are marked as not preemptable are left out.
        self._preemptable_only = preemptable_only
        self._layout = -1
        self._position = -1
        # Grows when the arrays are rebuilt, which invalidates positions and the numbers of jobs.
        self.generation = 0
        self._is_used = False
        self._rebuild()

    def candidates(self, jobs: Mask, *, running_only: bool, row: int | None = None) -> Positions:
        """Positions of tasks of some jobs that are running, or also of those that are only bound.

        The jobs are given by number. With a row, only tasks on that node count.
        """
        start, stop = (0, len(self.tasks)) if row is None else self._starts[row : row + 2]
        if not np.count_nonzero(jobs):
            stop = start
        chosen = self._state[start:stop] >= (_RUNNING if running_only else _BOUND)
        chosen &= jobs[self.job[start:stop]]
        return start + np.flatnonzero(chosen)

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
                if status is RUNNING or status is BOUND:
                    job_id = task.job_id
                    if not job_id or (selects and not task.pod.preemptable):
                        continue
                    if job_id != last:
                        # Tasks of one job are often next to each other.
                        last, number = job_id, job_ids.setdefault(job_id, len(job_ids))
                    if status is BOUND:
                        bound.append(len(tasks))
                    tasks.append(task)
                    jobs.append(number)
            starts.append(len(tasks))
        # The tasks of a row are tasks[starts[row] : starts[row + 1]].
        self.tasks, self.job_ids, self._starts = tasks, job_ids, starts
        # By task: the number of its job, its row, and its state.
        self.job: Integers = np.array(jobs, dtype=np.int64)
        self.row: Integers = np.repeat(np.arange(len(table)), np.diff(np.array(starts)))
        self._state = np.full(len(tasks), _RUNNING, dtype=np.int8)
        self._state[bound] = _BOUND
        self._join_jobs()
        self._look_up_classes()
        is_other = (np.diff(self.row, prepend=-1) != 0) | (np.diff(self.job, prepend=-1) != 0)
        # By task: the number of its holding.
        self.holding: Integers = np.cumsum(is_other)
        self._layout, self._position = table.layout, table.changes
        self.generation += 1

    def _join_jobs(self) -> None:
        """Sorts the tasks of each node by job; mostly they are sorted already."""
        order = np.lexsort((self.job, self.row))
        if (np.diff(order) == 1).all():
            return
        self.tasks = [self.tasks[position] for position in order.tolist()]
        self.job, self._state = self.job[order], self._state[order]

    def _look_up_classes(self) -> None:
        """What each task would free, in whole numbers, so that sums are exact."""
        kind_of: dict[TaskClass, int] = {}
        kinds = [kind_of.setdefault(task.class_, len(kind_of)) for task in self.tasks]
        vectors = [self._table.vector(class_) for class_ in kind_of]
        by_kind = np.array(vectors).reshape(len(vectors), len(self._table.columns))
        which = np.array(kinds, dtype=np.intp)
        # By column and task.
        self.request: Integers = by_kind.astype(np.int64).T.take(which, axis=1)
        best_effort = np.array([class_.best_effort for class_ in kind_of], dtype=np.bool_)
        self.best_effort: Mask = best_effort[which]

    def _refresh(self, row: int) -> bool:
        """Updates the states of a row's tasks; false: the row has a task that is not in the arrays."""
        tasks = self._table.rows[row].tasks
        evictable, everyone = 0, not self._preemptable_only
        for task in tasks.values():
            if task.status in _STATES and (everyone or task.pod.preemptable) and task.job_id:
                evictable += 1
        for position in range(self._starts[row], self._starts[row + 1]):
            task = self.tasks[position]
            state = _GONE
            if tasks.get(task.uid) is task:
                state = _STATES.get(task.status, _GONE)
                evictable -= state != _GONE
            self._state[position] = state
        return evictable == 0
