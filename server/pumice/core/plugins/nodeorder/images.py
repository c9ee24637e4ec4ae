"""Nodes that already hold the images of a pod."""

from __future__ import annotations

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
        self._session = session
        # Image -> (size, rows that have it).
        self._images: dict[str, tuple[int, list[int]]] | None = None

    def score(self, class_: TaskClass) -> Scores:
        images = self._index()
        nodes = len(self._session.table)
        total: Counts = np.zeros(nodes, dtype=np.int64)
        for name in class_.spec.images:
            size, rows = images.get(name, (0, []))
            if rows:
                total[rows] += int(size * (len(rows) / nodes))
        most = _MOST_PER_CONTAINER * class_.spec.container_count
        # As Kubernetes clamps: what is not below the least may still be capped below it.
        total = np.where(total < _LEAST, _LEAST, np.minimum(total, most))
        top = 100 * (total - _LEAST)
        return np.trunc(top / (most - _LEAST)) if most != _LEAST else np.zeros(nodes)

    def _index(self) -> dict[str, tuple[int, list[int]]]:
        if self._images is None:
            self._images = {}
            for row, entry in enumerate(self._session.table.rows):
                for image in entry.node.images if entry.node else ():
                    for name in dict.fromkeys(image.names):
                        known = self._images.setdefault(name, (image.size_bytes, []))
                        if not known[1] or known[1][-1] != row:
                            known[1].append(row)
        return self._images
