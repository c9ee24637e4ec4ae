"""Preferred node affinity, and taints with the effect PreferNoSchedule."""

from __future__ import annotations

import numpy as np

from pumice.core.cache.pods import Counts
from pumice.core.cache.tasks import TaskClass
from pumice.core.model.selectors import TaintEffect
from pumice.core.session.feasibility.candidate_terms import ScaledPreference
from pumice.core.session.session import Session


class NodePreferences:
    """The terms of each class, kept for the session; none where all nodes are the same to it."""

    def __init__(self, session: Session, affinity_weight: int, taint_weight: int) -> None:
        self._session = session
        self._affinity_weight = affinity_weight
        self._taint_weight = taint_weight
        self._terms: dict[int, tuple[ScaledPreference, ...]] = {}

    def terms(self, class_: TaskClass) -> tuple[ScaledPreference, ...]:
        known = self._terms.get(class_.number)
        if known is None:
            terms = []
            wanted = self._wanted(class_) if self._affinity_weight else None
            if wanted is not None:
                terms.append(ScaledPreference(self._affinity_weight, wanted))
            taints = self._discouraging(class_) if self._taint_weight else None
            if taints is not None:
                terms.append(ScaledPreference(self._taint_weight, taints, is_discouraging=True))
            known = self._terms[class_.number] = tuple(terms)
        return known

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
