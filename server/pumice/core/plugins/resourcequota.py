"""resourcequota: admits a job only if its minResources fit into the quotas of its namespace."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import ClassVar

from pumice.core.cache.jobs import Job
from pumice.core.configuration import PluginOptions
from pumice.core.model.group import ResourceQuota
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.hooks import PERMIT, REJECT
from pumice.core.session.session import Session

_MILLI = 1000


class ResourceQuotaPlugin:
    """Compares the minResources of a job with the quotas of its namespace; scopes have no effect.

    As in Volcano, jobs that this session has admitted count, but jobs of earlier sessions whose pods
    do not exist yet do not.
    """

    name: ClassVar[str] = "resourcequota"
    required: ClassVar[bool] = True

    def __init__(self, options: PluginOptions) -> None:
        self._quotas: dict[str, list[ResourceQuota]] = {}
        # By namespace, the minResources of the jobs that this session has admitted.
        self._admitted: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def open(self, session: Session) -> None:
        self._session = session
        for quota in session.cache.quotas:
            self._quotas.setdefault(quota.namespace, []).append(quota)
        session.hooks.lasts[self.name] = lambda _point: True
        session.hooks.job_enqueueable[self.name] = self._enqueueable
        session.hooks.job_enqueued[self.name] = self._enqueued

    def _enqueueable(self, job: Job) -> int:
        if job.group is None or job.group.min_resources is None:
            return PERMIT
        requested = dict(job.group.min_resources_milli)
        admitted = self._admitted[job.namespace]
        for quota in self._quotas.get(job.namespace, ()):
            hard, used = dict(quota.hard_milli), dict(quota.used_milli)
            exceeded = sorted(
                name
                for name, amount in requested.items()
                if name in hard and used.get(name, 0) + admitted[name] + amount > hard[name]
            )
            if exceeded:
                self._refuse(job, exceeded, requested, used, hard)
                return REJECT
        return PERMIT

    def _refuse(
        self,
        job: Job,
        exceeded: list[str],
        requested: dict[str, int],
        used: dict[str, int],
        hard: dict[str, int],
    ) -> None:
        # As in Volcano, the message does not include the jobs that this session has admitted.
        message = (
            f"resource quota insufficient, requested: {_list_text(exceeded, requested)}, "
            f"used: {_list_text(exceeded, used)}, limited: {_list_text(exceeded, hard)}"
        )
        self._session.record_event(job, "Unschedulable", message)
        reason = Reason(self.name, ReasonCode.NAMESPACE_QUOTA, subjects=tuple(exceeded))
        self._session.explain(job, reason)

    def _enqueued(self, job: Job) -> None:
        if job.group is not None and job.namespace in self._quotas:
            self._admitted[job.namespace].update(dict(job.group.min_resources_milli))


def _list_text(names: Iterable[str], amounts: dict[str, int]) -> str:
    return " ".join(f"{name}={_quantity(amounts[name])}" for name in names if name in amounts)


def _quantity(milli: int) -> str:
    return f"{milli}m" if milli % _MILLI else str(milli // _MILLI)
