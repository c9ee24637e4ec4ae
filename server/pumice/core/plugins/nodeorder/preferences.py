"""Preferences about nodes and other pods: affinity, PreferNoSchedule taints, and images on nodes."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from pumice.core.cache.pods import Counts, ExistingTerm, PodTally
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.memo import Memo
from pumice.core.model.pod import PodSpec
from pumice.core.model.selectors import TaintEffect
from pumice.core.session.feasibility.candidate_terms import ScaledPreference
from pumice.core.session.hooks import Rows, Scores
from pumice.core.session.session import Session

_MIB = 1024 * 1024
_LEAST = 23 * _MIB
_MOST_PER_CONTAINER = 1000 * _MIB
_FULL = 100.0
# Topology key, weight, and the pods that the term matches.
_OwnTerm = tuple[str, int, PodTally]


class NodePreferences:
    """Preferred node affinity and taints: the terms of each class; none if all nodes score the same."""

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
        """By row, the sum of the weights of the preferred terms that match."""
        if not class_.spec.preferred_node_terms:
            return None
        raw = np.zeros(len(self._session.table), dtype=np.int64)
        for preferred in class_.spec.preferred_node_terms:
            if preferred.weight:
                raw += preferred.weight * self._session.labels.matches_term(preferred.term)
        return raw if raw.any() else None

    def _discouraging(self, class_: TaskClass) -> Counts | None:
        """By row, the number of PreferNoSchedule taints that are not tolerated."""
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


class ImageLocality:
    """Scores nodes by the sizes of the pod's images that they already have."""

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
            # A node has the image or not, so that there are two scores.
            amount, rows = parts[0]
            without, has = _points(np.array([0, amount]), most)
            scores: Scores = np.where(rows, has, without)
            return scores
        total: Counts = np.zeros(nodes, dtype=np.int64)
        for amount, rows in parts:
            total[rows] += amount
        return _points(total, most)


def _points(total: Counts, most: int) -> Scores:
    """The scores of sizes of images, which Kubernetes clamps to a range.

    A size above the lower end is capped at the upper end, even if that is below the lower end.
    """
    total = np.where(total < _LEAST, _LEAST, np.minimum(total, most))
    return np.trunc(100 * (total - _LEAST) / (most - _LEAST))


def has_preferred_terms(spec: PodSpec) -> bool:
    return bool(spec.preferred_affinity or spec.preferred_anti_affinity)


class InterPodPreferences:
    """Preferred affinity between pods; the sums of weights are scaled from the worst to the best node."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # By class and namespace.
        self._own = Memo(self._find_own)

    def has_no_effect_on(self, class_: TaskClass) -> bool:
        """Whether no task of the class, and no pod on a node, has preferences of this kind."""
        return not has_preferred_terms(class_.spec) and self._session.pods.had_affinity is None

    def concerns(self, task: Task) -> bool:
        pods = self._session.pods
        if has_preferred_terms(task.class_.spec):
            return True
        if pods.had_affinity is None or pods.meets_no_preference(task.pod.labels):
            return False
        return bool(self._others(task))

    def _others(self, task: Task) -> list[ExistingTerm]:
        """Preferences of pods on nodes about the task.

        For a task without preferences, Kubernetes reads a list of nodes that have such pods, which
        Volcano makes when a session opens.
        """
        preferring = self._session.pods.preferences_about(task)
        if not preferring or has_preferred_terms(task.class_.spec):
            return preferring
        had = self._session.pods.had_affinity
        return [e for e in preferring if had is not None and any(had[row] for row in e.rows)]

    def score(self, task: Task, rows: Rows) -> Scores | None:
        raw: Counts = np.zeros(len(rows), dtype=np.int64)
        for key, weight, pods in self._own[task.class_, task.pod.namespace]:
            if pods.total:
                column = self._session.labels.column(key)
                raw += weight * pods.by_value(key, column)[column.codes[rows]]
        own = has_preferred_terms(task.class_.spec)
        for existing in self._others(task):
            raw += self._weigh(existing, rows, everywhere=own)
        lowest, highest = (int(raw.min()), int(raw.max())) if len(rows) else (0, 0)
        if lowest == highest:
            return None
        return np.trunc(_FULL * ((raw - lowest) / float(highest - lowest)))

    def _find_own(self, key: tuple[TaskClass, str]) -> list[_OwnTerm]:
        found, spec = [], key[0].spec
        for sign, terms in ((1, spec.preferred_affinity), (-1, spec.preferred_anti_affinity)):
            for weighted in terms:
                pods = self._session.pods.matching_all(key[1], (weighted.term,))
                if pods is not None:
                    found.append((weighted.term.topology_key, sign * weighted.weight, pods))
        return found

    def _weigh(self, existing: ExistingTerm, rows: Rows, *, everywhere: bool) -> Counts:
        had = self._session.pods.had_affinity
        column = self._session.labels.column(existing.term.topology_key)
        # The last entry answers for nodes without the label: code -1 reads it.
        by_value: Counts = np.zeros(len(column.values) + 1, dtype=np.int64)
        for row, count in existing.rows.items():
            if everywhere or (had is not None and had[row]):
                by_value[column.codes[row]] += count * existing.weight
        by_value[-1] = 0
        return by_value[column.codes[rows]]
