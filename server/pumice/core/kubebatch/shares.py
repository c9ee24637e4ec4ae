"""Shares as kube-batch reckoned them, and what its queues hold of what they deserve."""

from __future__ import annotations

from pumice.core.model.resources import Number, Resources
from pumice.core.session.queues import QueueAccount


def share(part: Resources, whole: Resources) -> float:
    """The largest part in any dimension of the whole; all of nothing is one."""
    return max(_ratio(part.get(name), amount) for name, amount in whole.items())


def _ratio(part: Number, whole: Number) -> float:
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return max(part / whole, 0.0)


class KubeBatchAccount(QueueAccount):
    """A queue without guarantee, capability or anything to be admitted to."""

    __slots__ = ()

    def share_now(self) -> float:
        return share(self.allocated, self.deserved)
