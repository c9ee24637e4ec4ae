"""Preferred node affinity, taints with the effect PreferNoSchedule, and nodes that hold images."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from pumice.core.cache.pods import Counts
from pumice.core.cache.tasks import TaskClass
from pumice.core.model.memo import Memo
from pumice.core.model.selectors import TaintEffect
from pumice.core.session.feasibility.candidate_terms import ScaledPreference
from pumice.core.session.hooks import Scores
from pumice.core.session.session import Session


class NodePreferences:
    """The terms of each class, kept for the session; none where all nodes are the same to it."""

    def __init__(self, session: Session, affinity_weight: int, taint_weight: int) -> None:
        self._session = session
        self._affinity_weight = affinity_weight
        self._taint_weight = taint_weight
        self.terms = Memo(self._find_terms)

    def _find_terms(self, class_: TaskClass) -> tuple[ScaledPreference, ...]:
        terms = []
        wanted = self._wanted(class_) if self._affinity_weight else None
        if wanted is not None:
            terms.append(ScaledPreference(self._affinity_weight, wanted))
        taints = self._discouraging(class_) if self._taint_weight else None
        if taints is not None:
            terms.append(ScaledPreference(self._taint_weight, taints, is_discouraging=True))
        return tuple(terms)

    def _wanted(self, class_: TaskClass) -> Counts | None:
        """The weights of all preferred terms that match, added up."""
        if not class_.spec.preferred_node_terms:
            return None
        raw = np.zeros(len(self._session.table), dtype=np.int64)
        for preferred in class_.spec.preferred_node_terms:
            if preferred.weight:
                raw += preferred.weight * self._session.labels.matches_term(preferred.term)
        return raw if raw.any() else None

    def _discouraging(self, class_: TaskClass) -> Counts | None:
        """The number of taints that discourage and are not tolerated."""
        codes, sets = self._session.labels.taint_sets()
        tolerations = class_.spec.tolerations
        counts = [
            sum(
                taint.effect is TaintEffect.PREFER_NO_SCHEDULE
                and not any(t.tolerates(taint) for t in tolerations)
                for taint in taints
            )
            for taints in sets
        ]
        return np.array(counts, dtype=np.int64)[codes] if any(counts) else None


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
        nodes, images = len(self._table), self._table.images
        found = [image for name in class_.spec.images if (image := images.find(name))]
        parts = [(int(size * (int(rows.sum()) / nodes)), rows) for size, rows in found]
        most = _MOST_PER_CONTAINER * class_.spec.container_count
        if len(parts) == 1:
            # There are only two kinds of nodes.
            amount, rows = parts[0]
            without, has = _points(np.array([0, amount]), most)
            scores: Scores = np.where(rows, has, without)
            return scores
        total: Counts = np.zeros(nodes, dtype=np.int64)
        for amount, rows in parts:
            total[rows] += amount
        return _points(total, most)


def _points(total: Counts, most: int) -> Scores:
    """The scores of amounts of images, as Kubernetes clamps them.

    What is not below the least may still be capped below it.
    """
    if most == _LEAST:
        return np.zeros(len(total))
    total = np.where(total < _LEAST, _LEAST, np.minimum(total, most))
    return np.trunc(100 * (total - _LEAST) / (most - _LEAST))
