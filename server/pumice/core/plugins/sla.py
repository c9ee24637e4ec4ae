"""sla: admits a job that has waited too long, and keeps resources reserved for it."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.configuration import Arguments, Limit, PluginOptions, duration
from pumice.core.session.hooks import ABSTAIN, PERMIT
from pumice.core.session.policies import SortKey
from pumice.core.session.session import Session


class SlaArguments(Arguments):
    """The waiting time of jobs whose PodGroup does not set one."""

    waiting_ns = duration(
        "sla-waiting-time",
        None,
        "waiting time after which a job is admitted",
        Limit(above=0, otherwise="Volcano would not limit the waiting time of any job"),
    )


class SlaPlugin:
    """Admits and pipelines jobs whose waiting time is over; a PodGroup can set its own waiting time."""

    name: ClassVar[str] = "sla"
    arguments: ClassVar[type[Arguments]] = SlaArguments

    def __init__(self, options: PluginOptions) -> None:
        self._waiting_ns = SlaArguments(options.arguments).waiting_ns

    def open(self, session: Session) -> None:
        self._session = session
        hooks = session.hooks
        hooks.job_order[self.name] = SortKey(self._due_ns)
        # Results about a job stay valid until the job is due; from then on the job is not skipped.
        hooks.lasts[self.name] = lambda _point: True
        self._activate_due_jobs()
        hooks.job_enqueueable[self.name] = self._permit_when_due
        hooks.job_pipelined[self.name] = self._permit_when_due

    def _activate_due_jobs(self) -> None:
        waiting, now_ns = self._session.waiting, self._session.now_ns
        for groups in (waiting.unschedulable, waiting.inadmissible):
            for job_id in [*groups.waits]:
                job = self._session.jobs.get(job_id)
                if job is not None and self._due_ns(job) <= now_ns:
                    groups.activate(job_id)

    def next_wake(self, now_ns: int) -> int | None:
        """The time at which the next waiting job is due."""
        jobs = [job for job in self._session.unsettled_jobs if job.is_pending or job.index.pending]
        coming = [int(due) for job in jobs if now_ns < (due := self._due_ns(job)) < inf]
        return min(coming, default=None)

    def _due_ns(self, job: Job) -> float:
        """The end of the job's waiting time; infinite: the waiting time has no limit."""
        own = job.group.sla_waiting_time_ns if job.group is not None else None
        waiting_ns = own if own is not None else self._waiting_ns
        return inf if waiting_ns is None else job.creation_time_ns + waiting_ns

    def _permit_when_due(self, job: Job) -> int:
        return PERMIT if self._due_ns(job) <= self._session.now_ns else ABSTAIN
