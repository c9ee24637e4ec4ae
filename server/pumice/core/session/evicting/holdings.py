"""The resources of evictable tasks, by node and job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.core.cache.evictable import EvictableTasks, Integers, Positions
from pumice.core.cache.nodes import Floats
from pumice.core.model.fit import Mask

if TYPE_CHECKING:
    from pumice.core.session.session import Session

_NO_JOB = -2
_NO_QUEUE = -1


class VictimJobs:
    """The jobs with evictable tasks, by number."""

    def __init__(self, session: Session) -> None:
        queues = session.queues
        # None: a job that is not in the session.
        self.jobs = [*map(session.jobs.get, session.cache.evictable.job_ids)]
        self._numbers = {name: number for number, name in enumerate(queues)}
        of_job = [_NO_JOB if job is None else self._numbers[job.queue] for job in self.jobs]
        self._queue: Integers = np.array(of_job, dtype=np.int64)
        reclaimable = [number for number, q in enumerate(queues.values()) if q.is_reclaimable]
        self._is_reclaimable: Mask = np.isin(self._queue, reclaimable)

    def in_queue(self, name: str) -> Mask:
        """Jobs of the queue."""
        jobs: Mask = self._queue == self._numbers.get(name, _NO_QUEUE)
        return jobs

    def in_other_queues(self, name: str) -> Mask:
        """Jobs of other queues that are reclaimable."""
        return self._is_reclaimable & ~self.in_queue(name)


class Holdings:
    """The resources of candidates for eviction: one holding for each node and job with candidates."""

    def __init__(
        self,
        tasks: EvictableTasks,
        candidates: Positions,
        needs: list[tuple[int, float]],
        free: Floats,
        first_row: int = 0,
    ) -> None:
        """``needs`` are the columns and amounts of the preemptor's request.

        ``free`` is the free amount without evictions, by column and row, beginning with ``first_row``.
        """
        columns = np.array([column for column, _ in needs])
        self._needs = np.array([[amount] for _, amount in needs])
        self._free = free[columns]
        starts = _starts_of_runs(tasks.holding[candidates])
        firsts = candidates[starts]
        self.job: Integers = tasks.job[firsts]
        # The row of each holding; and each row that has holdings, with the first of them.
        self._row = tasks.row[firsts] - first_row
        self._row_starts = _starts_of_runs(self._row)
        self._rows = self._row[self._row_starts]
        requests = tasks.request[columns[:, None], candidates]
        # By need and holding: the sum of its candidates' requests, and the largest of them.
        self._held: Integers = np.add.reduceat(requests, starts, axis=1)
        self._largest: Integers = np.maximum.reduceat(requests, starts, axis=1)
        self._starts, self._size = starts, len(candidates)

    @property
    def count(self) -> Integers:
        """The number of candidates, by holding."""
        return np.diff(self._starts, append=self._size)

    def no_rows(self) -> Mask:
        return np.zeros(self._free.shape[1], dtype=np.bool_)

    def rows(self, chosen: Mask | None = None) -> Mask:
        """Nodes with candidates of the chosen holdings, or of any."""
        rows = self.no_rows()
        rows[self._rows if chosen is None else self._row[chosen]] = True
        return rows

    def sufficient_rows(self, chosen: Mask | None = None, most: Floats | None = None) -> Mask:
        """Nodes with enough resources after the eviction of the chosen holdings, or of all.

        ``most`` is the maximum number of victims of each holding. Each of them counts as the largest
        task of the holding, so that the sum is an upper bound.
        """
        freed = self._held if most is None else np.minimum(self._held, most * self._largest)
        if chosen is not None:
            freed = freed * chosen
        amounts = self._free.copy()
        amounts[:, self._rows] += np.add.reduceat(freed, self._row_starts, axis=1)
        rows: Mask = (amounts >= self._needs).all(axis=0)
        return rows


def _starts_of_runs(numbers: Integers) -> Positions:
    """Positions at which another number begins."""
    is_start = np.ones(len(numbers), dtype=np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=is_start[1:])
    return is_start.nonzero()[0]
