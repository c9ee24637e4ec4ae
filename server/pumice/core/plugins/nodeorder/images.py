"""Nodes that already hold the images of a pod."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from pumice.core.cache.pods import Counts
from pumice.core.cache.tasks import TaskClass
from pumice.core.session.hooks import Scores
from pumice.core.session.session import Session

_MIB = 1024 * 1024
_LEAST = 23 * _MIB
_MOST_PER_CONTAINER = 1000 * _MIB


class ImageLocality:
    """Scores nodes by the sizes of the pod's images that they have."""

    def __init__(self, session: Session) -> None:
        self._table = session.table

    def version(self, class_: TaskClass) -> Hashable:
        """Changes when a node gets or loses an image of the class."""
        return self._table.images.version(class_.spec.images)

    def score(self, class_: TaskClass) -> Scores:
        nodes = len(self._table)
        total: Counts = np.zeros(nodes, dtype=np.int64)
        for name in class_.spec.images:
            image = self._table.images.find(name)
            if image is not None:
                size, rows = image
                total[rows] += int(size * (int(rows.sum()) / nodes))
        most = _MOST_PER_CONTAINER * class_.spec.container_count
        # As Kubernetes clamps: what is not below the least may still be capped below it.
        total = np.where(total < _LEAST, _LEAST, np.minimum(total, most))
        top = 100 * (total - _LEAST)
        return np.trunc(top / (most - _LEAST)) if most != _LEAST else np.zeros(nodes)
