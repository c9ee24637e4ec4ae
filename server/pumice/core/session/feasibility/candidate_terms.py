"""The terms of scores that depend on which nodes are candidates.

A candidate's score changes when another one ceases to be a candidate, or when a task is placed
elsewhere. NumPy evaluates a term for the candidates of one task; the kernel follows it over several
placements, with the same result to the last bit.
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
# The most terms of a task, and constraints of a term, that the kernel takes.
MOST_TERMS, MOST_CONSTRAINTS = 4, 8
Rows = NDArray[np.intp]
KernelParts = tuple[Any, ...]


class CandidateTerm(Protocol):
    """What a plugin adds to the scores of candidates, for tasks that have the same term object."""

    def evaluate(self, rows: Rows) -> Floats | None:
        """The scores of the candidates in these rows; None: the same for all of them."""

    @property
    def kernel_parts(self) -> KernelParts | None:
        """The term as numbers for the kernel; None: the kernel does not know it."""


@dataclass(frozen=True, slots=True, eq=False)
class FollowingTerm:
    """Scores that follow the placements of the session, times a factor; the kernel does not know it."""

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
    """A raw number of each node, on a scale whose end is the highest one among the candidates."""

    weight: int
    raw: Counts
    # The highest raw number gets 0 points, and none gets all points.
    is_discouraging: bool = False
    _scaled: dict[int, Floats] = field(default_factory=dict)

    def evaluate(self, rows: Rows) -> Floats | None:
        highest = int(self.raw[rows].max(initial=0))
        if not highest:
            return None
        scores = self._scaled.get(highest)
        if scores is None:
            points = self.raw * _MAX_NODE_SCORE // highest
            points = _MAX_NODE_SCORE - points if self.is_discouraging else points
            scores = self._scaled[highest] = (self.weight * points).astype(float)
        return scores[rows]

    @property
    def kernel_parts(self) -> KernelParts | None:
        kind = _SCALED_DOWN if self.is_discouraging else _SCALED_UP
        return (kind, float(self.weight), self.raw)


@dataclass(slots=True, eq=False)
class SpreadPart:
    """One constraint of a spread: matching pods by row, and the values of its topology key."""

    column: LabelColumn
    # Every node is a place of its own.
    by_row: bool
    max_skew: int
    # Matching pods, kept up with placements.
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
    # The arrays of pods that these have.
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
        """One constraint's share; 0 for nodes without its key."""
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
    """By the number of domains: what their pods weigh."""
    return np.array([natural_log(domains + 2) for domains in range(count)])


def _scaled(raw: Counts, scored: Mask) -> Floats:
    lowest, highest = int(raw[scored].min()), int(raw[scored].max())
    if highest <= 0:
        return np.where(scored, float(_MAX_NODE_SCORE), 0.0)
    return np.where(scored, _MAX_NODE_SCORE * (highest + lowest - raw) // highest, 0).astype(
        np.float64
    )
