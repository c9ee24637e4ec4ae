"""Scores for preferred affinity, PreferNoSchedule taints, and images on nodes."""

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
# Kubernetes' range of image sizes that affect the score; the upper end is per container.
_MIN_IMAGE_SIZE = 23 * _MIB
_MAX_IMAGE_SIZE = 1000 * _MIB
_MAX_NODE_SCORE = 100.0
# Topology key, weight, and the pods that the term matches.
_OwnTerm = tuple[str, int, PodTally]


class NodePreferences:
    """The terms of each class for node affinity and taints; none where all nodes score the same."""

    def __init__(self, session: Session, affinity_weight: int, taint_weight: int) -> None:
        self._session = session
        self._affinity_weight = affinity_weight
        self._taint_weight = taint_weight
        self.terms = Memo(self._find_terms)

    def _find_terms(self, class_: TaskClass) -> tuple[ScaledPreference, ...]:
        terms = []
        affinity = self._matching_weights(class_) if self._affinity_weight else None
        if affinity is not None:
            terms.append(ScaledPreference(self._affinity_weight, affinity))
        taints = self._untolerated_taints(class_) if self._taint_weight else None
        if taints is not None:
            terms.append(ScaledPreference(self._taint_weight, taints, is_discouraging=True))
        return tuple(terms)

    def _matching_weights(self, class_: TaskClass) -> Counts | None:
        """By row, the sum of the weights of the preferred terms that match; None: 0 everywhere."""
        if not class_.spec.preferred_node_terms:
            return None
        raw = np.zeros(len(self._session.table), dtype=np.int64)
        for preferred in class_.spec.preferred_node_terms:
            if preferred.weight:
                raw += preferred.weight * self._session.labels.matches_term(preferred.term)
        return raw if raw.any() else None

    def _untolerated_taints(self, class_: TaskClass) -> Counts | None:
        """By row, the number of PreferNoSchedule taints that are not tolerated; None: 0 everywhere."""
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
        largest = _MAX_IMAGE_SIZE * class_.spec.container_count
        if len(parts) == 1:
            # Of one image there are only two scores: of nodes without it, and of nodes with it.
            amount, rows = parts[0]
            without_image, with_image = _image_scores(np.array([0, amount]), largest)
            scores: Scores = np.where(rows, with_image, without_image)
            return scores
        total: Counts = np.zeros(nodes, dtype=np.int64)
        for amount, rows in parts:
            total[rows] += amount
        return _image_scores(total, largest)


def _image_scores(sizes: Counts, largest: int) -> Scores:
    """The scores of image sizes, which are clamped to a range.

    As in Kubernetes, a size above the lower end is capped at the upper end, even if the upper end is
    below the lower end.
    """
    sizes = np.where(sizes < _MIN_IMAGE_SIZE, _MIN_IMAGE_SIZE, np.minimum(sizes, largest))
    return np.trunc(100 * (sizes - _MIN_IMAGE_SIZE) / (largest - _MIN_IMAGE_SIZE))


def has_preferred_terms(spec: PodSpec) -> bool:
    return bool(spec.preferred_affinity or spec.preferred_anti_affinity)


class InterPodPreferences:
    """Preferred inter-pod affinity; the worst candidate scores 0, and the best one 100."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # By class and namespace.
        self._own = Memo(self._find_own)

    def has_no_effect_on(self, class_: TaskClass) -> bool:
        """Whether neither the tasks of the class nor pods on nodes have such preferences."""
        return not has_preferred_terms(class_.spec) and self._session.pods.had_affinity is None

    def concerns(self, task: Task) -> bool:
        pods = self._session.pods
        if has_preferred_terms(task.class_.spec):
            return True
        if pods.had_affinity is None or pods.meets_no_preference(task.pod.labels):
            return False
        return bool(self._existing_terms(task))

    def _existing_terms(self, task: Task) -> list[ExistingTerm]:
        """The preferences of pods on nodes that match the task.

        For a task without preferences, Kubernetes only reads the nodes in its list of nodes with
        affinity, which Volcano makes when a session opens.
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
        for existing in self._existing_terms(task):
            raw += self._weights_of(existing, rows, on_all_nodes=own)
        lowest, highest = (int(raw.min()), int(raw.max())) if len(rows) else (0, 0)
        if lowest == highest:
            return None
        return np.trunc(_MAX_NODE_SCORE * ((raw - lowest) / float(highest - lowest)))

    def _find_own(self, key: tuple[TaskClass, str]) -> list[_OwnTerm]:
        (class_, namespace), found = key, []
        spec = class_.spec
        for sign, terms in ((1, spec.preferred_affinity), (-1, spec.preferred_anti_affinity)):
            for weighted in terms:
                pods = self._session.pods.matching_all(namespace, (weighted.term,))
                if pods is not None:
                    found.append((weighted.term.topology_key, sign * weighted.weight, pods))
        return found

    def _weights_of(self, existing: ExistingTerm, rows: Rows, *, on_all_nodes: bool) -> Counts:
        """By row, the weights of the pods with this term in the same domain."""
        had = self._session.pods.had_affinity
        column = self._session.labels.column(existing.term.topology_key)
        # The last entry is for nodes without the label, whose code is -1.
        by_value: Counts = np.zeros(len(column.values) + 1, dtype=np.int64)
        for row, count in existing.rows.items():
            if on_all_nodes or (had is not None and had[row]):
                by_value[column.codes[row]] += count * existing.weight
        by_value[-1] = 0
        return by_value[column.codes[rows]]
