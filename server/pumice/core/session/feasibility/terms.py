"""The terms of row hooks that the kernel knows.

Each can be evaluated by NumPy too, with the same result to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pumice.core.cache.nodes import PODS_COLUMN, Floats
from pumice.core.model.fit import Refusal
from pumice.core.session.feasibility.rows import NodeRows

FULL = 100.0


@dataclass(frozen=True, slots=True)
class PodLimit:
    """A row predicate: no more pods than the node allows, which evictions can cure."""

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
        total = np.zeros(len(rows))
        fits = np.ones(len(rows), dtype=np.bool_)
        # Pipelined tasks are not in use yet: such a node looks emptier than it will be.
        used, allocatable = rows.used, rows.allocatable
        for name, asked, weight in self.parts:
            column = rows.column(name)
            if not weight or column is None:
                continue
            capacity = allocatable[column]
            exists = capacity != 0
            then = used[column] + asked
            fits &= ~exists | (then <= capacity)
            total = total + np.divide(
                then * weight, capacity, out=np.zeros(len(rows)), where=exists
            )
        if self.divisor > 0:
            total = total / self.divisor
        return np.where(fits, total * self.factor, 0.0)


class LeastAndBalanced:
    """A batch row score: least and balanced allocation of cpu and memory, with weight 1 each.

    Only for nodes that all have cpu and memory, in amounts whose hundredfold is exact.
    """

    __slots__ = ("_non_zero", "_request", "numbers")

    def __init__(
        self, non_zero_milli_cpu: float, non_zero_memory: float, milli_cpu: float, memory: float
    ) -> None:
        # What the class asks for, by the defaults for scores and as it is.
        self.numbers = (non_zero_milli_cpu, non_zero_memory, milli_cpu, memory)
        self._non_zero = np.array([[non_zero_milli_cpu], [non_zero_memory]], dtype=float)
        self._request = np.array([[milli_cpu], [memory]], dtype=float)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LeastAndBalanced) and other.numbers == self.numbers

    def __hash__(self) -> int:
        return hash(self.numbers)

    def evaluate(self, rows: NodeRows) -> Floats:
        capacity = rows.kube_allocatable[:2]
        parts = np.empty((3, 2, len(rows)))
        free, used, used_then = parts[0], parts[1], parts[2]
        np.subtract(capacity, rows.kube_non_zero, out=free)
        free -= self._non_zero
        np.maximum(free, 0.0, out=free)
        free *= FULL
        used[:] = rows.kube_requested[:2]
        np.add(used, self._request, out=used_then)
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


KernelTerm = PodLimit | Fullness | LeastAndBalanced
# Where each may stand, and so how the kernel adds it up.
KERNEL_TERMS: dict[str, type[KernelTerm]] = {
    "row_predicate": PodLimit,
    "row_score": Fullness,
    "row_batch_score": LeastAndBalanced,
}
