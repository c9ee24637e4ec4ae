"""drf, as in kube-batch: between jobs only, and a job has all of a resource that does not exist."""

from __future__ import annotations

from pumice.core.kubebatch.shares import share
from pumice.core.model.resources import Resources
from pumice.core.plugins.drf import DrfPlugin


class KubeBatchDrfPlugin(DrfPlugin):
    """The job with the smallest dominant share comes first."""

    def share(self, held: Resources) -> float:
        return share(held, self._session.total)
