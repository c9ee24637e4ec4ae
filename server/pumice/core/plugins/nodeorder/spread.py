"""Preferred topology spread constraints, with defaults for pods of Services and controllers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pumice.core.cache.pods import PodQuestion, PodTally
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.fit import Mask
from pumice.core.model.memo import Memo
from pumice.core.model.pod import SpreadConstraint
from pumice.core.model.selectors import LabelSelector
from pumice.core.session.feasibility.candidate_terms import EvenSpread, SpreadPart
from pumice.core.session.session import Session

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
_SELECTS_NONE = LabelSelector()
_DEFAULT_SKEWS = ((HOSTNAME, 3), (ZONE, 5))
_TermKey = tuple[TaskClass, str, tuple[SpreadConstraint, ...], tuple[bool, ...]]


class SpreadPreferences:
    """Spreads each task by its own constraints, or by defaults for its Services and controller."""

    def __init__(self, session: Session, weight: int) -> None:
        self._session = session
        self._weight = weight
        self._selectors = session.cache.workload_selectors
        self._soft, self._columns = Memo(_soft), Memo(session.labels.column)
        # Terms by class, namespace, constraints, and which of them count the task itself; and default
        # terms by class, namespace, selector, and whether the selector selects the task itself.
        self._terms = Memo(self._make_term)
        self._defaults = Memo(self._make_default)
        self._all_nodes: Mask = np.ones(len(session.table), dtype=np.bool_)
        zero = np.zeros(len(session.table), dtype=np.int32)
        self._no_pods = PodTally(PodQuestion(None, _SELECTS_NONE, alive=True), zero)
        # The nodes whose pods count, by class and the policies of a constraint.
        self._included: dict[tuple[TaskClass, bool, bool], Mask] = {}

    def has_no_effect_on(self, class_: TaskClass) -> bool:
        """Whether no task of the class is spread, by constraints or by default."""
        return not class_.spec.spread_constraints and not self._selectors

    def term(self, task: Task) -> EvenSpread | None:
        """The term of a task, shared by tasks that are spread in the same way; None: it is not spread."""
        pod, class_ = task.pod, task.class_
        if not class_.spec.spread_constraints:
            selector = self._selectors.selector_for(pod)
            if selector is None:
                return None
            namespace, counts_itself = pod.namespace, selector.matches(pod.labels)
            if self._session.pods.selects_none(selector):
                # Tasks of the class whose selectors select no pod on a node share one term.
                namespace, selector = "", _SELECTS_NONE
            return self._defaults[class_, namespace, selector, counts_itself]
        constraints = self._soft[class_]
        if not constraints:
            return None
        counted = tuple(_counts(constraint, pod.labels) for constraint in constraints)
        return self._terms[class_, pod.namespace, constraints, counted]

    def _make_default(self, key: tuple[TaskClass, str, LabelSelector, bool]) -> EvenSpread:
        class_, namespace, selector, counted = key
        constraints = tuple(
            SpreadConstraint(label, skew, required=False, selector=selector)
            for label, skew in _DEFAULT_SKEWS
        )
        return self._make_term((class_, namespace, constraints, (counted, counted)))

    def _make_term(self, key: _TermKey) -> EvenSpread:
        class_, namespace, constraints, counted = key
        column = self._columns.__getitem__
        keyed = self._all_nodes
        # A node without a topology key gets no score, except for the default constraints.
        if class_.spec.spread_constraints:
            for constraint in constraints:
                keyed = keyed & column(constraint.topology_key).present
        parts, pods, selector = [], None, None
        for constraint, counts_itself in zip(constraints, counted, strict=True):
            label, skew = constraint.topology_key, constraint.max_skew
            if pods is None or constraint.selector is not selector:
                selector = constraint.selector
                tally = self._session.pods.counted_by(constraint, namespace)
                pods = self._no_pods if tally is None else tally
            counting = self._counting(class_, constraint, keyed)
            is_row = label == HOSTNAME
            parts.append(SpreadPart(column(label), is_row, skew, pods, counting, counts_itself))
        return EvenSpread(self._weight, keyed, tuple(parts))

    def _counting(self, class_: TaskClass, constraint: SpreadConstraint, keyed: Mask) -> Mask:
        """The nodes whose pods count; one array for constraints with the same policies."""
        key = (class_, constraint.honor_node_affinity, constraint.honor_node_taints)
        included = self._included.get(key)
        if included is None:
            included = self._session.labels.counts(class_.spec, constraint)
            self._included[key] = included
        return included if keyed is self._all_nodes else keyed & included


def _soft(class_: TaskClass) -> tuple[SpreadConstraint, ...]:
    return tuple(c for c in class_.spec.spread_constraints if not c.required)


def _counts(constraint: SpreadConstraint, labels: Mapping[str, str]) -> bool:
    """Whether a constraint counts pods with these labels."""
    selector = constraint.selector
    if selector is None or not selector.requirements:
        return False
    return selector.matches(labels)
