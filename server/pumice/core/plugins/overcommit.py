"""overcommit: admits jobs up to a multiple of the cluster's resources."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.configuration import Arguments, Limit, PluginOptions, number
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.resources import Resources
from pumice.core.session.hooks import PERMIT, REJECT
from pumice.core.session.session import Session


class OvercommitArguments(Arguments):
    """The limit of admitted jobs."""

    factor = number(
        "overcommit-factor",
        1.2,
        "resources of admitted jobs, as a multiple of the cluster's resources",
        Limit(at_least=1, otherwise="Volcano would use 1.2 instead"),
    )


class OvercommitPlugin:
    """Limits used resources plus the minResources of admitted jobs to a multiple of the cluster."""

    name: ClassVar[str] = "overcommit"
    arguments: ClassVar[type[Arguments]] = OvercommitArguments

    def __init__(self, options: PluginOptions) -> None:
        self._factor = OvercommitArguments(options.arguments).factor

    def open(self, session: Session) -> None:
        self._session = session
        self._idle = session.total.clone().scale(self._factor).subtract(session.table.sum_used())
        self._inqueue = Resources()
        for contribution in map(session.totals.of, session.totals.queues()):
            if contribution is not None:
                self._inqueue.add(contribution.admitted)
        session.hooks.lasts[self.name] = lambda _point: True
        session.hooks.job_enqueueable[self.name] = self._enqueueable
        session.hooks.job_enqueued[self.name] = self._enqueued

    def _enqueueable(self, job: Job) -> int:
        if job.min_resources is None:
            return PERMIT
        inqueue = self._inqueue.clone().add(job.min_resources)
        overused = inqueue.names_above_for(self._idle, job.min_resources)
        if not overused:
            return PERMIT
        names = ", ".join(f"overused {name}" for name in overused)
        self._session.record_event(
            job, "Unschedulable", f"resource in cluster is overused: {names}"
        )
        reason = Reason(self.name, ReasonCode.CLUSTER_OVERCOMMITTED, subjects=tuple(overused))
        self._session.explain(job, reason)
        return REJECT

    def _enqueued(self, job: Job) -> None:
        if job.min_resources is not None:
            self._inqueue.add(job.without_gated(job.min_resources))
