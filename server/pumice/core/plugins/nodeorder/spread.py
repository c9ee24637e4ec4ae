"""Preferred topology spread constraints, with defaults for pods of Services and controllers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.pods import Counts
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.fit import Mask
from pumice.core.model.logarithm import natural_log
from pumice.core.model.pod import SpreadConstraint
from pumice.core.model.selectors import LabelSelector
from pumice.core.session.hooks import Rows, Scores
from pumice.core.session.session import Session

_FULL = 100
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def default_constraints(selector: LabelSelector) -> tuple[SpreadConstraint, ...]:
    return (
        SpreadConstraint(HOSTNAME, 3, required=False, selector=selector),
        SpreadConstraint(ZONE, 5, required=False, selector=selector),
    )


class SpreadPreferences:
    """Prefers nodes with fewer matching pods in their topology domains."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._soft: dict[int, tuple[SpreadConstraint, ...]] = {}
        self._admitted: dict[int, Mask] = {}
        self._tolerated: dict[int, Mask] = {}

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
        defaults = self._session.cache.workload_selectors
        if not defaults:
            return ()
        selector = defaults.selector_for(task.pod)
        return () if selector is None else default_constraints(selector)

    def score(self, task: Task, rows: Rows) -> Scores | None:
        constraints = self.constraints(task)
        if not constraints:
            return None
        column = self._session.labels.column
        keyed: Mask = np.ones(len(self._session.table), dtype=np.bool_)
        # Nodes without all the keys are left out, except by the defaults.
        if task.class_.spec.spread_constraints:
            for constraint in constraints:
                keyed &= column(constraint.topology_key).present
        scored = keyed[rows]
        raw: Scores = np.zeros(len(rows))
        for constraint in constraints:
            raw = raw + self._part(task, constraint, keyed, rows, scored)
        whole = np.floor(raw)
        whole += raw - whole >= 0.5
        return _scaled(whole.astype(np.int64), scored)

    def _part(
        self, task: Task, constraint: SpreadConstraint, keyed: Mask, rows: Rows, scored: Mask
    ) -> Scores:
        """One constraint's share; 0 for nodes without its key."""
        codes = self._session.labels.column(constraint.topology_key).codes[rows]
        pods = self._pods(task, constraint)
        if constraint.topology_key == HOSTNAME:
            domains = int(scored.sum())
            counts = np.zeros(len(rows), dtype=np.int64) if pods is None else pods[rows]
        else:
            domains, counts = self._by_domain(task, constraint, keyed, rows[scored], codes, pods)
        weight = natural_log(domains + 2)
        part = counts * weight + float(constraint.max_skew - 1)
        return np.where(codes >= 0, part, 0.0)

    def _by_domain(
        self,
        task: Task,
        constraint: SpreadConstraint,
        keyed: Mask,
        scored_rows: Rows,
        codes: NDArray[np.int32],
        pods: Counts | None,
    ) -> tuple[int, Counts]:
        """The number of domains of the candidates, and the pods in the domain of each."""
        column = self._session.labels.column(constraint.topology_key)
        size = len(column.values)
        # A node without the label counts as one with an empty value.
        empty = column.values.get("", size)
        places = np.where(column.codes < 0, empty, column.codes)
        domains = len(np.unique(places[scored_rows]))
        if pods is None:
            return domains, np.zeros(len(codes), dtype=np.int64)
        counting = keyed & self._included(task.class_, constraint)
        sums = np.bincount(places[counting], weights=pods[counting], minlength=size + 1)
        return domains, sums[codes].astype(np.int64)

    def _pods(self, task: Task, constraint: SpreadConstraint) -> Counts | None:
        """Matching pods by row; a selector without requirements counts nobody."""
        selector = constraint.selector
        if selector is None or not selector.requirements:
            return None
        namespaces = frozenset((task.pod.namespace,))
        return self._session.pods.tally(namespaces, selector, alive=True).counts

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


def _scaled(raw: Counts, scored: Mask) -> Scores | None:
    if not scored.any():
        return None
    lowest, highest = int(raw[scored].min()), int(raw[scored].max())
    if highest <= 0:
        return np.where(scored, float(_FULL), 0.0)
    return np.where(scored, _FULL * (highest + lowest - raw) // highest, 0).astype(np.float64)
