"""gang, as in kube-batch: counts tasks with a node; victims may break their gang."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.configuration import PluginOptions
from pumice.core.kubebatch.jobs import KubeBatchJob, Origin
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.closing.conditions import fit_text, set_condition, unschedulable
from pumice.core.session.closing.statuses import is_quiet
from pumice.core.session.hooks import PERMIT, REJECT
from pumice.core.session.policies import SortKey
from pumice.core.session.session import Session

# The compatibility switch by which jobs with too few pods are left out for a while (up to v0.3).
BACKOFF = "backoff"


class KubeBatchGangPlugin:
    """Holds back binds until the job is ready; knows neither roles nor sub-groups."""

    name: ClassVar[str] = "gang"
    required: ClassVar[bool] = True

    def __init__(self, options: PluginOptions) -> None:
        self._jobs: dict[str, Job] = {}

    def open(self, session: Session) -> None:
        assert isinstance(session, KubeBatchSession)
        self._jobs = session.jobs
        hooks = session.hooks
        # kube-batch asks this before its plugins are open, so no job is ever refused, and its
        # actions do not ask.
        hooks.why_not_valid[self.name] = self._why_not_valid
        hooks.job_ready[self.name] = lambda job: job.is_ready
        hooks.job_pipelined[self.name] = lambda job: PERMIT if job.is_pipelined else REJECT
        hooks.job_order[self.name] = SortKey(lambda job: job.is_ready)
        hooks.preemptable[self.name] = self._above_minimum
        hooks.reclaimable[self.name] = self._above_minimum
        if BACKOFF in session.cache.settings.compat:
            for job in session.jobs.values():
                if self._why_not_valid(job) is not None:
                    session.back_off(job, ReasonCode.GANG_INVALID)

    def _why_not_valid(self, job: Job) -> Reason | None:
        valid, needed = job.index.valid_count, job.min_available
        if valid >= needed:
            return None
        return Reason(self.name, ReasonCode.GANG_INVALID, have=valid, need=needed)

    def _above_minimum(self, _preemptor: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        """All tasks of each job that has at least one task above its minimum.

        Earlier victims are not counted, so that all of them together may break the gang.
        """
        victims = []
        for task in candidates:
            job = self._jobs.get(task.job_id)
            if job is None:
                continue
            if job.min_available <= job.index.ready_count - 1 or job.min_available == 1:
                victims.append(task)
        return victims, PERMIT

    def close(self, session: Session) -> None:
        """Sets a condition on every job that is not ready, with or without tasks."""
        touched = session.moves.touched_jobs
        for job in session.jobs.values():
            assert isinstance(job, KubeBatchJob)
            if job.origin is not Origin.POD_GROUP or job.is_ready or is_quiet(job, touched):
                continue
            short = job.min_available - job.index.ready_count
            message = f"{short}/{len(job.index)} tasks in gang unschedulable: {fit_text(job)}"
            set_condition(session, job, unschedulable(session, "NotEnoughResources", message))
