"""Sums of what candidates hold on each node, updated row by row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.evictable import RUNNING, EvictableTasks, Whole
from pumice.core.cache.nodes import NodeTable
from pumice.core.model.fit import Mask

# Where more than one row in this number changed, all rows are summed again at once.
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

        All tasks of a capped job count as its largest task on the node, so that the sum is never
        too small.
        """
        changed = self._changed_rows(jobs, caps)
        self._jobs, self._caps = jobs, caps
        self._position = self._table.changes
        if changed is None or len(changed) * _SUM_ALL_ABOVE > len(self._table):
            self._sum_all()
        else:
            for row in changed:
                self._sum_row(row)

    def _changed_rows(self, jobs: Mask, caps: Whole | None) -> list[int] | None:
        if self._position < 0 or (caps is None) != (self._caps is None):
            return None
        rows = dict.fromkeys(self._table.touched_since(self._position).tolist())
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
            amounts = [np.bincount(rows, part[chosen], minlength=size) for part in tasks.request]
        else:
            pairs, number = tasks.pair[chosen], len(tasks.pair_row)
            most = self._caps[tasks.pair_job].astype(np.float64) * tasks.pair_most
            amounts = [
                np.bincount(
                    tasks.pair_row,
                    np.minimum(np.bincount(pairs, part[chosen], minlength=number), limit),
                    minlength=size,
                )
                for part, limit in zip(tasks.request, most, strict=True)
            ]
        self.held = np.stack(amounts)

    def _sum_row(self, row: int) -> None:
        """A node has few tasks: counting them one by one is quicker than ten array operations."""
        tasks, jobs, states = self._tasks, self._jobs, self._tasks.state
        count, amounts = 0, [0] * len(tasks.request)
        for pair in range(tasks.pair_starts[row], tasks.pair_starts[row + 1]):
            first, end = tasks.pair_heads[pair], tasks.pair_heads[pair + 1]
            job = tasks.jobs[first]
            if not jobs[job]:
                continue
            chosen = [
                tasks.requests[position]
                for position in range(first, end)
                if (states[position] == RUNNING if self._running_only else states[position])
                and not (self._best_effort_only and not tasks.tasks[position].best_effort)
            ]
            count += len(chosen)
            if self._caps is None or len(chosen) <= self._caps[job]:
                for request in chosen:
                    amounts = [total + part for total, part in zip(amounts, request, strict=True)]
                continue
            cap, most = int(self._caps[job]), tasks.pair_most[:, pair].tolist()
            for column, parts in enumerate(zip(*chosen, strict=True)):
                amounts[column] += min(sum(parts), cap * most[column])
        self.count[row] = count
        self.held[:, row] = amounts
