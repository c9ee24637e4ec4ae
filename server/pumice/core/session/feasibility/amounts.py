"""The term of scores that follow from amounts: how full a node is, and how evenly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pumice.core.cache.nodes import Floats
from pumice.core.session.feasibility.rows import NodeRows

FULL = 100.0
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
        is_usual = bool(((capacity > 0) & (capacity < _EXACT_BELOW)).all())
        weights = (self.least, self.most, self.balanced)
        if is_usual and weights == (1.0, 0.0, 1.0) and self.has_balance and not self.card:
            return self._least_and_balanced(rows)
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
            total += self.balanced * self._balance(rows)
        return total

    def _balance(self, rows: NodeRows) -> Floats:
        """Any number of dimensions, which a node may lack."""
        columns, asked = [0, 1], [[self.milli_cpu], [self.memory]]
        column = rows.column(self.card) if self.card else None
        if column is not None:
            columns.append(column)
            asked.append([self.cards])
        capacity, used = rows.kube_allocatable[columns], rows.kube_requested[columns]
        without = _evenness(used, capacity)
        with_task = _evenness(used + np.array(asked), capacity)
        score: Floats = 50.0 + np.trunc((50.0 + with_task - without) / 2)
        return score

    def _least_and_balanced(self, rows: NodeRows) -> Floats:
        """The same with fewer operations, for the usual weights, amounts and nodes."""
        capacity = rows.kube_allocatable[:2]
        parts = np.empty((3, 2, len(rows)))
        free, used, used_then = parts[0], parts[1], parts[2]
        np.subtract(capacity, rows.kube_non_zero, out=free)
        free -= np.array([[self.non_zero_milli_cpu], [self.non_zero_memory]])
        np.maximum(free, 0.0, out=free)
        free *= FULL
        used[:] = rows.kube_requested[:2]
        np.add(used, np.array([[self.milli_cpu], [self.memory]]), out=used_then)
        parts /= capacity
        np.floor(free, out=free)
        # Fractions of two dimensions deviate from their mean by half their difference.
        fractions = np.minimum(parts[1:], 1.0, out=parts[1:])
        evenness = np.abs(fractions[:, 0] - fractions[:, 1])
        evenness *= 0.5
        np.subtract(1.0, evenness, out=evenness)
        evenness *= FULL
        np.floor(evenness, out=evenness)
        least = np.floor((free[0] + free[1]) * 0.5)
        # 50 + (50 + with - without) / 2, where halves are cut off.
        total: Floats = np.floor((evenness[1] - evenness[0] + 150.0) * 0.5)
        total += least
        return total


def _mean(amount: Floats, capacity: Floats, *, is_usual: bool) -> Floats:
    """What percentage of its capacity each amount is, and their mean; truncated each time."""
    if not is_usual:
        return _careful_mean(amount, capacity)
    amount *= FULL
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


def _evenness(used: Floats, capacity: Floats) -> Floats:
    known = capacity > 0
    fractions = np.divide(used, capacity, out=np.zeros_like(used), where=known)
    np.minimum(fractions, 1.0, out=fractions)
    count = known.sum(axis=0)
    deviation = np.zeros(used.shape[1])
    # Two dimensions have a formula of their own, whichever two they are.
    for left, right in _pairs(len(used)):
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
    evenness: Floats = np.trunc((1.0 - deviation) * FULL)
    return evenness


@lru_cache(maxsize=8)
def _pairs(size: int) -> tuple[tuple[int, int], ...]:
    return tuple((i, j) for i in range(size) for j in range(i + 1, size))
