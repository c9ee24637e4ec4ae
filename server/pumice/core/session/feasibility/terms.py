"""The terms of row hooks that the kernel supports.

NumPy evaluates each term too, with the same result to the last bit.
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
    """A row predicate: no more pods than the node allows; evictions can resolve it."""

    reason: str

    def evaluate(self, rows: NodeRows) -> tuple[Refusal, ...]:
        full = rows.allocatable[PODS_COLUMN] <= rows.kube_pods
        return (Refusal(self.reason, full, unresolvable=False),)


@dataclass(frozen=True, slots=True)
class Fullness:
    """A row score: how full the node would be, 0 where it would be more than full."""

    # Resource, what the class asks of it, and its weight.
    parts: tuple[tuple[str, float, float], ...]
    # The divisor of the weighted sum, which counts where it is above zero; and the factor of the result.
    divisor: float
    factor: float

    def evaluate(self, rows: NodeRows) -> Floats:
        parts = [(*part, False) for part in self.parts]
        return mean_use(rows, parts, self.divisor, self.factor)


def mean_use(
    rows: NodeRows, parts: Iterable[tuple[str, float, float, bool]], divisor: float, factor: float
) -> Floats:
    """The weighted mean of what would be in use of each resource, or of what would be free.

    Each part has the resource, what is asked of it, its weight, and whether the free part counts.
    The result is 0 where the node would be more than full.
    """
    total = np.zeros(len(rows))
    fits = np.ones(len(rows), dtype=np.bool_)
    # Pipelined tasks are not in use yet: such a node looks emptier than it will be.
    used, allocatable = rows.used, rows.allocatable
    for name, asked, weight, by_free in parts:
        column = rows.column(name)
        if not weight or column is None:
            continue
        capacity = allocatable[column]
        exists = capacity != 0
        then = used[column] + asked
        fits &= ~exists | (then <= capacity)
        counted = capacity - then if by_free else then
        total = total + np.divide(counted * weight, capacity, out=np.zeros(len(rows)), where=exists)
    if divisor > 0:
        total = total / divisor
    return np.where(fits, total * factor, 0.0)


_MAX_NODE_SCORE = 100.0
# Up to here amount * 100 is a whole number in floats, and the floor of a quotient is exact.
_EXACT_BELOW = 2.0**46


@dataclass(frozen=True, slots=True)
class AmountScore:
    """A batch row score: least, most and balanced allocation over Kubernetes' view of the nodes.

    A node counts those of cpu, memory and cards that it has.
    """

    least: float
    most: float
    balanced: float
    # What the class asks for, by the defaults for scores and as it is.
    non_zero_milli_cpu: float
    non_zero_memory: float
    milli_cpu: float
    memory: float
    # A third resource that counts for balance; empty: none.
    card: str = ""
    cards: float = 0.0

    @property
    def has_balance(self) -> bool:
        """Whether the class asks for something that could be out of balance."""
        return bool(self.balanced) and (self.milli_cpu > 0 or self.memory > 0 or self.cards > 0)

    def evaluate(self, rows: NodeRows) -> Floats:
        capacity = rows.kube_allocatable[:2]
        # Floats have all that is computed here exactly, for nodes with cpu and memory.
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
        column = rows.column(self.card) if self.card else None
        used, capacity = rows.kube_requested[:2], rows.kube_allocatable[:2]
        asked, evenness = [[self.milli_cpu], [self.memory]], _evenness
        if column is not None:
            columns = [0, 1, column]
            used, capacity = rows.kube_requested[columns], rows.kube_allocatable[columns]
            asked.append([self.cards])
        elif is_usual:
            evenness = _evenness_of_two
        with_task, without = evenness(used + np.array(asked), capacity), evenness(used, capacity)
        return 50.0 + np.trunc((50.0 + with_task - without) / 2)


def _mean(amount: Floats, capacity: Floats, *, is_usual: bool) -> Floats:
    """What percentage of its capacity each amount is, and their mean; truncated each time."""
    if not is_usual:
        return _careful_mean(amount, capacity)
    amount *= _MAX_NODE_SCORE
    amount /= capacity
    np.floor(amount, out=amount)
    mean: Floats = np.floor((amount[0] + amount[1]) * 0.5)
    return mean


def _careful_mean(amount: Floats, capacity: Floats) -> Floats:
    """The same for nodes without cpu or memory, which count what they have, and huge ones."""
    known = capacity > 0
    parts = amount.astype(np.int64) * 100 // np.where(known, capacity, 1).astype(np.int64)
    parts[~known] = 0
    count = np.maximum(known[0].astype(np.int64) + known[1], 1)
    mean: Floats = ((parts[0] + parts[1]) // count).astype(np.float64)
    return mean


def _evenness_of_two(used: Floats, capacity: Floats) -> Floats:
    """Fractions of two dimensions deviate from their mean by half their difference."""
    fractions = np.minimum(used / capacity, 1.0)
    evenness: Floats = np.floor((1.0 - np.abs(fractions[0] - fractions[1]) * 0.5) * _MAX_NODE_SCORE)
    return evenness


def _evenness(used: Floats, capacity: Floats) -> Floats:
    """The same for any number of dimensions, which a node may lack."""
    known = capacity > 0
    fractions = np.divide(used, capacity, out=np.zeros_like(used), where=known)
    np.minimum(fractions, 1.0, out=fractions)
    count = known.sum(axis=0)
    deviation = np.zeros(used.shape[1])
    # Two dimensions have a formula of their own, whichever two they are.
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
# By point, because the kernel adds up each point separately.
KERNEL_TERMS: dict[str, type[KernelTerm]] = {
    "row_predicate": PodLimit,
    "row_score": Fullness,
    "row_batch_score": AmountScore,
}
