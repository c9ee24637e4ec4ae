"""Preferred affinity between pods: the incoming pod's own, and that of pods on nodes."""

from __future__ import annotations

import numpy as np

from pumice.core.cache.pods import Counts, ExistingTerm, PodTally
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.memo import Memo
from pumice.core.model.pod import PodSpec
from pumice.core.session.hooks import Rows, Scores
from pumice.core.session.session import Session

_FULL = 100.0

# Topology key, weight, and the pods that the term matches.
_OwnTerm = tuple[str, int, PodTally]


def has_preferred_terms(spec: PodSpec) -> bool:
    return bool(spec.preferred_affinity or spec.preferred_anti_affinity)


class InterPodPreferences:
    """Weights summed by topology value, scaled between the best and the worst candidate."""

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
        """Preferences of pods on nodes. Unless the task has its own, Kubernetes looks only at
        nodes on its list of those with such pods, which Volcano makes when a session opens.
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
