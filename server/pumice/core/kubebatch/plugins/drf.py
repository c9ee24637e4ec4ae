"""Shares of jobs and queues, as kube-batch computes them, and drf with these shares."""

from __future__ import annotations

from pumice.core.model.resources import Number, Resources
from pumice.core.plugins.drf import DrfPlugin
from pumice.core.session.queues import QueueAccount


def share(part: Resources, whole: Resources) -> float:
    """The dominant share; of a resource that the whole does not have, any amount is 1."""
    return max(_ratio(part.get(name), amount) for name, amount in whole.items())


def _ratio(part: Number, whole: Number) -> float:
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return max(part / whole, 0.0)


class KubeBatchAccount(QueueAccount):
    """A queue with kube-batch's share."""

    __slots__ = ()

    def share_now(self) -> float:
        return share(self.allocated, self.deserved)


class KubeBatchDrfPlugin(DrfPlugin):
    """The job with the smallest dominant share comes first."""

    def share(self, held: Resources) -> float:
        return share(held, self._session.total)
