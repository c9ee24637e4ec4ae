"""What plugins can say of their row functions in numbers, so that the kernel can do their work.

A term stands for a whole function: the same answer for every row, to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PodLimit:
    """A row predicate: no more pods than the node takes, which evictions can cure."""


@dataclass(frozen=True, slots=True)
class Fullness:
    """A row score: how full the node would be, 0 where it would be more than full."""

    # Resource, what the class asks of it, and its weight.
    parts: tuple[tuple[str, float, float], ...]
    # What the weighted sum is divided by, where it is above zero; and what the result is worth.
    divisor: float
    factor: float


@dataclass(frozen=True, slots=True)
class LeastAndBalanced:
    """A batch row score: least and balanced allocation of cpu and memory, each once."""

    non_zero_milli_cpu: float
    non_zero_memory: float
    milli_cpu: float
    memory: float


RowTerm = PodLimit | Fullness | LeastAndBalanced
# Where each may stand, and so how the kernel adds it up.
TERM_OF_POINT: dict[str, type[RowTerm]] = {
    "row_predicate": PodLimit,
    "row_score": Fullness,
    "row_batch_score": LeastAndBalanced,
}
