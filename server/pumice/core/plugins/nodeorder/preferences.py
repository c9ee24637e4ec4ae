"""Preferred node affinity, and taints with the effect PreferNoSchedule."""

from __future__ import annotations

import numpy as np

from pumice.core.cache.pods import Counts
from pumice.core.cache.tasks import TaskClass
from pumice.core.model.selectors import TaintEffect
from pumice.core.session.hooks import Rows, Scores
from pumice.core.session.session import Session

_FULL = 100


class NodePreferences:
    """Raw numbers by class and node, kept for the session; None where they are all zero."""

    def __init__(self, session: Session, affinity_weight: int, taint_weight: int) -> None:
        self._session = session
        self._affinity_weight = affinity_weight
        self._taint_weight = taint_weight
        self._raw: dict[int, tuple[Counts | None, Counts | None]] = {}
        # By class and highest raw number among the candidates: all nodes on the scale it makes.
        self._scaled: dict[tuple[int, int], Scores] = {}
        self._scaled_down: dict[tuple[int, int], Scores] = {}

    def of(self, class_: TaskClass) -> tuple[Counts | None, Counts | None]:
        known = self._raw.get(class_.number)
        if known is None:
            affinity = self._wanted(class_) if self._affinity_weight else None
            taints = self._discouraging(class_) if self._taint_weight else None
            known = self._raw[class_.number] = (affinity, taints)
        return known

    def concerns(self, class_: TaskClass) -> bool:
        wanted, discouraging = self.of(class_)
        return wanted is not None or discouraging is not None

    def score(self, class_: TaskClass, rows: Rows) -> Scores | None:
        wanted, discouraging = self.of(class_)
        total: Scores | None = None
        if wanted is not None:
            highest = int(wanted[rows].max(initial=0))
            if highest:
                scale = self._scaled.get((class_.number, highest))
                if scale is None:
                    scale = (self._affinity_weight * (wanted * _FULL // highest)).astype(float)
                    self._scaled[class_.number, highest] = scale
                total = scale[rows]
        if discouraging is not None:
            highest = int(discouraging[rows].max(initial=0))
            if highest:
                scale = self._scaled_down.get((class_.number, highest))
                if scale is None:
                    less = _FULL - discouraging * _FULL // highest
                    scale = (self._taint_weight * less).astype(float)
                    self._scaled_down[class_.number, highest] = scale
                total = scale[rows] if total is None else total + scale[rows]
        return total

    def _wanted(self, class_: TaskClass) -> Counts | None:
        """The weights of all preferred terms that match, added up."""
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
