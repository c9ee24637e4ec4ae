"""Node selectors and required node affinity."""

from __future__ import annotations

from pumice.core.model.fit import Refusal
from pumice.core.model.pod import PodSpec
from pumice.core.model.selectors import NodeSelectorTerm, Operator
from pumice.core.session.session import Session

_NAME_FIELD = "metadata.name"

NO_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
CONFLICT = "pod affinity terms conflict"


def wants_certain_nodes(spec: PodSpec) -> bool:
    return bool(spec.node_selector) or spec.required_node_terms is not None


def affinity_refusal(session: Session, spec: PodSpec) -> Refusal:
    return Refusal(NO_AFFINITY, ~session.labels.admits(spec), unresolvable=True)


def why_not_anywhere(spec: PodSpec) -> str | None:
    """A text where every required term names a node and none of them could be that node."""
    if not spec.required_node_terms:
        return None
    for term in spec.required_node_terms:
        names = _names(term)
        if names is None or names:
            return None
    return CONFLICT


def _names(term: NodeSelectorTerm) -> frozenset[str] | None:
    """The node names that a term leaves; None: it does not restrict names."""
    names: frozenset[str] | None = None
    for field in term.field_requirements:
        if field.key == _NAME_FIELD and field.operator is Operator.IN:
            values = frozenset(field.values)
            names = values if names is None else names & values
    return names
