"""Chooses the best rows for several tasks of one class at once.

For tasks whose predicates and scores follow from class and row alone, a placement changes nothing
but its own row. So the best rows are found once, what each row would be worth after one, two …
more tasks is computed for all of them together, and a heap merges these.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.nodes import Floats, NodeTable
from pumice.core.model.fit import Mask
from pumice.core.session.feasibility.rows import NEVER, NodeRows
from pumice.core.session.feasibility.views import ClassView

# About this many rows are computed at a time.
_ROWS_AT_ONCE = 32


def best_rows(table: NodeTable, view: ClassView, within: Mask | None, count: int) -> list[int]:
    """The best row with idle resources for each of so many tasks of one class, placed in turn.

    Fewer where idle resources run out.
    """
    return _Levels(table, view, within, count).take(count)


class _Levels:
    """The scores of the best rows with one, two … more tasks on them."""

    def __init__(self, table: NodeTable, view: ClassView, within: Mask | None, count: int) -> None:
        self._table = table
        self._view = view
        totals = view.total if within is None else np.where(within, view.total, NEVER)
        self._rows = _top(totals, count)
        # By row, then by the number of tasks; filled in ahead of need.
        self._levels: list[list[float]] = [[value] for value in totals[self._rows].tolist()]
        self._heap = [(-level[0], slot, 0) for slot, level in enumerate(self._levels)]
        heapify(self._heap)
        self._chunk = max(1, _ROWS_AT_ONCE // max(1, len(self._rows)))

    def take(self, count: int) -> list[int]:
        heap, numbers = self._heap, self._rows.tolist()
        rows: list[int] = []
        while heap and heap[0][0] != -NEVER:
            rows.append(numbers[heap[0][1]])
            if len(rows) == count:
                break
            self._advance()
        return rows

    def _advance(self) -> None:
        _, slot, level = self._heap[0]
        values = self._levels[slot]
        if level + 1 >= len(values):
            self._look_further(level + 1)
        value = values[level + 1]
        if value == NEVER:
            heappop(self._heap)
        else:
            heapreplace(self._heap, (-value, slot, level + 1))

    def _look_further(self, level: int) -> None:
        """Computes the next levels of all rows that are that far, in one go."""
        slots = [
            slot
            for slot, values in enumerate(self._levels)
            if len(values) == level and values[-1] != NEVER
        ]
        index: NDArray[np.intp] = np.repeat(self._rows[slots], self._chunk)
        counts: Floats = np.tile(np.arange(level, level + self._chunk, dtype=float), len(slots))
        rows = NodeRows(self._table, index, self._view.class_, counts)
        values = self._view.evaluate(rows, index).total.tolist()
        for number, slot in enumerate(slots):
            self._levels[slot] += values[number * self._chunk : (number + 1) * self._chunk]
        self._chunk *= 2


def _top(totals: Floats, count: int) -> NDArray[np.intp]:
    """The ``count`` best rows in the order of rows; of equals at the edge the first ones."""
    if count == 1:
        return np.array([int(np.argmax(totals))], dtype=np.intp) if len(totals) else _NO_ROWS
    if count >= len(totals):
        return np.arange(len(totals), dtype=np.intp)
    edge = np.partition(totals, len(totals) - count)[len(totals) - count]
    above = np.flatnonzero(totals > edge)
    equal = np.flatnonzero(totals == edge)[: count - len(above)]
    return np.sort(np.concatenate((above, equal)))


_NO_ROWS: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
