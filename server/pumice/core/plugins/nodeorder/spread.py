"""Preferred topology spread constraints, with defaults for pods of Services and controllers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pumice.core.cache.pods import SmallCounts
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.fit import Mask
from pumice.core.model.pod import SpreadConstraint
from pumice.core.model.selectors import LabelSelector
from pumice.core.session.feasibility.candidate_terms import EvenSpread, SpreadPart
from pumice.core.session.session import Session

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def default_constraints(selector: LabelSelector) -> tuple[SpreadConstraint, ...]:
    return (
        SpreadConstraint(HOSTNAME, 3, required=False, selector=selector),
        SpreadConstraint(ZONE, 5, required=False, selector=selector),
    )


class SpreadPreferences:
    """The spread of each task: by its own constraints, or by those of its Services and controller."""

    def __init__(self, session: Session, weight: int) -> None:
        self._session = session
        self._weight = weight
        self._soft: dict[int, tuple[SpreadConstraint, ...]] = {}
        # By class, namespace, constraints, and which of them count the task itself.
        self._terms: dict[tuple[object, ...], EvenSpread] = {}
        self._admitted: dict[int, Mask] = {}
        self._tolerated: dict[int, Mask] = {}
        self._everywhere: Mask = np.ones(len(session.table), dtype=np.bool_)
        # By class, and which of its rules about nodes count.
        self._counting: dict[tuple[int, bool, bool], Mask] = {}

    def is_silent_about(self, class_: TaskClass) -> bool:
        """Whether no task of the class is to be spread, by its own constraints or by default."""
        return not class_.spec.spread_constraints and not self._session.cache.workload_selectors

    def constraints(self, task: Task) -> tuple[SpreadConstraint, ...]:
        spec = task.class_.spec
        if spec.spread_constraints:
            known = self._soft.get(task.class_.number)
            if known is None:
                known = tuple(c for c in spec.spread_constraints if not c.required)
                self._soft[task.class_.number] = known
            return known
        selector = self._session.cache.workload_selectors.selector_for(task.pod)
        return () if selector is None else default_constraints(selector)

    def term(self, task: Task) -> EvenSpread | None:
        """The same object for tasks that are spread in the same way; None: it is not spread."""
        constraints = self.constraints(task)
        if not constraints:
            return None
        pod = task.pod
        counted = tuple(_counts(constraint, pod.labels) for constraint in constraints)
        key = (task.class_.number, pod.namespace, constraints, counted)
        known = self._terms.get(key)
        if known is None:
            known = self._terms[key] = self._make(task, constraints, counted)
        return known

    def _make(
        self, task: Task, constraints: tuple[SpreadConstraint, ...], counted: tuple[bool, ...]
    ) -> EvenSpread:
        column = self._session.labels.column
        keyed = self._everywhere
        # Nodes without all the keys are left out, except by the defaults.
        if task.class_.spec.spread_constraints:
            for constraint in constraints:
                keyed = keyed & column(constraint.topology_key).present
        parts = tuple(
            SpreadPart(
                column(constraint.topology_key),
                constraint.topology_key == HOSTNAME,
                constraint.max_skew,
                self._pods(task, constraint),
                self._counted(task.class_, constraint, keyed),
                itself,
            )
            for constraint, itself in zip(constraints, counted, strict=True)
        )
        return EvenSpread(self._weight, keyed, parts)

    def _pods(self, task: Task, constraint: SpreadConstraint) -> SmallCounts:
        """Matching pods by row; a selector without requirements counts nobody."""
        selector = constraint.selector
        if selector is None or not selector.requirements:
            return np.zeros(len(self._session.table), dtype=np.int32)
        namespaces = frozenset((task.pod.namespace,))
        return self._session.pods.tally(namespaces, selector, alive=True).counts

    def _counted(self, class_: TaskClass, constraint: SpreadConstraint, keyed: Mask) -> Mask:
        """Nodes whose pods count; the same array where constraints are alike."""
        if keyed is not self._everywhere:
            return keyed & self._included(class_, constraint)
        key = (class_.number, constraint.honor_node_affinity, constraint.honor_node_taints)
        known = self._counting.get(key)
        if known is None:
            known = self._counting[key] = self._included(class_, constraint)
        return known

    def _included(self, class_: TaskClass, constraint: SpreadConstraint) -> Mask:
        """Nodes that count, by the constraint's policies."""
        labels, spec = self._session.labels, class_.spec
        mask: Mask = np.ones(len(self._session.table), dtype=np.bool_)
        if constraint.honor_node_affinity:
            if class_.number not in self._admitted:
                self._admitted[class_.number] = labels.admits(spec)
            mask &= self._admitted[class_.number]
        if constraint.honor_node_taints:
            if class_.number not in self._tolerated:
                self._tolerated[class_.number] = ~labels.repels(spec.tolerations)
            mask &= self._tolerated[class_.number]
        return mask


def _counts(constraint: SpreadConstraint, labels: Mapping[str, str]) -> bool:
    """Whether a constraint counts pods with these labels."""
    selector = constraint.selector
    if selector is None or not selector.requirements:
        return False
    return selector.matches(labels)
