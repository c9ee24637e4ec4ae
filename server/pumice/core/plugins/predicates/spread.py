"""Required topology spread constraints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pumice.core.cache.labels import LabelColumn
from pumice.core.cache.pods import Counts, PodTally
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.fit import Mask, Refusal
from pumice.core.model.memo import Memo
from pumice.core.model.pod import SpreadConstraint
from pumice.core.plugins.predicates.filters import CountingFilter
from pumice.core.session.session import Session

TOO_UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{TOO_UNEVEN} (missing required label)"


@dataclass(frozen=True, slots=True)
class _Part:
    """A constraint of a class in one namespace, with the values that do not change in a session."""

    constraint: SpreadConstraint
    column: LabelColumn
    present: Mask
    # Nodes whose pods count; None: all nodes that have the label.
    counting: Mask | None
    # By code, whether a counting node has the value; the last entry is for nodes without the label.
    domains: Mask
    # None: the selector selects no pod.
    tally: PodTally | None

    def matching(self) -> Counts:
        """The number of matching pods, by the column's codes."""
        size = len(self.column.values) + 1
        if self.tally is None:
            return np.zeros(size, dtype=np.int64)
        if self.counting is None:
            return self.tally.by_value(self.constraint.topology_key, self.column)
        matching: Counts = np.zeros(size, dtype=np.int64)
        np.add.at(matching, self.column.codes[self.counting], self.tally.counts[self.counting])
        return matching


class TopologySpread(CountingFilter):
    """Evaluates constraints with DoNotSchedule; nodeorder scores the others."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.constraints = Memo(_required)
        # By class and namespace.
        self._parts = Memo(self._find_parts)

    def evaluate(self, task: Task) -> list[Refusal]:
        parts = self._parts[task.class_, task.pod.namespace]
        unlabelled, uneven = ~parts[0].present, _too_many(task, parts[0])
        for part in parts[1:]:
            # A constraint is evaluated on nodes that satisfy all constraints before it.
            remaining = ~(unlabelled | uneven)
            unlabelled |= remaining & ~part.present
            uneven |= remaining & _too_many(task, part)
        return [
            Refusal(NO_LABEL, unlabelled, unresolvable=True),
            Refusal(TOO_UNEVEN, uneven, unresolvable=False),
        ]

    def _find_parts(self, key: tuple[TaskClass, str]) -> list[_Part]:
        (class_, namespace), labels = key, self._session.labels
        constraints = self.constraints[class_]
        columns = [labels.column(c.topology_key) for c in constraints]
        keyed = np.logical_and.reduce([column.present for column in columns])
        parts = []
        for constraint, column in zip(constraints, columns, strict=True):
            # Pods count on nodes that have all keys and match the policies of the constraint.
            counting: Mask = keyed & labels.counts(class_.spec, constraint)
            domains = np.zeros(len(column.values) + 1, dtype=np.bool_)
            domains[column.codes[counting]] = True
            tally, present = self._session.pods.counted_by(constraint, namespace), column.present
            some = None if np.array_equal(counting, present) else counting
            parts.append(_Part(constraint, column, present, some, domains, tally))
        return parts


def _required(class_: TaskClass) -> tuple[SpreadConstraint, ...]:
    return tuple(c for c in class_.spec.spread_constraints if c.required)


def _too_many(task: Task, part: _Part) -> Mask:
    """Nodes in whose domain the task would exceed the maximum skew."""
    constraint = part.constraint
    matching = part.matching()
    in_domains = matching[part.domains]
    lowest = int(in_domains.min()) if len(in_domains) >= max(constraint.min_domains, 1) else 0
    selector = constraint.selector
    itself = int(selector is not None and selector.matches(task.pod.labels))
    uneven = matching > constraint.max_skew + lowest - itself
    # Nodes without the label are refused with another reason.
    uneven[-1] = False
    return uneven[part.column.codes]
