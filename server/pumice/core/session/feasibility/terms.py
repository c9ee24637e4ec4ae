"""The terms of row hooks that the kernel knows.

Each can be evaluated by NumPy too, with the same result to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pumice.core.cache.nodes import PODS_COLUMN, Floats
from pumice.core.model.fit import Refusal
from pumice.core.session.feasibility.amounts import AmountScore
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
    # What the weighted sum is divided by, where it is above zero; and what the result is worth.
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


KernelTerm = PodLimit | Fullness | AmountScore
# Where each may stand, and so how the kernel adds it up.
KERNEL_TERMS: dict[str, type[KernelTerm]] = {
    "row_predicate": PodLimit,
    "row_score": Fullness,
    "row_batch_score": AmountScore,
}
