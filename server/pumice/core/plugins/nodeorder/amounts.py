"""Scores that follow from amounts: how full a node is, and how evenly.

Called with a few rows after every placement, so the usual case has a short way of its own: the
default weights, every node has cpu and memory, and the class asks for no graphics cards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pumice.core.cache.tasks import TaskClass
from pumice.core.session.feasibility.rows import NodeRows
from pumice.core.session.feasibility.terms import LeastAndBalanced
from pumice.core.session.hooks import Scores
from pumice.core.session.session import Session

FULL = 100.0
GPU = "nvidia.com/gpu"
# Up to here amount * 100 is a whole number in floats, and the floor of a quotient is exact.
_EXACT_BELOW = 2.0**46


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a class asks for, as columns."""

    non_zero: Scores
    request: Scores
    is_something: bool
    # Some cpu or memory, and no cards.
    is_usual: bool


class AmountScores:
    """Least, most and balanced allocation by their weights, over Kubernetes' view of the nodes."""

    def __init__(self, session: Session, least: int, most: int, balanced: int) -> None:
        self._least = float(least)
        self._most = float(most)
        self._balanced = float(balanced)
        capacity = session.table.kube_allocatable[:2]
        self._usual = bool(((capacity > 0) & (capacity < _EXACT_BELOW)).all())
        self._is_default = (least, most, balanced) == (1, 0, 1)
        self._asked: dict[int, _Asked] = {}

    def score(self, class_: TaskClass, rows: NodeRows) -> Scores:
        asked = self._asked_by(class_)
        capacity = rows.kube_allocatable[:2]
        if self._usual and asked.is_usual and self._is_default:
            return _least_and_balanced(asked, rows, capacity)
        total: Scores = np.zeros(len(rows))
        if self._least or self._most:
            free = capacity - rows.kube_non_zero
            free -= asked.non_zero
            if self._least:
                total += self._least * self._mean(np.maximum(free, 0.0), capacity)
            if self._most:
                used = np.minimum(capacity - free, capacity)
                total += self._most * self._mean(used, capacity)
        if self._balanced and asked.is_something:
            total += self._balanced * balance(class_, rows)
        return total

    def as_term(self, class_: TaskClass, _point: str) -> LeastAndBalanced | None:
        """The usual case, which the kernel knows too."""
        asked = self._asked_by(class_)
        if not (self._usual and asked.is_usual and self._is_default):
            return None
        spec, request = class_.spec, class_.request
        return LeastAndBalanced(
            spec.non_zero_milli_cpu, spec.non_zero_memory_bytes, request.milli_cpu, request.memory
        )

    def _asked_by(self, class_: TaskClass) -> _Asked:
        known = self._asked.get(class_.number)
        if known is None:
            spec, request = class_.spec, class_.request
            cards = request.get(GPU) > 0
            some = request.milli_cpu > 0 or request.memory > 0
            known = self._asked[class_.number] = _Asked(
                np.array([[spec.non_zero_milli_cpu], [spec.non_zero_memory_bytes]], dtype=float),
                np.array([[request.milli_cpu], [request.memory]], dtype=float),
                is_something=some or cards,
                is_usual=some and not cards,
            )
        return known

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


def _least_and_balanced(asked: _Asked, rows: NodeRows, capacity: Scores) -> Scores:
    """Both scores with weight 1 over cpu and memory, which all nodes have, in few operations."""
    parts = np.empty((3, 2, len(rows)))
    free, used, used_then = parts[0], parts[1], parts[2]
    np.subtract(capacity, rows.kube_non_zero, out=free)
    free -= asked.non_zero
    np.maximum(free, 0.0, out=free)
    free *= FULL
    used[:] = rows.kube_requested[:2]
    np.add(used, asked.request, out=used_then)
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
    total: Scores = np.floor((evenness[1] - evenness[0] + 150.0) * 0.5)
    total += least
    return total


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
