"""The cleanup queue: removes data of deleted jobs."""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from pumice.adapters.runtime.buffer import ResumeBuffer
from pumice.adapters.runtime.clock import Backoff, Clock
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.work_queue import WorkQueue

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeletedJob:
    """A deleted PodGroup. A new one with the same name has another uid."""

    # `namespace/name`.
    job: str
    pod_group_uid: str


class CleanupQueue:
    """Checks deleted jobs with growing delays, and removes those without pods."""

    def __init__(
        self,
        buffer: ResumeBuffer,
        forget: Callable[[DeletedJob], None],
        backoff: Backoff,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics,
    ) -> None:
        self._buffer = buffer
        self._forget = forget
        self._metrics = metrics
        self._keys: WorkQueue[DeletedJob] = WorkQueue(backoff, clock, rng)

    def add(self, job: DeletedJob) -> None:
        self._keys.retry(job)
        self._metrics.gauge("cleanup_queue_length", len(self._keys))

    def __len__(self) -> int:
        return len(self._keys)

    async def run(self) -> None:
        while True:
            job = await self._keys.get()
            if self._is_over(job):
                self._forget(job)
                self._keys.forget(job)
                self._metrics.count("jobs_cleaned_up")
                log.debug("forgot job %s", job.job)
            else:
                self._keys.retry(job)
            self._keys.done(job)
            self._metrics.gauge("cleanup_queue_length", len(self._keys))

    def _is_over(self, job: DeletedJob) -> bool:
        group = self._buffer.group(job.job)
        if group is not None:
            # With the same uid, the job exists again. With another uid, a new job has the name.
            return group.uid != job.pod_group_uid
        return self._buffer.pods_of(job.job) == 0
