"""The terms of row hooks that the kernel supports.

NumPy evaluates each term too, with exactly the same result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pumice.core.cache.nodes import PODS_COLUMN, Floats
from pumice.core.model.fit import Refusal
from pumice.core.session.feasibility.rows import NodeRows


@dataclass(frozen=True, slots=True)
class PodLimit:
    """A row predicate: the number of pods on a node has a limit, which evictions can resolve."""

    reason: str

    def evaluate(self, rows: NodeRows) -> tuple[Refusal, ...]:
        full = rows.allocatable[PODS_COLUMN] <= rows.kube_pods
        return (Refusal(self.reason, full, unresolvable=False),)


@dataclass(frozen=True, slots=True)
class Fullness:
    """A row score: the weighted mean of the used fractions; 0 where a resource is insufficient."""

    # Resource, request, and weight.
    parts: tuple[tuple[str, float, float], ...]
    # The divisor of the weighted sum, which is used if it is above zero; and the factor of the result.
    divisor: float
    factor: float

    def evaluate(self, rows: NodeRows) -> Floats:
        parts = [(*part, False) for part in self.parts]
        return mean_use(rows, parts, self.divisor, self.factor)


def mean_use(
    rows: NodeRows, parts: Iterable[tuple[str, float, float, bool]], divisor: float, factor: float
) -> Floats:
    """The weighted mean of the used fraction, or of the free fraction, of each resource.

    Each part has the resource, the request, the weight, and whether the free fraction is used. The
    result is 0 where a resource is insufficient.
    """
    total = np.zeros(len(rows))
    fits = np.ones(len(rows), dtype=np.bool_)
    # As in Volcano, pipelined tasks are not in the used amounts.
    used, allocatable = rows.used, rows.allocatable
    for name, request, weight, by_free in parts:
        column = rows.column(name)
        if not weight or column is None:
            continue
        capacity = allocatable[column]
        exists = capacity != 0
        future = used[column] + request
        fits &= ~exists | (future <= capacity)
        counted = capacity - future if by_free else future
        total = total + np.divide(counted * weight, capacity, out=np.zeros(len(rows)), where=exists)
    if divisor > 0:
        total = total / divisor
    return np.where(fits, total * factor, 0.0)


_MAX_NODE_SCORE = 100.0
# Below this, amount * 100 is exact in floats, and so is the floor of a quotient.
_EXACT_BELOW = 2.0**46


@dataclass(frozen=True, slots=True)
class AmountScore:
    """A batch row score: Kubernetes' least, most and balanced allocation.

    Of cpu, memory and GPUs, a node is scored by those that it has.
    """

    least: float
    most: float
    balanced: float
    # The request of the class, with Kubernetes' defaults for scores and without.
    non_zero_milli_cpu: float
    non_zero_memory: float
    milli_cpu: float
    memory: float
    # The GPU resource in the balanced allocation, and its request; empty: none.
    gpu: str = ""
    gpus: float = 0.0

    @property
    def has_balance(self) -> bool:
        """Whether the balanced allocation has a weight, and the class requests something."""
        return bool(self.balanced) and (self.milli_cpu > 0 or self.memory > 0 or self.gpus > 0)

    def evaluate(self, rows: NodeRows) -> Floats:
        capacity = rows.kube_allocatable[:2]
        # For nodes with cpu and memory, the computations with floats are exact.
        is_usual = bool(((capacity > 0) & (capacity < _EXACT_BELOW)).all())
        total: Floats = np.zeros(len(rows))
        if self.least or self.most:
            free = capacity - rows.kube_non_zero
            free -= np.array([[self.non_zero_milli_cpu], [self.non_zero_memory]])
            if self.least:
                total += self.least * _mean(np.maximum(free, 0.0), capacity, is_usual=is_usual)
            if self.most:
                used = np.minimum(capacity - free, capacity)
                total += self.most * _mean(used, capacity, is_usual=is_usual)
        if self.has_balance:
            total += self.balanced * self._balance(rows, is_usual=is_usual)
        return total

    def _balance(self, rows: NodeRows, *, is_usual: bool) -> Floats:
        column = rows.column(self.gpu) if self.gpu else None
        used, capacity = rows.kube_requested[:2], rows.kube_allocatable[:2]
        request, balance = [[self.milli_cpu], [self.memory]], _balance_of
        if column is not None:
            columns = [0, 1, column]
            used, capacity = rows.kube_requested[columns], rows.kube_allocatable[columns]
            request.append([self.gpus])
        elif is_usual:
            balance = _balance_of_two
        with_task, without = (
            balance(used + np.array(request), capacity),
            balance(used, capacity),
        )
        return 50.0 + np.trunc((50.0 + with_task - without) / 2)


def _mean(amount: Floats, capacity: Floats, *, is_usual: bool) -> Floats:
    """The mean of both amounts in percent of their capacity; each step is truncated."""
    if not is_usual:
        return _careful_mean(amount, capacity)
    amount *= _MAX_NODE_SCORE
    amount /= capacity
    np.floor(amount, out=amount)
    mean: Floats = np.floor((amount[0] + amount[1]) * 0.5)
    return mean


def _careful_mean(amount: Floats, capacity: Floats) -> Floats:
    """The same for nodes that lack cpu or memory, whose mean is over the others, and huge nodes."""
    known = capacity > 0
    parts = amount.astype(np.int64) * 100 // np.where(known, capacity, 1).astype(np.int64)
    parts[~known] = 0
    count = np.maximum(known[0].astype(np.int64) + known[1], 1)
    mean: Floats = ((parts[0] + parts[1]) // count).astype(np.float64)
    return mean


def _balance_of_two(used: Floats, capacity: Floats) -> Floats:
    """The balance of two resources: their fractions deviate from the mean by half their difference."""
    fractions = np.minimum(used / capacity, 1.0)
    balance: Floats = np.floor((1.0 - np.abs(fractions[0] - fractions[1]) * 0.5) * _MAX_NODE_SCORE)
    return balance


def _balance_of(used: Floats, capacity: Floats) -> Floats:
    """The same for any number of resources, some of which a node may lack."""
    known = capacity > 0
    fractions = np.divide(used, capacity, out=np.zeros_like(used), where=known)
    np.minimum(fractions, 1.0, out=fractions)
    count = known.sum(axis=0)
    deviation = np.zeros(used.shape[1])
    # As in Kubernetes, nodes with two of the resources have a different formula.
    for left, right in combinations(range(len(used)), 2):
        these = (count == 2) & known[left] & known[right]
        deviation = np.where(these, np.abs((fractions[left] - fractions[right]) / 2), deviation)
    if len(used) > 2:
        total, squares = fractions[0], np.zeros(used.shape[1])
        for fraction in fractions[1:]:
            total = total + fraction
        mean = total / len(used)
        for fraction in fractions:
            squares = squares + (fraction - mean) * (fraction - mean)
        deviation = np.where(count == len(used), np.sqrt(squares / len(used)), deviation)
    return np.trunc((1.0 - deviation) * _MAX_NODE_SCORE)


KernelTerm = PodLimit | Fullness | AmountScore
# By point: the kernel computes each point separately.
KERNEL_TERMS: dict[str, type[KernelTerm]] = {
    "row_predicate": PodLimit,
    "row_score": Fullness,
    "row_batch_score": AmountScore,
}
