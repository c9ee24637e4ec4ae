"""Reservations for tasks that passed their queue's gate and have no node yet."""

from __future__ import annotations

from pumice.core.cache.tasks import Task
from pumice.core.model.resources import Resources
from pumice.core.session.session import Session


class GateReservations:
    """By queue: what tasks ask for whose gate was lifted; each counts against all others."""

    def __init__(self) -> None:
        self._queue_of: dict[str, str] = {}
        self._sums: dict[str, Resources] = {}

    @classmethod
    def of(cls, session: Session) -> GateReservations:
        """Tasks that are pending, ask for the gate and no longer have it: they passed."""
        reservations = cls()
        for job in session.jobs.values():
            for task in job.index.pending.values():
                if not task.gated and task.wants_queue_admission:
                    reservations.add(job.queue, task)
        return reservations

    def add(self, queue: str, task: Task) -> None:
        if task.uid in self._queue_of:
            return
        self._queue_of[task.uid] = queue
        self._sums.setdefault(queue, Resources()).add(task.request)

    def remove(self, task: Task) -> None:
        queue = self._queue_of.pop(task.uid, None)
        if queue is not None:
            self._sums[queue].subtract(task.request)

    def for_others(self, queue: str, task: Task) -> Resources | None:
        """What is kept in the queue for tasks other than this one; None: nothing."""
        kept = self._sums.get(queue)
        if kept is None:
            return None
        if self._queue_of.get(task.uid) == queue:
            kept = kept.clone().subtract(task.request)
        return kept
