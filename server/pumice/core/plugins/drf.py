"""drf: the job with the smallest dominant share comes first."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import ArgumentSchema, PluginOptions
from pumice.core.model.resources import Resources
from pumice.core.session.hooks import PERMIT, EventHandler
from pumice.core.session.session import Session

# Shares closer than this are equal when victims are chosen.
_CLOSE = 0.000001


class DrfPlugin:
    """Dominant resource fairness between jobs."""

    name: ClassVar[str] = "drf"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema()

    def __init__(self, options: PluginOptions) -> None:
        self._options = options
        self._allocated: dict[str, Resources] = {}
        self._shares: dict[str, float] = {}

    def open(self, session: Session) -> None:
        self._session = session
        self._total = session.total
        hooks = session.hooks
        hooks.job_order[self.name] = self._job_order
        hooks.preemptable[self.name] = self._preemptable
        hooks.handlers.append(EventHandler(self._on_allocate, self._on_deallocate))

    def _held(self, job: Job) -> Resources:
        """What the job holds, promises of this session included; looked up when first asked."""
        held = self._allocated.get(job.id)
        if held is None:
            held = self._allocated[job.id] = self._session.totals.held_by(job.id)
        return held

    def _share(self, job: Job) -> float:
        share = self._shares.get(job.id)
        if share is None:
            share = self._shares[job.id] = self._held(job).dominant_share(self._total)
        return share

    def _job_order(self, left: Job, right: Job) -> int:
        mine, other = self._share(left), self._share(right)
        return (mine > other) - (mine < other)

    def _preemptable(self, preemptor: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        """Those whose jobs stay at least as well off as the preemptor's would be.

        A candidate counts as gone for the ones after it, chosen or not: Volcano does the same.
        """
        job = self._session.jobs.get(preemptor.job_id)
        if job is None:
            return [], PERMIT
        mine = self._held(job).clone().add(preemptor.request).dominant_share(self._total)
        left: dict[str, Resources] = {}
        victims = []
        for task in candidates:
            other = self._session.jobs.get(task.job_id)
            if other is None:
                continue
            if other.id not in left:
                left[other.id] = self._held(other).clone()
            share = left[other.id].subtract(task.request).dominant_share(self._total)
            if mine < share or abs(mine - share) <= _CLOSE:
                victims.append(task)
        return victims, PERMIT

    def _on_allocate(self, task: Task) -> None:
        self._change(task, 1)

    def _on_deallocate(self, task: Task) -> None:
        self._change(task, -1)

    def _change(self, task: Task, sign: int) -> None:
        job = self._session.jobs.get(task.job_id)
        if job is None:
            return
        if sign > 0:
            self._held(job).add(task.request)
        else:
            self._held(job).subtract(task.request)
        self._shares.pop(job.id, None)
