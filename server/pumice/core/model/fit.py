"""Refusals of a task by nodes, as masks for searches and as counts for messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pumice.core.model.reasons import NodeCount

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Nodes that refuse a task for one reason."""

    reason: str
    # By row of the node table: True where refused.
    rows: Mask
    # Whether no eviction could change it.
    unresolvable: bool


def node_refusal(reason: str, *, unresolvable: bool) -> Refusal:
    """The refusal of the one node that a plugin was asked about."""
    return Refusal(reason, np.zeros(0, dtype=np.bool_), unresolvable)


def refusals_by_row(found: Mapping[tuple[str, bool], list[int]], count: int) -> list[Refusal]:
    """The refusals of nodes that were asked one by one.

    ``found`` has the rows of each reason, and whether it is unresolvable; ``count`` is the number of
    all nodes.
    """
    refusals = []
    for (reason, unresolvable), rows in found.items():
        mask = np.zeros(count, dtype=np.bool_)
        mask[rows] = True
        refusals.append(Refusal(reason, mask, unresolvable))
    return refusals


@dataclass(frozen=True, slots=True)
class FitErrors:
    """Why no node is feasible for a task."""

    node_count: int
    counts: tuple[tuple[str, int], ...] = ()
    # Rows where no eviction could help; None: nowhere.
    unresolvable: Mask | None = field(default=None, compare=False)
    # A text that replaces the node count.
    message: str = ""
    hyper_node: str = ""

    def is_equivalent_to(self, other: FitErrors) -> bool:
        mine, theirs = self.unresolvable, other.unresolvable
        if mine is None or theirs is None:
            return mine is theirs and self == other
        return self == other and np.array_equal(mine, theirs)

    def as_counts(self) -> tuple[NodeCount, ...]:
        return tuple(NodeCount(reason, count) for reason, count in sorted(self.counts))

    def text(self) -> str:
        prefix = self.message or f"0/{self.node_count} nodes are unavailable"
        if not self.counts:
            return prefix
        reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in self.counts))
        text = f"{prefix}: {reasons}."
        return f"In hyperNode {self.hyper_node}: {text}" if self.hyper_node else text
