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
PORT_TAKEN = "node(s) didn't have free ports for the requested pod ports"
# Pods with equal values of this annotation come from one template.
TEMPLATE = "volcano.sh/template-uid"
TEMPLATE_FAILED = "plugin equivalence cache predicates failed"


class NodeFilters:
    """The refusals of a class by properties of nodes, which no eviction changes."""

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
        """A text, if every required term names nodes, and no node can have all names of a term."""
        if not self._affinity or not spec.required_node_terms:
            return None
        for term in spec.required_node_terms:
            names = _node_names(term)
            if names is None or names:
                return None
        return CONFLICTING_TERMS


def _node_names(term: NodeSelectorTerm) -> frozenset[str] | None:
    """The node names that a term allows; None: it does not restrict names."""
    names: frozenset[str] | None = None
    for field in term.field_requirements:
        if field.key == _NAME_FIELD and field.operator is Operator.IN:
            values = frozenset(field.values)
            names = values if names is None else names & values
    return names


def port_refusal(session: Session, wanted: tuple[HostPort, ...]) -> Refusal:
    """Nodes where another pod uses the port, protocol and address."""
    taken = np.zeros(len(session.table), dtype=np.bool_)
    for port in wanted:
        taken[session.cache.pods.rows_with_port(port)] = True
    return Refusal(PORT_TAKEN, taken, unresolvable=False)


class HostPorts(TaskFilter):
    """Refuses nodes where the ports of a pod are in use."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def refusals(self, task: Task) -> list[Refusal]:
        return [port_refusal(self._session, task.class_.spec.host_ports)]


class EquivalenceCache(TaskFilter):
    """Evaluates the first pod of a template; the others get its result, without a reason.

    Volcano trusts the annotation: pods with equal templates and different specs share a verdict.
    """

    def __init__(self, filters: NodeFilters) -> None:
        # The refusals by the node filters, by class.
        self._answers = Memo(filters.refusals)
        self._verdicts: dict[str, Mask] = {}
        # Tasks that are evaluated themselves, and their templates.
        self._first: dict[str, str] = {}

    def why_not_anywhere(self, task: Task) -> None:
        """Evaluates the first pod of a template."""
        template = task.pod.annotations.get(TEMPLATE, "")
        self._first.pop(task.uid, None)
        if template and template not in self._verdicts:
            self._first[task.uid] = template
            refused = [refusal.rows for refusal in self._answers[task.class_]]
            self._verdicts[template] = np.logical_or.reduce(refused)

    def refusals(self, task: Task) -> list[Refusal]:
        template = task.pod.annotations.get(TEMPLATE, "")
        if not template or template not in self._verdicts or task.uid in self._first:
            return self._answers[task.class_]
        return [Refusal(TEMPLATE_FAILED, self._verdicts[template], unresolvable=True)]
