"""Filters whose answers hold as long as no node changes: unschedulable, affinity, taints."""

from __future__ import annotations

import numpy as np

from pumice.core.cache.tasks import TaskClass
from pumice.core.model.fit import Mask, Refusal
from pumice.core.model.pod import PodSpec
from pumice.core.model.selectors import NodeSelectorTerm, Operator, Taint, TaintEffect
from pumice.core.session.session import Session

_UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)
_NAME_FIELD = "metadata.name"

UNSCHEDULABLE = "node(s) were unschedulable"
NO_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
TAINTED = "node(s) had untolerated taint(s)"
CONFLICT = "pod affinity terms conflict"


class StableFilters:
    """One refusal a filter; each of them is final."""

    def __init__(self, session: Session, *, affinity: bool, taints: bool) -> None:
        self._session = session
        self._affinity = affinity
        self._taints = taints

    def refusals(self, class_: TaskClass) -> list[Refusal]:
        spec, labels = class_.spec, self._session.labels
        found = [Refusal(UNSCHEDULABLE, self._unschedulable(spec), unresolvable=True)]
        if self._affinity and wants_certain_nodes(spec):
            found.append(Refusal(NO_AFFINITY, ~labels.admits(spec), unresolvable=True))
        if self._taints:
            found.append(Refusal(TAINTED, labels.repels(spec.tolerations), unresolvable=True))
        return found

    def _unschedulable(self, spec: PodSpec) -> Mask:
        if any(t.tolerates(_UNSCHEDULABLE_TAINT) for t in spec.tolerations):
            return np.zeros(len(self._session.table), dtype=np.bool_)
        return self._session.labels.unschedulable()

    def why_not_anywhere(self, spec: PodSpec) -> str | None:
        """Every term names a node, and none of them could be that node."""
        if not self._affinity or not spec.required_node_terms:
            return None
        for term in spec.required_node_terms:
            names = _names(term)
            if names is None or names:
                return None
        return CONFLICT


def wants_certain_nodes(spec: PodSpec) -> bool:
    return bool(spec.node_selector) or spec.required_node_terms is not None


def _names(term: NodeSelectorTerm) -> frozenset[str] | None:
    """The node names that a term leaves; None: it does not speak of names."""
    names: frozenset[str] | None = None
    for field in term.field_requirements:
        if field.key == _NAME_FIELD and field.operator is Operator.IN:
            values = frozenset(field.values)
            names = values if names is None else names & values
    return names
