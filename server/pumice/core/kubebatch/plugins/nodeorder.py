"""nodeorder, as in kube-batch: scores of 0 to 10, each times its weight."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pumice.core.cache.nodes import CPU_COLUMN, MEMORY_COLUMN
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import Arguments, PluginOptions, integer
from pumice.core.kubebatch.plugins.affinity import preferred_weights
from pumice.core.model.selectors import NodeSelectorTerm
from pumice.core.session.feasibility.rows import NodeRows
from pumice.core.session.hooks import Rows, Scores
from pumice.core.session.session import Session

_FULL = 10


class KubeBatchNodeOrderArguments(Arguments):
    """Weights of scores."""

    least = integer("leastrequested.weight", 1, "how much it counts that a node is empty")
    most = integer("mostrequested.weight", 0, "how much it counts that a node is full")
    node_affinity = integer("nodeaffinity.weight", 1, "how much preferred node affinity counts")
    pod_affinity = integer(
        "podaffinity.weight", 1, "how much preferred affinity to other pods counts"
    )
    balanced = integer(
        "balancedresource.weight", 1, "how much it counts that cpu and memory are used evenly"
    )


class KubeBatchNodeOrderPlugin:
    """Whole numbers at every step; taints, images and spread have no score."""

    name: ClassVar[str] = "nodeorder"
    arguments: ClassVar[type[Arguments]] = KubeBatchNodeOrderArguments

    def __init__(self, options: PluginOptions) -> None:
        self._weights = KubeBatchNodeOrderArguments(options.arguments)

    def open(self, session: Session) -> None:
        self._session = session
        session.hooks.row_batch_score[self.name] = self._by_amounts
        session.hooks.task_batch_score[self.name] = self._by_candidates

    def _by_amounts(self, class_: TaskClass, rows: NodeRows) -> Scores:
        spec = class_.spec
        asked = (
            (CPU_COLUMN, rows.kube_non_zero[0] + spec.non_zero_milli_cpu),
            (MEMORY_COLUMN, rows.kube_non_zero[1] + spec.non_zero_memory_bytes),
        )
        amounts = [(used, rows.kube_allocatable[column]) for column, used in asked]
        total: Scores = np.zeros(len(rows))
        if weight := self._weights.least:
            parts = [_tenths(capacity - used, used, capacity) for used, capacity in amounts]
            total += weight * np.floor((parts[0] + parts[1]) / 2)
        if weight := self._weights.most:
            parts = [_tenths(used, used, capacity) for used, capacity in amounts]
            total += weight * np.floor((parts[0] + parts[1]) / 2)
        if weight := self._weights.balanced:
            total += weight * _balanced(*(_fraction(used, cap) for used, cap in amounts))
        return total

    def _by_candidates(self, task: Task, rows: Rows) -> Scores | None:
        parts = (
            (self._weights.node_affinity, self._node_affinity(task.class_, rows)),
            (self._weights.pod_affinity, self._pod_affinity(task, rows)),
        )
        scores = [weight * part for weight, part in parts if weight and part is not None]
        return np.sum(scores, axis=0) if scores else None

    def _node_affinity(self, class_: TaskClass, rows: Rows) -> Scores | None:
        raw: Scores = np.zeros(len(rows))
        for preferred in class_.spec.preferred_node_terms:
            # Only labels count in a preference, not the node's name.
            term = NodeSelectorTerm(preferred.term.label_requirements)
            raw += preferred.weight * self._session.labels.matches_term(term)[rows]
        highest = raw.max(initial=0)
        return None if highest == 0 else np.floor(_FULL * raw / highest)

    def _pod_affinity(self, task: Task, rows: Rows) -> Scores | None:
        weights = preferred_weights(self._session, task, rows)
        if weights is None:
            return None
        lowest, highest = int(weights.min(initial=0)), int(weights.max(initial=0))
        if lowest == highest:
            return None
        return np.trunc(_FULL * ((weights - lowest) / float(highest - lowest)))


def _tenths(amount: Scores, used: Scores, capacity: Scores) -> Scores:
    """Amount * 10 / capacity in whole numbers; 0 where there is not enough for the task."""
    good = (capacity > 0) & (used <= capacity)
    top = np.where(good, amount, 0).astype(np.int64) * _FULL
    below = np.where(good, capacity, 1).astype(np.int64)
    return (top // below).astype(np.float64)


def _fraction(used: Scores, capacity: Scores) -> Scores:
    return np.divide(used, capacity, out=np.ones(len(used)), where=capacity > 0)


def _balanced(cpu: Scores, memory: Scores) -> Scores:
    """10 for equal fractions; 0 where one of them is used up."""
    scores = np.trunc((1 - np.abs(cpu - memory)) * _FULL)
    return np.where((cpu >= 1) | (memory >= 1), 0.0, scores)
