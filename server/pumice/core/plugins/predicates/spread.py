"""Topology spread that must hold: matching pods may not pile up in one place."""

from __future__ import annotations

import numpy as np

from pumice.core.cache.pods import Counts
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.fit import Mask, Refusal
from pumice.core.model.pod import SpreadConstraint
from pumice.core.session.session import Session

TOO_UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{TOO_UNEVEN} (missing required label)"


class TopologySpread:
    """Only constraints that forbid; the ones that prefer are scores."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._constraints: dict[int, tuple[SpreadConstraint, ...]] = {}
        # By class: which nodes count, one mask a constraint.
        self._counting: dict[int, list[Mask]] = {}

    def constraints(self, class_: TaskClass) -> tuple[SpreadConstraint, ...]:
        known = self._constraints.get(class_.number)
        if known is None:
            known = tuple(c for c in class_.spec.spread_constraints if c.required)
            self._constraints[class_.number] = known
        return known

    def refusals(self, task: Task) -> list[Refusal]:
        constraints = self.constraints(task.class_)
        asked: Mask = np.ones(len(self._session.table), dtype=np.bool_)
        unlabelled, uneven = np.zeros_like(asked), np.zeros_like(asked)
        for constraint, counting in zip(constraints, self._nodes(task.class_), strict=True):
            present = self._session.labels.column(constraint.topology_key).present
            unlabelled |= asked & ~present
            # A node is asked about a constraint only if it met all before it.
            asked &= present
            too_many = asked & self._too_many(task, constraint, counting)
            uneven |= too_many
            asked &= ~too_many
        return [
            Refusal(NO_LABEL, unlabelled, unresolvable=True),
            Refusal(TOO_UNEVEN, uneven, unresolvable=False),
        ]

    def _nodes(self, class_: TaskClass) -> list[Mask]:
        """The nodes that count: with all keys, and admitted by the constraint's policies."""
        known = self._counting.get(class_.number)
        if known is None:
            labels, spec = self._session.labels, class_.spec
            constraints = self.constraints(class_)
            keyed: Mask = np.ones(len(self._session.table), dtype=np.bool_)
            for constraint in constraints:
                keyed &= labels.column(constraint.topology_key).present
            known = []
            for constraint in constraints:
                counting = keyed.copy()
                if constraint.honor_node_affinity:
                    counting &= labels.admits(spec)
                if constraint.honor_node_taints:
                    counting &= ~labels.repels(spec.tolerations)
                known.append(counting)
            self._counting[class_.number] = known
        return known

    def _too_many(self, task: Task, constraint: SpreadConstraint, counting: Mask) -> Mask:
        column = self._session.labels.column(constraint.topology_key)
        codes, size = column.codes[counting], len(column.values) + 1
        matching: Counts = np.zeros(size, dtype=np.int64)
        selector = constraint.selector
        # A selector without requirements counts nobody, though it selects the task itself.
        if selector is not None and selector.requirements:
            tally = self._session.pods.tally(frozenset((task.pod.namespace,)), selector, alive=True)
            np.add.at(matching, codes, tally.counts[counting])
        domains = np.bincount(codes, minlength=size) > 0
        lowest = 0
        if int(domains.sum()) >= max(constraint.min_domains, 1):
            lowest = int(matching[domains].min())
        itself = selector is not None and selector.matches(task.pod.labels)
        too_many: Mask = matching[column.codes] + itself - lowest > constraint.max_skew
        return too_many
