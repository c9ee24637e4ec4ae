"""The marks of all jobs under victim rules, updated as tasks move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.core.cache.jobs import Job
from pumice.core.cache.nodes import Floats
from pumice.core.cache.tasks import Task
from pumice.core.session.policies import VictimRule

if TYPE_CHECKING:
    from pumice.core.session.session import Session


class VictimMarks:
    """The marks of all jobs under the bounds of one extension point, and preemptors' limits."""

    def __init__(self, session: Session, bounds: list[VictimRule]) -> None:
        self._session = session
        self._bounds = bounds
        self._by_queue = any(bound.by_queue for bound in self._bounds)
        self._seen = 0
        self._job_ids: dict[str, int] = {}
        self._jobs_of_queue: dict[str, list[int]] = {}
        # What was last answered, by bound and job, or queue where it goes by that.
        self._answers: list[dict[str, float]] = []
        # By bound and job number.
        self.values: Floats = np.zeros((len(bounds), 0))
        # Every change: the bound, the mark before and after it.
        self.changes: list[tuple[int, float, float]] = []
        # How many of these made a mark larger.
        self.rises = 0

    def start(self, job_ids: dict[str, int]) -> None:
        """Asks about every job, under the number it has from now on."""
        self._seen = len(self._session.moves.log)
        self._job_ids = job_ids
        jobs = [self._session.jobs.get(id_) for id_ in job_ids]
        self._jobs_of_queue = {}
        for number, job in enumerate(jobs):
            if job is not None:
                self._jobs_of_queue.setdefault(job.queue, []).append(number)
        self._answers = [{} for _ in self._bounds]
        marks = [
            [0.0 if job is None else self._first_mark(position, bound, job) for job in jobs]
            for position, bound in enumerate(self._bounds)
        ]
        self.values = np.array(marks, dtype=np.float64).reshape(len(self._bounds), len(jobs))

    def _first_mark(self, position: int, bound: VictimRule, job: Job) -> float:
        answers, of = self._answers[position], job.queue if bound.by_queue else job.id
        mark = answers.get(of)
        if mark is None:
            mark = answers[of] = bound.mark(job)
        return mark

    def follow(self) -> None:
        """Marks again what tasks that moved may have changed."""
        log = self._session.moves.log
        if self._seen == len(log):
            return
        for id_ in dict.fromkeys([task.job_id for task in log[self._seen :]]):
            job = self._session.jobs.get(id_)
            if job is not None:
                self._mark(job)
        self._seen = len(log)

    def _mark(self, job: Job) -> None:
        number = self._job_ids.get(job.id)
        if number is None and not self._by_queue:
            return
        for position, bound in enumerate(self._bounds):
            of = job.queue if bound.by_queue else job.id
            before = self._answers[position].get(of)
            if before is None:
                # Nobody could be a victim here.
                continue
            mark = bound.mark(job)
            if mark != before:
                self._answers[position][of] = mark
                where = self._jobs_of_queue[of] if bound.by_queue else number
                self.values[position, where] = mark
                self.changes.append((position, before, mark))
                self.rises += mark > before

    def limits(self, preemptor: Task) -> list[float]:
        """What a job's marks have to be above, by bound."""
        return [bound.limit(preemptor) for bound in self._bounds]
