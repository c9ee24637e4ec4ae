"""overcommit: limits the jobs that are admitted beyond the cluster's resources."""

from __future__ import annotations

from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.configuration import ArgumentSchema, ArgumentType, Limit, PluginOptions
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.resources import Resources
from pumice.core.session.hooks import PERMIT, REJECT
from pumice.core.session.session import Session

_FACTOR = "overcommit-factor"
_DEFAULT_FACTOR = 1.2


class OvercommitPlugin:
    """Compares the minimum resources of admitted jobs with the cluster's, times a factor."""

    name: ClassVar[str] = "overcommit"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema(
        {_FACTOR: ArgumentType.FLOAT},
        limits={_FACTOR: Limit(at_least=1, otherwise="Volcano would use 1.2 instead")},
        defaults={_FACTOR: _DEFAULT_FACTOR},
    )

    def __init__(self, options: PluginOptions) -> None:
        factor = options.arguments.number(_FACTOR, _DEFAULT_FACTOR)
        self._factor = factor if factor >= 1.0 else _DEFAULT_FACTOR
        self._idle = Resources()
        self._promised = Resources()

    def open(self, session: Session) -> None:
        self._session = session
        self._idle = session.total.clone().scale(self._factor).subtract(session.table.sum_used())
        self._promised = Resources()
        totals = session.totals
        for queue in totals.queues():
            contribution = totals.of(queue)
            if contribution is not None:
                self._promised.add(contribution.admitted)
        session.hooks.job_enqueueable[self.name] = self._enqueueable
        session.hooks.job_enqueued[self.name] = self._enqueued

    def _enqueueable(self, job: Job) -> int:
        if job.min_resources is None:
            return PERMIT
        wanted = self._promised.clone().add(job.min_resources)
        above = wanted.names_above_for(self._idle, job.min_resources)
        if not above:
            return PERMIT
        names = ", ".join(f"overused {name}" for name in above)
        self._session.tell(job, "Unschedulable", f"resource in cluster is overused: {names}")
        reason = Reason(self.name, ReasonCode.CLUSTER_OVERCOMMITTED, subjects=tuple(above))
        self._session.explain(job, reason)
        return REJECT

    def _enqueued(self, job: Job) -> None:
        if job.min_resources is not None:
            self._promised.add(job.without_gated(job.min_resources))
