"""Filters of nodes: unschedulable nodes, taints, node affinity and host ports."""

from __future__ import annotations

import numpy as np

from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.fit import Mask, Refusal
from pumice.core.model.memo import Memo
from pumice.core.model.pod import HostPort, PodSpec
from pumice.core.model.selectors import NodeSelectorTerm, Operator, Taint, TaintEffect
from pumice.core.plugins.predicates.filters import TaskFilter
from pumice.core.session.session import Session

_UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)
_NAME_FIELD = "metadata.name"
UNSCHEDULABLE = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
NO_NODE_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
CONFLICTING_TERMS = "pod affinity terms conflict"
PORT_IN_USE = "node(s) didn't have free ports for the requested pod ports"
# Pods with equal values of this annotation come from one template.
TEMPLATE = "volcano.sh/template-uid"
TEMPLATE_FAILED = "plugin equivalence cache predicates failed"


class NodeFilters:
    """Filters by properties of nodes, which no eviction changes."""

    def __init__(self, session: Session, *, affinity: bool, taints: bool) -> None:
        self._session = session
        self._affinity = affinity
        self._taints = taints

    def refusals(self, class_: TaskClass) -> list[Refusal]:
        labels, spec = self._session.labels, class_.spec
        refusals = [Refusal(UNSCHEDULABLE, self._unschedulable(spec), unresolvable=True)]
        if self._affinity and (spec.node_selector or spec.required_node_terms is not None):
            refusals.append(Refusal(NO_NODE_AFFINITY, ~labels.admits(spec), unresolvable=True))
        if self._taints:
            refusals.append(Refusal(TAINTED, labels.repels(spec.tolerations), unresolvable=True))
        return refusals

    def _unschedulable(self, spec: PodSpec) -> Mask:
        if any(t.tolerates(_UNSCHEDULABLE_TAINT) for t in spec.tolerations):
            return np.zeros(len(self._session.table), dtype=np.bool_)
        return self._session.labels.unschedulable()

    def why_not_anywhere(self, spec: PodSpec) -> str | None:
        """A text if no required term can match a node, because each asks for contradictory names."""
        if not self._affinity or not spec.required_node_terms:
            return None
        for term in spec.required_node_terms:
            names = _node_names(term)
            if names is None or names:
                return None
        return CONFLICTING_TERMS


def _node_names(term: NodeSelectorTerm) -> frozenset[str] | None:
    """The node names that a term allows; None: it allows all names."""
    names: frozenset[str] | None = None
    for field in term.field_requirements:
        if field.key == _NAME_FIELD and field.operator is Operator.IN:
            values = frozenset(field.values)
            names = values if names is None else names & values
    return names


def port_refusal(session: Session, ports: tuple[HostPort, ...]) -> Refusal:
    """Nodes where another pod uses one of the ports, with the same protocol and address."""
    used = np.zeros(len(session.table), dtype=np.bool_)
    for port in ports:
        used[session.cache.pods.rows_with_port(port)] = True
    return Refusal(PORT_IN_USE, used, unresolvable=False)


class HostPorts(TaskFilter):
    """Refuses nodes where the ports of a pod are in use."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def refusals(self, task: Task) -> list[Refusal]:
        return [port_refusal(self._session, task.class_.spec.host_ports)]


class EquivalenceCache(TaskFilter):
    """Evaluates the node filters for the first pod of a template; the others get the same result.

    As in Volcano, pods with the same template annotation share the result even if their specs differ,
    and the others get no reason.
    """

    def __init__(self, filters: NodeFilters) -> None:
        # By class.
        self._refusals = Memo(filters.refusals)
        # The refused nodes by template.
        self._refused: dict[str, Mask] = {}
        # The first pods of their templates, by uid.
        self._first: set[str] = set()

    def why_not_anywhere(self, task: Task) -> None:
        """Evaluates the first pod of a template."""
        template = task.pod.annotations.get(TEMPLATE, "")
        self._first.discard(task.uid)
        if template and template not in self._refused:
            self._first.add(task.uid)
            refused = [refusal.rows for refusal in self._refusals[task.class_]]
            self._refused[template] = np.logical_or.reduce(refused)

    def refusals(self, task: Task) -> list[Refusal]:
        template = task.pod.annotations.get(TEMPLATE, "")
        if not template or template not in self._refused or task.uid in self._first:
            return self._refusals[task.class_]
        return [Refusal(TEMPLATE_FAILED, self._refused[template], unresolvable=True)]
