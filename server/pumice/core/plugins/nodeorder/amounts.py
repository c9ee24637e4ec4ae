"""Scores that follow from amounts: how full a node is, and how evenly."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from pumice.core.cache.tasks import TaskClass
from pumice.core.session.feasibility.rows import NodeRows
from pumice.core.session.feasibility.terms import FULL, LeastAndBalanced
from pumice.core.session.hooks import Scores
from pumice.core.session.policies import RowTerm
from pumice.core.session.session import Session

GPU = "nvidia.com/gpu"
# Up to here amount * 100 is a whole number in floats, and the floor of a quotient is exact.
_EXACT_BELOW = 2.0**46


class AmountScores:
    """Least, most and balanced allocation by their weights, over Kubernetes' view of the nodes."""

    def __init__(self, session: Session, least: int, most: int, balanced: int) -> None:
        self._least = float(least)
        self._most = float(most)
        self._balanced = float(balanced)
        capacity = session.table.kube_allocatable[:2]
        # All nodes have cpu and memory, in amounts that can be multiplied exactly.
        self._usual = bool(((capacity > 0) & (capacity < _EXACT_BELOW)).all())
        self._is_default = (least, most, balanced) == (1, 0, 1)
        self._terms: dict[int, RowTerm[Scores]] = {}

    def term(self, class_: TaskClass) -> RowTerm[Scores]:
        """What the class makes of rows: a term that the kernel knows in the usual case."""
        known = self._terms.get(class_.number)
        if known is None:
            known = self._terms[class_.number] = self._make_term(class_)
        return known

    def _make_term(self, class_: TaskClass) -> RowTerm[Scores]:
        spec, request = class_.spec, class_.request
        asks_for_some = request.milli_cpu > 0 or request.memory > 0
        cards = request.get(GPU) > 0
        if self._usual and self._is_default and asks_for_some and not cards:
            return LeastAndBalanced(*spec.scored_amounts(), request.milli_cpu, request.memory)
        return _AnyAmounts(self, class_, has_balance=asks_for_some or cards)

    def score(self, class_: TaskClass, rows: NodeRows, *, has_balance: bool) -> Scores:
        """Any weights and any amounts."""
        capacity, spec = rows.kube_allocatable[:2], class_.spec
        total: Scores = np.zeros(len(rows))
        if self._least or self._most:
            free = capacity - rows.kube_non_zero
            free -= np.array([spec.scored_amounts()], dtype=float).T
            if self._least:
                total += self._least * self._mean(np.maximum(free, 0.0), capacity)
            if self._most:
                used = np.minimum(capacity - free, capacity)
                total += self._most * self._mean(used, capacity)
        if self._balanced and has_balance:
            total += self._balanced * balance(class_, rows)
        return total

    def _mean(self, amount: Scores, capacity: Scores) -> Scores:
        """What percentage of its capacity each amount is, and their mean; truncated each time."""
        if not self._usual:
            return _careful_mean(amount, capacity)
        amount *= FULL
        amount /= capacity
        np.floor(amount, out=amount)
        mean: Scores = np.floor((amount[0] + amount[1]) * 0.5)
        return mean


def _careful_mean(amount: Scores, capacity: Scores) -> Scores:
    """The same for nodes without cpu or memory, which count what they have, and huge ones."""
    known = capacity > 0
    parts = amount.astype(np.int64) * 100 // np.where(known, capacity, 1).astype(np.int64)
    parts[~known] = 0
    count = np.maximum(known[0].astype(np.int64) + known[1], 1)
    mean: Scores = ((parts[0] + parts[1]) // count).astype(np.float64)
    return mean


class _AnyAmounts:
    """The term of a class that the kernel does not know."""

    __slots__ = ("_class", "_has_balance", "_scores")

    def __init__(self, scores: AmountScores, class_: TaskClass, *, has_balance: bool) -> None:
        self._scores = scores
        self._class = class_
        self._has_balance = has_balance

    def evaluate(self, rows: NodeRows) -> Scores:
        return self._scores.score(self._class, rows, has_balance=self._has_balance)


def balance(class_: TaskClass, rows: NodeRows) -> Scores:
    """Any number of dimensions, which a node may lack; cards count only if asked for."""
    request = class_.request
    columns = [0, 1]
    gpu = rows.column(GPU)
    if request.get(GPU) > 0 and gpu is not None:
        columns.append(gpu)
    names = rows.columns
    asked = np.array([[request.get(names[column])] for column in columns], dtype=float)
    capacity = rows.kube_allocatable[columns]
    used = rows.kube_requested[columns]
    without, with_task = _evenness(used, capacity), _evenness(used + asked, capacity)
    score: Scores = 50.0 + np.trunc((50.0 + with_task - without) / 2)
    return score


def _evenness(used: Scores, capacity: Scores) -> Scores:
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
    evenness: Scores = np.trunc((1.0 - deviation) * FULL)
    return evenness


@lru_cache(maxsize=8)
def _pairs(size: int) -> tuple[tuple[int, int], ...]:
    return tuple((i, j) for i in range(size) for j in range(i + 1, size))
