"""nodeorder: Kubernetes' own scores, weighted."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pumice.core.cache.nodes import CPU_COLUMN, MEMORY_COLUMN
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import ArgumentSchema, ArgumentType, PluginOptions
from pumice.core.model.selectors import TaintEffect
from pumice.core.session.hooks import Rows, Scores
from pumice.core.session.rows import NodeRows
from pumice.core.session.session import Session

_FULL = 100
_GPU = "nvidia.com/gpu"
_DEFAULT_WEIGHTS = {
    "leastrequested.weight": 1,
    "mostrequested.weight": 0,
    "balancedresource.weight": 1,
    "nodeaffinity.weight": 2,
    "podaffinity.weight": 2,
    "tainttoleration.weight": 3,
    "imagelocality.weight": 1,
    "podtopologyspread.weight": 2,
}


class NodeOrderPlugin:
    """Adds up scores of 0 to 100, each times its weight; whole numbers at every step."""

    name: ClassVar[str] = "nodeorder"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema(
        dict.fromkeys(_DEFAULT_WEIGHTS, ArgumentType.INT)
    )

    def __init__(self, options: PluginOptions) -> None:
        self._weight = {k: options.arguments.integer(k, v) for k, v in _DEFAULT_WEIGHTS.items()}

    def open(self, session: Session) -> None:
        self._session = session
        self._labels = session.labels
        session.hooks.row_batch_score[self.name] = self._by_amounts
        session.hooks.task_batch_score[self.name] = self._by_candidates

    def _by_amounts(self, class_: TaskClass, rows: NodeRows) -> Scores:
        total = np.zeros(len(rows))
        if weight := self._weight["leastrequested.weight"]:
            total += weight * least_allocated(class_, rows)
        if weight := self._weight["mostrequested.weight"]:
            total += weight * most_allocated(class_, rows)
        if weight := self._weight["balancedresource.weight"]:
            total += weight * balanced_allocation(class_, rows)
        return total

    def _by_candidates(self, task: Task, rows: Rows) -> Scores | None:
        total: Scores | None = None
        for key, function in (
            ("nodeaffinity.weight", self._node_affinity),
            ("tainttoleration.weight", self._taints),
        ):
            weight = self._weight[key]
            scores = function(task.class_, rows) if weight else None
            if scores is not None:
                total = weight * scores if total is None else total + weight * scores
        return total

    def _node_affinity(self, class_: TaskClass, rows: Rows) -> Scores | None:
        terms = class_.spec.preferred_node_terms
        raw = np.zeros(len(rows))
        for preferred in terms:
            if preferred.weight:
                raw += preferred.weight * self._labels.matches_term(preferred.term)[rows]
        highest = raw.max(initial=0)
        return None if highest == 0 else np.floor(_FULL * raw / highest)

    def _taints(self, class_: TaskClass, rows: Rows) -> Scores | None:
        codes, sets = self._labels.taint_sets()
        tolerations = [
            t
            for t in class_.spec.tolerations
            if t.effect in (TaintEffect.ANY, TaintEffect.PREFER_NO_SCHEDULE)
        ]
        counts = [
            sum(
                taint.effect is TaintEffect.PREFER_NO_SCHEDULE
                and not any(t.tolerates(taint) for t in tolerations)
                for taint in taints
            )
            for taints in sets
        ]
        if not any(counts):
            return None
        raw = np.array(counts, dtype=np.float64)[codes[rows]]
        highest = raw.max(initial=0)
        return None if highest == 0 else _FULL - np.floor(_FULL * raw / highest)


def _used_with(class_: TaskClass, rows: NodeRows) -> tuple[Scores, Scores]:
    spec = class_.spec
    used = rows.kube_non_zero
    return used[0] + spec.non_zero_milli_cpu, used[1] + spec.non_zero_memory_bytes


def _over_known(parts: list[Scores], known: list[np.ndarray], rows: int) -> Scores:
    """The mean of parts that exist, truncated; nodes without any get nothing."""
    total, weight = np.zeros(rows), np.zeros(rows)
    for part, exists in zip(parts, known, strict=True):
        total += np.where(exists, part, 0)
        weight += exists
    return np.floor(np.divide(total, weight, out=np.zeros(rows), where=weight > 0))


def least_allocated(class_: TaskClass, rows: NodeRows) -> Scores:
    parts, known = [], []
    for column, used in zip((CPU_COLUMN, MEMORY_COLUMN), _used_with(class_, rows), strict=True):
        capacity = rows.kube_allocatable[column]
        exists = capacity > 0
        free = np.where(used > capacity, 0, capacity - used)
        parts.append(_percent(free, capacity, exists))
        known.append(exists)
    return _over_known(parts, known, len(rows))


def most_allocated(class_: TaskClass, rows: NodeRows) -> Scores:
    parts, known = [], []
    for column, used in zip((CPU_COLUMN, MEMORY_COLUMN), _used_with(class_, rows), strict=True):
        capacity = rows.kube_allocatable[column]
        exists = capacity > 0
        parts.append(_percent(np.minimum(used, capacity), capacity, exists))
        known.append(exists)
    return _over_known(parts, known, len(rows))


def _percent(amount: Scores, capacity: Scores, exists: np.ndarray) -> Scores:
    """Amount * 100 / capacity in whole numbers; products stay far below 2^63."""
    top = amount.astype(np.int64) * _FULL
    below = np.where(exists, capacity, 1).astype(np.int64)
    return (top // below).astype(np.float64)


def balanced_allocation(class_: TaskClass, rows: NodeRows) -> Scores:
    """How evenly resources would be used with the task, against how evenly they are now."""
    request = class_.request
    asks_gpu = request.get(_GPU) > 0
    if not (request.milli_cpu or request.memory or asks_gpu):
        return np.zeros(len(rows))
    columns = [(CPU_COLUMN, request.milli_cpu), (MEMORY_COLUMN, request.memory)]
    gpu = rows.column(_GPU)
    if asks_gpu and gpu is not None:
        columns.append((gpu, request.get(_GPU)))
    without = _evenness(rows, [(column, 0) for column, _ in columns])
    with_task = _evenness(rows, columns)
    return 50 + np.trunc((50 + with_task - without) / 2)


def _evenness(rows: NodeRows, columns: list[tuple[int, float]]) -> Scores:
    fractions, known = [], []
    for column, extra in columns:
        capacity = rows.kube_allocatable[column]
        exists = capacity > 0
        used = rows.kube_requested[column] + extra
        fraction = np.divide(used, capacity, out=np.zeros(len(rows)), where=exists)
        fractions.append(np.minimum(fraction, 1.0))
        known.append(exists)
    count = sum(exists.astype(np.float64) for exists in known)
    # Two dimensions are the common case and have a form of their own; rows are split by how
    # many dimensions their node has.
    spread = np.zeros(len(rows))
    if len(columns) == 2:
        both = count == 2
        spread[both] = np.abs((fractions[0] - fractions[1])[both] / 2)
    else:
        spread = _deviation(fractions, known, count)
    return np.trunc((1 - spread) * _FULL)


def _deviation(fractions: list[Scores], known: list[np.ndarray], count: Scores) -> Scores:
    result = np.zeros(len(count))
    total = np.zeros(len(count))
    for fraction, exists in zip(fractions, known, strict=True):
        total = total + np.where(exists, fraction, 0)
    mean = np.divide(total, count, out=np.zeros(len(count)), where=count > 0)
    squares = np.zeros(len(count))
    for fraction, exists in zip(fractions, known, strict=True):
        squares = squares + np.where(exists, (fraction - mean) * (fraction - mean), 0)
    many = count > 2
    result[many] = np.sqrt((squares / np.where(count > 0, count, 1))[many])
    two = count == 2
    if two.any():
        picked = [np.where(exists, f, 0) for f, exists in zip(fractions, known, strict=True)]
        signed = np.zeros(len(count))
        seen = np.zeros(len(count))
        for part, exists in zip(picked, known, strict=True):
            signed = signed + np.where(exists & (seen == 0), part, 0)
            signed = signed - np.where(exists & (seen == 1), part, 0)
            seen = seen + exists
        result[two] = np.abs(signed[two] / 2)
    return result
