"""Required affinity between pods: the incoming pod's own, and others' objections to it."""

from __future__ import annotations

import numpy as np

from pumice.core.cache.pods import ExistingTerm, PodTally
from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Mask, Refusal
from pumice.core.model.pod import PodSpec
from pumice.core.session.session import Session

NO_AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

_Tallies = tuple[PodTally | None, tuple[tuple[str, PodTally | None], ...]]


def has_required_terms(spec: PodSpec) -> bool:
    return bool(spec.required_affinity or spec.required_anti_affinity)


class InterPodAffinity:
    """Counts are kept by the session; here they become masks."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # Tasks that had nothing to check once. Volcano never takes the mark away within a
        # session, even if something to check has come up since.
        self._skipped: set[str] = set()
        self._tallies: dict[tuple[int, str], _Tallies] = {}

    def consider(self, task: Task) -> None:
        """Before nodes are looked at: marks a task that there is nothing to check for."""
        if (
            self._session.pods.had_anti_affinity is not None
            and not has_required_terms(task.class_.spec)
            and not self._objections(task)
        ):
            self._skipped.add(task.uid)

    def concerns(self, task: Task) -> bool:
        """Whether this filter looks at the task at all."""
        if task.uid in self._skipped:
            return False
        return has_required_terms(task.class_.spec) or bool(self._objections(task))

    def _objections(self, task: Task) -> list[ExistingTerm]:
        """Terms of pods that speak of the task, on nodes that had such pods from the beginning."""
        had = self._session.pods.had_anti_affinity
        if had is None:
            return []
        columns = self._session.labels.column
        return [
            existing
            for existing in self._session.pods.objecting(task)
            if any(
                had[r] and columns(existing.term.topology_key).codes[r] >= 0 for r in existing.rows
            )
        ]

    def refusals(self, task: Task) -> list[Refusal]:
        spec = task.class_.spec
        found = []
        if spec.required_affinity:
            found.append(Refusal(NO_AFFINITY, self._far_from_friends(task), unresolvable=True))
        near_foes: Mask | None = None
        if spec.required_anti_affinity:
            near_foes = self._near_foes(task)
            found.append(Refusal(ANTI_AFFINITY, near_foes, unresolvable=False))
        unwelcome = self._unwelcome(task)
        if unwelcome is not None:
            # A node gives one reason, the first.
            rows = unwelcome if near_foes is None else unwelcome & ~near_foes
            found.append(Refusal(EXISTING, rows, unresolvable=False))
        return found

    def _of(self, task: Task) -> _Tallies:
        key = (task.class_.number, task.pod.namespace)
        known = self._tallies.get(key)
        if known is None:
            pods, spec, namespace = self._session.pods, task.class_.spec, task.pod.namespace
            near = spec.required_affinity
            friends = pods.matching_all(namespace, near) if near else None
            foes = tuple(
                (term.topology_key, pods.matching_all(namespace, (term,)))
                for term in spec.required_anti_affinity
            )
            known = self._tallies[key] = (friends, foes)
        return known

    def _far_from_friends(self, task: Task) -> Mask:
        """A node needs every topology key, and pods that match all terms near it by each."""
        friends = self._of(task)[0]
        terms = task.class_.spec.required_affinity
        columns = [self._session.labels.column(term.topology_key) for term in terms]
        labelled: Mask = np.ones(len(self._session.table), dtype=np.bool_)
        for column in columns:
            labelled &= column.present
        near: Mask = labelled.copy()
        anywhere = False
        for term, column in zip(terms, columns, strict=True):
            if friends is None:
                near[:] = False
                break
            by_value = friends.by_value(term.topology_key, column)
            anywhere = anywhere or bool(by_value.any())
            near &= by_value[column.codes] > 0
        # The first of a series of pods that want to be together may go anywhere.
        if not anywhere and self._is_its_own_friend(task):
            return ~labelled
        return ~near

    def _is_its_own_friend(self, task: Task) -> bool:
        pod, pods = task.pod, self._session.pods
        for term in task.class_.spec.required_affinity:
            namespaces = pods.namespaces_of(pod.namespace, term)
            if namespaces is not None and pod.namespace not in namespaces:
                return False
            if term.selector is None or not term.selector.matches(pod.labels):
                return False
        return True

    def _near_foes(self, task: Task) -> Mask:
        near: Mask | None = None
        for key, foes in self._of(task)[1]:
            if foes is None or not foes.total:
                continue
            column = self._session.labels.column(key)
            here = foes.by_value(key, column)[column.codes] > 0
            near = here if near is None else near | here
        return np.zeros(len(self._session.table), dtype=np.bool_) if near is None else near

    def _unwelcome(self, task: Task) -> Mask | None:
        unwelcome: Mask | None = None
        had = self._session.pods.had_anti_affinity
        for existing in self._objections(task):
            assert had is not None
            column = self._session.labels.column(existing.term.topology_key)
            # The last entry answers for nodes without the label: code -1 reads it.
            closed = np.zeros(len(column.values) + 1, dtype=np.bool_)
            rows = np.fromiter((r for r in existing.rows if had[r]), np.intp)
            closed[column.codes[rows]] = True
            closed[-1] = False
            here = closed[column.codes]
            unwelcome = here if unwelcome is None else unwelcome | here
        return unwelcome
