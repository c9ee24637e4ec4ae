"""gang, as in kube-batch: counts tasks with a node; victims may break their gang."""

from __future__ import annotations

from pumice.core.cache.tasks import Task
from pumice.core.kubebatch.jobs import KubeBatchJob, Origin
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.model.reasons import ReasonCode
from pumice.core.plugins.gang import GangPlugin
from pumice.core.session.closing.conditions import fit_text, set_condition, unschedulable
from pumice.core.session.closing.statuses import is_quiet
from pumice.core.session.hooks import PERMIT, REJECT
from pumice.core.session.session import Session

# The compatibility switch by which jobs with too few pods are left out for a while (up to v0.3).
BACKOFF = "backoff"


class KubeBatchGangPlugin(GangPlugin):
    """Holds back binds until the job is ready; knows neither roles nor sub-groups."""

    def open(self, session: Session) -> None:
        assert isinstance(session, KubeBatchSession)
        super().open(session)
        hooks = session.hooks
        hooks.job_ready[self.name] = lambda job: job.is_ready
        hooks.job_pipelined[self.name] = lambda job: PERMIT if job.is_pipelined else REJECT
        if BACKOFF in session.cache.settings.compat:
            for job in session.jobs.values():
                if job.index.valid_count < job.min_available:
                    session.back_off(job, ReasonCode.GANG_INVALID)

    def _above_minimum(self, _preemptor: Task, candidates: list[Task]) -> tuple[list[Task], int]:
        """All tasks of each job that has at least one task above its minimum.

        Earlier victims are not counted, so that all of them together may break the gang.
        """
        jobs = ((task, self._jobs.get(task.job_id)) for task in candidates)
        return [
            task
            for task, job in jobs
            if job is not None
            and (job.min_available < job.index.ready_count or job.min_available == 1)
        ], PERMIT

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
