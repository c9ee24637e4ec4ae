"""Details of why a node refuses a pod."""

from __future__ import annotations

from collections.abc import Iterator

from pumice.core.model.node import Node
from pumice.core.model.pod import PodAffinityTerm, PodSpec
from pumice.core.model.selectors import Operator, Requirement, TaintEffect
from pumice.core.plugins import nodegroup
from pumice.core.plugins.predicates import interpod, node_filters
from pumice.core.plugins.usage import TOO_MUCH_CPU, TOO_MUCH_MEMORY
from pumice.core.session.feasibility.node_usage import USAGE
from pumice.core.session.session import Session

_EFFECTS = {TaintEffect.NO_SCHEDULE: "NoSchedule", TaintEffect.NO_EXECUTE: "NoExecute"}
_SHOWN_DETAILS = 3
_SECOND_NS = 10**9
# Reasons of the plugin usage, with the resource that they concern.
_MEASURED = {TOO_MUCH_CPU: "cpu", TOO_MUCH_MEMORY: "memory"}
# Reasons of Volcano's and of kube-batch's predicates. Whole reasons are compared, because the name
# of a resource may contain any word.
TAINTED = frozenset({node_filters.TAINTED, "node(s) had taints that the pod didn't tolerate"})
NOT_SELECTED = frozenset({node_filters.NO_NODE_AFFINITY, "node(s) didn't match node selector"})


def with_details(reason: str, spec: PodSpec, node: Node | None) -> str:
    """The reason of a predicate with the taint, label or term that caused it, if known."""
    if node is None:
        return reason
    found: list[str] = []
    if reason in TAINTED:
        found = list(_taints(spec, node))
    elif reason in NOT_SELECTED:
        found = list(_labels(spec, node))
    elif reason == interpod.NO_AFFINITY:
        found = [_affinity_text(term) for term in spec.required_affinity]
    elif reason == interpod.ANTI_AFFINITY:
        found = [_affinity_text(term) for term in spec.required_anti_affinity]
    if not found:
        return reason
    more = f" and {len(found) - _SHOWN_DETAILS} more" if len(found) > _SHOWN_DETAILS else ""
    return f"{reason}: {', '.join(found[:_SHOWN_DETAILS])}{more}"


def with_figures(reason: str, session: Session, node: str) -> str:
    """The reason with the measured load and its age, or with the group of the node."""
    key = _MEASURED.get(reason)
    if key is not None:
        figures = session.data(USAGE).get(node)
        percent, time = figures.get(key), figures.get("time")
        if isinstance(percent, float | int) and isinstance(time, float | int):
            age = max(session.now_ns / _SECOND_NS - time, 0.0)
            return f"{reason} It was {percent:.0f} % {age:.0f} s ago"
    if reason in (nodegroup.NO_AFFINITY, nodegroup.NOT_ALLOWED):
        held = session.cache.nodes.get(node)
        group = "" if held is None else held.labels.get(nodegroup.NODE_GROUP, "")
        return f"{reason}: its group is {group}"
    return reason


def _taints(spec: PodSpec, node: Node) -> Iterator[str]:
    for taint in node.taints:
        if taint.effect not in _EFFECTS or any(t.tolerates(taint) for t in spec.tolerations):
            continue
        value = f"={taint.value}" if taint.value else ""
        yield f"{taint.key}{value}:{_EFFECTS[taint.effect]}"


def _labels(spec: PodSpec, node: Node) -> Iterator[str]:
    for key, value in spec.node_selector:
        if node.labels.get(key) != value:
            yield f"{key}={value}"
    terms = spec.required_node_terms
    if terms is None or any(term.matches(node.labels, node.name) for term in terms):
        return
    for term in terms:
        missed = [
            _requirement_text(r) for r in term.label_requirements if not r.matches(node.labels)
        ]
        if missed:
            # Terms are alternatives, of which one must match.
            yield " and ".join(missed) if len(terms) == 1 else f"({' and '.join(missed)})"


def _affinity_text(term: PodAffinityTerm) -> str:
    wanted = ", ".join(map(_requirement_text, term.selector.requirements)) if term.selector else ""
    return f"{wanted or 'any pod'} in one {term.topology_key}"


def _requirement_text(requirement: Requirement) -> str:
    key, values = requirement.key, ", ".join(requirement.values)
    match requirement.operator:
        case Operator.IN if len(requirement.values) == 1:
            return f"{key}={values}"
        case Operator.IN:
            return f"{key} in ({values})"
        case Operator.NOT_IN:
            return f"{key} not in ({values})"
        case Operator.EXISTS:
            return key
        case Operator.DOES_NOT_EXIST:
            return f"no {key}"
        case Operator.GREATER_THAN:
            return f"{key} > {values}"
        case Operator.LESS_THAN:
            return f"{key} < {values}"
