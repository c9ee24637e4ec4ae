"""Rows of the node table for predicates and scores, and their results."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.nodes import Floats, NodeTable
from pumice.core.cache.tasks import TaskClass
from pumice.core.model.fit import Mask

NEVER = -np.inf


class NodeRows:
    """The amounts of chosen nodes: arrays of shape (resources, chosen), copied when first read.

    Without a choice these are all nodes, without a copy. ``ahead`` is the number of further tasks of
    a class that count as placed on each row.
    """

    __slots__ = ("_amounts", "_class", "_offered", "_table", "ahead", "index")

    def __init__(
        self,
        table: NodeTable,
        index: NDArray[np.intp] | None = None,
        class_: TaskClass | None = None,
        ahead: Floats | None = None,
    ) -> None:
        self._table = table
        self._class = class_
        # The chosen rows; None: all.
        self.index = index
        # By row, the number of further tasks that count as placed there; None: none.
        self.ahead = ahead
        self._amounts: Floats | None = table.amounts if index is None else None
        self._offered: Floats | None = table.offered if index is None else None

    def __len__(self) -> int:
        return len(self._table) if self.index is None else len(self.index)

    def column(self, resource: str) -> int | None:
        return self._table.column_of(resource)

    @property
    def columns(self) -> list[str]:
        return self._table.columns

    def _part(self, number: int) -> Floats:
        """One part of the table's amounts, with the tasks of ``ahead``."""
        amounts = self._amounts
        if amounts is None:
            assert self.index is not None
            amounts = self._table.amounts.take(self.index, axis=1)
            if self.ahead is not None and self._class is not None:
                weights = self._table.weights(self._class)
                amounts += (weights.held + weights.kube)[:, None] * self.ahead
            self._amounts = amounts
        width = len(self._table.columns)
        return amounts[number * width : (number + 1) * width]

    def _offer(self) -> Floats:
        if self._offered is None:
            assert self.index is not None
            self._offered = self._table.offered.take(self.index, axis=1)
        return self._offered

    @property
    def allocatable(self) -> Floats:
        return self._offer()[: len(self._table.columns)]

    @property
    def kube_allocatable(self) -> Floats:
        return self._offer()[len(self._table.columns) :]

    @property
    def idle(self) -> Floats:
        return self._part(0)

    @property
    def used(self) -> Floats:
        return self._part(1)

    @property
    def releasing(self) -> Floats:
        return self._part(2)

    @property
    def future(self) -> Floats:
        return self._part(3)

    @property
    def kube_requested(self) -> Floats:
        return self._part(4)

    @property
    def kube_non_zero(self) -> Floats:
        """By row: requested cpu and memory, with defaults for containers that request none."""
        return self._part(5)[:2]

    @property
    def kube_pods(self) -> Floats:
        pods: Floats = self._part(5)[2]
        return pods


class RowState(NamedTuple):
    """Feasibility and scores of rows for one class."""

    fits_idle: Mask
    fits_future: Mask
    # Whether the class and row predicates pass.
    open: Mask
    # The sums of Volcano's node order scores, and of its batch node order scores.
    order: Floats
    batch: Floats
    # The total score for an allocation on idle resources; minus infinity if it is not feasible.
    total: Floats
