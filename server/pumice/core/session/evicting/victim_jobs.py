"""The jobs whose tasks can be evicted, and the queue of each, in arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.core.cache.evictable import Whole
from pumice.core.model.fit import Mask

if TYPE_CHECKING:
    from pumice.core.session.session import Session

_NO_JOB = -2
_NO_QUEUE = -1


class VictimJobs:
    """Jobs by the number that they have among all tasks that can be evicted."""

    def __init__(self, session: Session) -> None:
        evictable, queues = session.cache.evictable, session.queues
        # The numbers hold as long as this is the generation of the tasks.
        self.generation = evictable.generation
        # None: a job that is not in the session.
        self.jobs = [*map(session.jobs.get, evictable.job_ids)]
        self._numbers = {name: number for number, name in enumerate(queues)}
        of_job = [_NO_JOB if job is None else self._numbers[job.queue] for job in self.jobs]
        self._queue: Whole = np.array(of_job, dtype=np.int64)
        gives = [number for number, q in enumerate(queues.values()) if q.is_reclaimable]
        self._gives: Mask = np.isin(self._queue, gives)

    def in_queue(self, name: str) -> Mask:
        """Jobs of the queue."""
        jobs: Mask = self._queue == self._numbers.get(name, _NO_QUEUE)
        return jobs

    def in_other_queues(self, name: str) -> Mask:
        """Jobs of other queues that are reclaimable."""
        return self._gives & ~self.in_queue(name)
