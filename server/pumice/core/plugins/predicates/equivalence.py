"""Remembers, for pods made from one template, which nodes passed the node filters."""

from __future__ import annotations

import numpy as np

from pumice.core.cache.tasks import Task
from pumice.core.model.fit import Mask, Refusal
from pumice.core.model.memo import Memo
from pumice.core.plugins.predicates.node_filters import NodeFilters

TEMPLATE = "volcano.sh/template-uid"
FAILED = "plugin equivalence cache predicates failed"


class EquivalenceCache:
    """Evaluates the first pod of a template; the others get its result, without a reason.

    Volcano believes the annotation: pods with equal templates and different specs share a verdict.
    """

    def __init__(self, filters: NodeFilters) -> None:
        # By class: the answers of the node filters.
        self._answers = Memo(filters.refusals)
        self._verdicts: dict[str, Mask] = {}
        # Tasks whose turn it is to be looked at themselves.
        self._first: dict[str, str] = {}

    def consider(self, task: Task) -> None:
        """Before nodes are looked at: decides whether this round asks the filters."""
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
        return [Refusal(FAILED, self._verdicts[template], unresolvable=True)]
