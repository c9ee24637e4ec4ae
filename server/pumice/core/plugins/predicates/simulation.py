"""Inter-pod affinity with some of a node's pods removed."""

from __future__ import annotations

from pumice.core.cache.tasks import Task
from pumice.core.model.group import Queue
from pumice.core.plugins.predicates.interpod import InterPodAffinity
from pumice.core.session.session import Session


class AffinitySimulation:
    """Simulates inter-pod affinity; Volcano evaluates no other filter in a dry run."""

    def __init__(self, session: Session, affinity: InterPodAffinity | None, row: int) -> None:
        self._session = session
        self._affinity = affinity
        self._row = row
        self._gone: dict[str, Task] = {}

    def remove(self, task: Task) -> str | None:
        self._gone[task.uid] = task
        return None

    def add(self, task: Task) -> str | None:
        self._gone.pop(task.uid, None)
        return None

    def is_allocatable(self, queue: Queue, task: Task) -> bool:
        return True

    def why_not(self, task: Task) -> str | None:
        affinity, counts = self._affinity, self._session.table.watcher
        if affinity is None or counts is None or not affinity.concerns(task):
            return None
        # Once with everybody there, so that all that is counted exists before it is changed.
        affinity.refusals(task)
        seen = [gone for gone in self._gone.values() if self._session.moves.kube_sees(gone)]
        for gone in seen:
            counts(self._row, gone, -1)
        refusals = affinity.refusals(task)
        for gone in seen:
            counts(self._row, gone, 1)
        return next((refusal.reason for refusal in refusals if refusal.rows[self._row]), None)
