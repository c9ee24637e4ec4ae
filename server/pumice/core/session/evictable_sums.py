"""What the candidates of some jobs hold on each node, kept up row by row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.evictable import RUNNING, EvictableTasks, Whole
from pumice.core.cache.nodes import NodeTable
from pumice.core.model.fit import Mask

# When more than one row in so many changed, all are summed again in one go.
_SUM_ALL_ABOVE = 16


class EvictableSums:
    """Sums by row over the tasks of a set of jobs; only rows that changed are summed again."""

    def __init__(
        self, table: NodeTable, tasks: EvictableTasks, *, running_only: bool, best_effort_only: bool
    ) -> None:
        self._table = table
        self._tasks = tasks
        self._running_only = running_only
        self._best_effort_only = best_effort_only
        self._jobs: Mask = np.zeros(0, dtype=np.bool_)
        self._caps: Whole | None = None
        self._position = -1
        self.count: Whole = np.zeros(0, dtype=np.int64)
        self.held: NDArray[np.float64] = np.zeros((len(table.columns), 0))

    def update(self, jobs: Mask, caps: Whole | None) -> None:
        """For these jobs, and of each no more tasks a node than its cap.

        A capped job's tasks are taken to be all as large as its largest one there: what comes out
        is never too little.
        """
        changed = self._changed_rows(jobs, caps)
        self._jobs, self._caps = jobs, caps
        self._position = self._table.log_end
        if changed is None or len(changed) * _SUM_ALL_ABOVE > len(self._table):
            self._sum_all()
        else:
            for row in changed:
                self._sum_row(row)

    def _changed_rows(self, jobs: Mask, caps: Whole | None) -> list[int] | None:
        touched = self._table.touched_since(self._position) if self._position >= 0 else None
        if touched is None or (caps is None) != (self._caps is None):
            return None
        rows = dict.fromkeys(touched)
        other = jobs != self._jobs
        if caps is not None and self._caps is not None:
            other |= (caps != self._caps) & jobs
        starts, by_job = self._tasks.job_starts, self._tasks.job_rows
        for number in np.flatnonzero(other):
            rows.update(dict.fromkeys(by_job[starts[number] : starts[number + 1]].tolist()))
            if len(rows) * _SUM_ALL_ABOVE > len(self._table):
                return None
        return list(rows)

    def _chosen(self, where: slice) -> Mask:
        tasks = self._tasks
        state = tasks.state[where]
        mask: Mask = state == RUNNING if self._running_only else state > 0
        mask &= self._jobs[tasks.job[where]]
        if self._best_effort_only:
            mask &= tasks.best_effort[where]
        return mask

    def _sum_all(self) -> None:
        tasks, size = self._tasks, len(self._table)
        chosen = np.flatnonzero(self._chosen(slice(None)))
        rows = tasks.row[chosen]
        self.count = np.bincount(rows, minlength=size)
        if self._caps is None:
            held = [np.bincount(rows, part[chosen], minlength=size) for part in tasks.request]
        else:
            pairs, number = tasks.pair[chosen], len(tasks.pair_row)
            most = self._caps[tasks.pair_job] * tasks.pair_most
            held = [
                np.bincount(
                    tasks.pair_row,
                    np.minimum(np.bincount(pairs, part[chosen], minlength=number), limit),
                    minlength=size,
                )
                for part, limit in zip(tasks.request, most, strict=True)
            ]
        self.held = np.stack(held)

    def _sum_row(self, row: int) -> None:
        tasks = self._tasks
        where = slice(tasks.starts[row], tasks.starts[row + 1])
        chosen = self._chosen(where)
        self.count[row] = np.count_nonzero(chosen)
        request = tasks.request[:, where] * chosen
        if self._caps is None:
            self.held[:, row] = request.sum(axis=1)
            return
        pairs = slice(tasks.pair_starts[row], tasks.pair_starts[row + 1])
        if pairs.start == pairs.stop:
            self.held[:, row] = 0
            return
        # Where each pair begins, counted from the row's first task.
        heads = np.searchsorted(tasks.pair[where], np.arange(pairs.start, pairs.stop))
        held = np.add.reduceat(request, heads, axis=1)
        most = self._caps[tasks.pair_job[pairs]] * tasks.pair_most[:, pairs]
        self.held[:, row] = np.minimum(held, most).sum(axis=1)
