"""The terms of scores that depend on the set of candidates.

A candidate's score changes when another node ceases to be a candidate, or when a task is placed on
another node. NumPy evaluates a term for the candidates of one task; the kernel evaluates it for
several placements in turn, with exactly the same results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from operator import is_
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.labels import LabelColumn
from pumice.core.cache.nodes import Floats
from pumice.core.cache.pods import Counts, PodTally, SmallCounts
from pumice.core.model.fit import Mask
from pumice.core.model.integers import natural_log

_MAX_NODE_SCORE = 100
_SCALED_UP, _SCALED_DOWN, _SPREAD = range(3)
# The maximum number of terms of a task, and of constraints of a term, that the kernel supports.
MOST_TERMS, MOST_CONSTRAINTS = 4, 8
Rows = NDArray[np.intp]
KernelParts = tuple[Any, ...]


class CandidateTerm(Protocol):
    """A part of the scores of candidates; tasks with the same term object have the same scores."""

    def evaluate(self, rows: Rows) -> Floats | None:
        """The scores of the candidates in these rows; None: they are equal."""

    @property
    def kernel_parts(self) -> KernelParts | None:
        """The term as numbers for the kernel; None: the kernel does not support it."""


@dataclass(frozen=True, slots=True, eq=False)
class FollowingTerm:
    """A function of the candidates times a factor; the kernel does not support it."""

    scores: Callable[[Rows], Floats | None]
    factor: float

    def evaluate(self, rows: Rows) -> Floats | None:
        scores = self.scores(rows)
        return None if scores is None else self.factor * scores

    @property
    def kernel_parts(self) -> KernelParts | None:
        return None


@dataclass(slots=True, eq=False)
class ScaledPreference:
    """Raw numbers of nodes, scaled so that the highest one of the candidates gets the full score."""

    weight: int
    raw: Counts
    # Whether the scale is reversed: the highest raw number gets 0.
    is_discouraging: bool = False
    _scaled: dict[int, Floats] = field(default_factory=dict)

    def evaluate(self, rows: Rows) -> Floats | None:
        highest = int(self.raw[rows].max(initial=0))
        if not highest:
            return None
        scores = self._scaled.get(highest)
        if scores is None:
            scaled = self.raw * _MAX_NODE_SCORE // highest
            scaled = _MAX_NODE_SCORE - scaled if self.is_discouraging else scaled
            scores = self._scaled[highest] = (self.weight * scaled).astype(float)
        return scores[rows]

    @property
    def kernel_parts(self) -> KernelParts | None:
        kind = _SCALED_DOWN if self.is_discouraging else _SCALED_UP
        return (kind, float(self.weight), self.raw)


@dataclass(slots=True, eq=False)
class SpreadPart:
    """One constraint of a spread: matching pods by row, and the values of its topology key."""

    column: LabelColumn
    # Whether every node is a domain.
    by_row: bool
    max_skew: int
    # Matching pods, updated with every placement.
    pods: PodTally
    # Nodes whose pods count.
    counting: Mask
    # Whether the task that is placed is one of these pods.
    counts_itself: bool


@dataclass(slots=True, eq=False)
class EvenSpread:
    """Prefers nodes with fewer matching pods in their topology domains."""

    weight: int
    # Nodes that are scored.
    keyed: Mask
    parts: tuple[SpreadPart, ...]
    _kernel_parts: KernelParts | None = None
    # The arrays of pods in ``_kernel_parts``.
    _counts: list[SmallCounts] = field(default_factory=list)

    def evaluate(self, rows: Rows) -> Floats | None:
        scored = self.keyed[rows]
        if not scored.any():
            return None
        raw: Floats = np.zeros(len(rows))
        for part in self.parts:
            raw = raw + self._raw(part, rows, scored)
        whole = np.floor(raw)
        whole += raw - whole >= 0.5
        return self.weight * _scaled(whole.astype(np.int64), scored)

    def _raw(self, part: SpreadPart, rows: Rows, scored: Mask) -> Floats:
        """The raw score for one constraint; 0 for nodes without its key."""
        codes = part.column.codes[rows]
        if part.by_row:
            domains, counts = int(scored.sum()), part.pods.counts[rows]
        else:
            places = part.column.places
            domains = len(np.unique(places[rows[scored]]))
            where, pods = places[part.counting], part.pods.counts[part.counting]
            sums = np.bincount(where, weights=pods, minlength=len(part.column.values) + 1)
            counts = sums[codes].astype(np.int64)
        share = counts * natural_log(domains + 2) + float(part.max_skew - 1)
        return np.where(codes >= 0, share, 0.0)

    @property
    def kernel_parts(self) -> KernelParts | None:
        if len(self.parts) > MOST_CONSTRAINTS:
            return None
        counts = [part.pods.counts for part in self.parts]
        if self._kernel_parts is None or not all(map(is_, counts, self._counts)):
            self._counts = counts
            parts = tuple(
                (
                    part.by_row,
                    part.counts_itself,
                    float(part.max_skew - 1),
                    len(part.column.values),
                    part.column.codes,
                    part.column.places,
                    part.counting,
                    pods,
                )
                for part, pods in zip(self.parts, counts, strict=True)
            )
            logarithms = _logarithms(len(self.keyed) + 2)
            self._kernel_parts = (_SPREAD, float(self.weight), self.keyed, logarithms, parts)
        return self._kernel_parts


@lru_cache(maxsize=4)
def _logarithms(count: int) -> Floats:
    """The weights of pods, by the number of domains."""
    return np.array([natural_log(domains + 2) for domains in range(count)])


def _scaled(raw: Counts, scored: Mask) -> Floats:
    lowest, highest = int(raw[scored].min()), int(raw[scored].max())
    if highest <= 0:
        return np.where(scored, float(_MAX_NODE_SCORE), 0.0)
    scaled = _MAX_NODE_SCORE * (highest + lowest - raw) // highest
    return np.where(scored, scaled, 0).astype(np.float64)
