"""drf, as in kube-batch: between jobs only."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import ArgumentSchema, PluginOptions
from pumice.core.kubebatch.shares import share
from pumice.core.model.resources import Resources
from pumice.core.session.hooks import PERMIT, EventHandler
from pumice.core.session.policies import SortKey
from pumice.core.session.session import Session

# Shares closer than this are equal when victims are chosen.
_CLOSE = 0.000001


class KubeBatchDrfPlugin:
    """The job with the smallest dominant share comes first."""

    name: ClassVar[str] = "drf"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema()

    def __init__(self, options: PluginOptions) -> None:
        self._held: dict[str, Resources] = {}
        self._shares: dict[str, float] = {}

    def open(self, session: Session) -> None:
        self._session = session
        hooks = session.hooks
        hooks.job_order[self.name] = SortKey(self._share_of)
        hooks.preemptable[self.name] = self._preemptable
        hooks.handlers.append(EventHandler(self._allocated, self._deallocated))

    def _held_by(self, job_id: str) -> Resources:
        held = self._held.get(job_id)
        if held is None:
            held = self._held[job_id] = self._session.totals.held_by(job_id)
        return held

    def _share_of(self, job: Job) -> float:
        known = self._shares.get(job.id)
        if known is None:
            known = self._shares[job.id] = share(self._held_by(job.id), self._session.total)
        return known

    def _preemptable(self, preemptor: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        """Candidates whose jobs keep at least the share that the preemptor's job would have.

        A candidate counts as gone for the ones after it, chosen or not.
        """
        total = self._session.total
        mine = share(self._held_by(preemptor.job_id).clone().add(preemptor.request), total)
        left: dict[str, Resources] = {}
        victims = []
        for task in candidates:
            if task.job_id not in left:
                left[task.job_id] = self._held_by(task.job_id).clone()
            other = share(left[task.job_id].subtract(task.request), total)
            if mine < other or abs(mine - other) <= _CLOSE:
                victims.append(task)
        return victims, PERMIT

    def _allocated(self, task: Task) -> None:
        self._held_by(task.job_id).add(task.request)
        self._shares.pop(task.job_id, None)

    def _deallocated(self, task: Task) -> None:
        self._held_by(task.job_id).subtract(task.request)
        self._shares.pop(task.job_id, None)
