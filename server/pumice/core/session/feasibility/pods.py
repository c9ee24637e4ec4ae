"""Lookups about other pods for affinity and spread rules."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING

from pumice.core.cache.pods import ExistingTerm, PodQuestion, PodTally, TermIndex
from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Mask
from pumice.core.model.pod import PodAffinityTerm, SpreadConstraint
from pumice.core.model.selectors import LabelSelector

if TYPE_CHECKING:
    from pumice.core.session.session import Session


class SessionPods:
    """Lookups in one session; made when the session opens, because some results stay those of then."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._index = session.cache.pods
        self._index.settle()
        # Rows that had pods with affinity, and with required anti-affinity, when the session opened;
        # None: no row. Volcano uses these lists of nodes for the whole session.
        self.had_affinity = _where(self._index.affinity_pods > 0)
        self.had_anti_affinity = _where(self._index.anti_affinity_pods > 0)
        # Whether no required anti-affinity term, or no preferred term, of a pod on a node selects
        # given labels.
        self.meets_no_anti_affinity = self._index.required_anti.selectors.finds_none
        self.meets_no_preference = self._index.preferred.selectors.finds_none

    def tally(
        self, namespaces: frozenset[str] | None, selector: LabelSelector, *, alive: bool
    ) -> PodTally:
        """Pods by row that a selector selects, updated with every placement."""
        question = PodQuestion(namespaces, selector, alive)
        return self._index.tally(question, self._session.moves.is_in_kube_view)

    def selects_none(self, selector: LabelSelector) -> bool:
        """Whether it is certain that no pod on a node is selected."""
        return self._index.selects_none(selector, self._session.moves.is_in_kube_view)

    def counted_by(self, constraint: SpreadConstraint, namespace: str) -> PodTally | None:
        """Pods that a spread constraint counts; None: a selector without requirements counts none."""
        selector = constraint.selector
        if selector is None or not selector.requirements:
            return None
        return self.tally(frozenset((namespace,)), selector, alive=True)

    def matching_all(self, owner: str, terms: Iterable[PodAffinityTerm]) -> PodTally | None:
        """Pods that match all terms of an incoming pod; None: there can be none.

        ``owner`` is the namespace of the incoming pod.
        """
        selectors: list[LabelSelector] = []
        spaces: list[frozenset[str]] = []
        for term in terms:
            if term.selector is None:
                return None
            selectors.append(term.selector)
            named = self.namespaces_of(owner, term)
            if named is not None:
                spaces.append(named)
        requirements = tuple(r for selector in selectors for r in selector.requirements)
        namespaces = reduce(frozenset.intersection, spaces) if spaces else None
        return self.tally(namespaces, LabelSelector(requirements), alive=False)

    def namespaces_of(self, owner: str, term: PodAffinityTerm) -> frozenset[str] | None:
        """The namespaces of a term of an incoming pod; None: all namespaces."""
        selector = term.namespace_selector
        if selector is None:
            return frozenset(term.namespaces or (owner,))
        if not selector.requirements:
            return None
        selected = (n.name for n in self._session.cache.namespaces if selector.matches(n.labels))
        return frozenset((*term.namespaces, *selected))

    def matches_own_affinity(self, task: Task) -> bool:
        """Whether a pod matches all of its own required affinity terms."""
        pod = task.pod
        for term in task.class_.spec.required_affinity:
            namespaces = self.namespaces_of(pod.namespace, term)
            if namespaces is not None and pod.namespace not in namespaces:
                return False
            if term.selector is None or not term.selector.matches(pod.labels):
                return False
        return True

    def anti_affinity_against(self, task: Task) -> list[ExistingTerm]:
        """Required anti-affinity terms of pods on nodes that match the task."""
        return self._matching(self._index.required_anti, task)

    def preferences_about(self, task: Task) -> list[ExistingTerm]:
        """Preferred affinity and anti-affinity terms of pods on nodes that match the task."""
        return self._matching(self._index.preferred, task)

    def _matching(self, index: TermIndex, task: Task) -> list[ExistingTerm]:
        matching = index.find(task)
        if not matching:
            return []
        namespace = task.pod.namespace
        known = self._session.cache.namespaces.get(namespace)
        labels = known.labels if known is not None else {}
        return [
            existing
            for existing in matching
            if namespace in existing.namespaces
            or (
                existing.term.namespace_selector is not None
                and existing.term.namespace_selector.matches(labels)
            )
        ]


def _where(mask: Mask) -> Mask | None:
    return mask if mask.any() else None
