"""Feasibility and scores of rows for one class, computed with NumPy.

The kernel computes the same where it knows all row hooks of the class.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.nodes import Floats
from pumice.core.model.fit import Mask, Refusal
from pumice.core.session.feasibility.rows import NEVER, NodeRows, RowState
from pumice.core.session.policies import RowTerms, StateRule

if TYPE_CHECKING:
    from pumice.core.session.feasibility.views import ClassView

# Where more than one row in this number was touched, all rows are computed.
_REFRESH_ALL_ABOVE = 2
# Up to this many touched rows are looked up among known results. The second number limits how many
# results are kept.
_FEW_ROWS = 4
_MOST_SEEN = 1_000
# About this many rows are computed at a time.
_ROWS_AT_ONCE = 32
_NO_ROWS: NDArray[np.intp] = np.zeros(0, dtype=np.intp)


class NumpyRows:
    """Computes the rows of a view by calling the row hooks of plugins."""

    __slots__ = ("_view",)

    def __init__(self, view: ClassView) -> None:
        self._view = view

    def follow(self, since: int) -> None:
        """Refreshes the rows that changed since the table stood there."""
        table = self._view.table
        rows = table.touched_since(since)
        if len(rows) * _REFRESH_ALL_ABOVE > len(table):
            self.refresh(None)
        elif len(rows) <= _FEW_ROWS:
            for row in rows.tolist():
                self._refresh_row(row)
        else:
            self.refresh(rows)

    def _refresh_row(self, row: int) -> None:
        """Refreshes a row from the known result of an equal row, if there is one."""
        view, table = self._view, self._view.table
        key = (
            table.amounts[:, row].tobytes(),
            table.offered[:, row].tobytes(),
            bool(view.static_ok[row]),
            float(view.static_order[row]),
            *self._states(row),
        )
        known = view.seen.get(key)
        if known is not None:
            for part, value in zip(view.outputs, known, strict=True):
                part[row] = value
            return
        self.refresh(np.array([row], dtype=np.intp))
        if len(view.seen) < _MOST_SEEN:
            view.seen[key] = tuple(part[row].item() for part in view.outputs)

    def _states(self, row: int) -> list[object]:
        """The states of a node that the answers of plugins follow from."""
        view = self._view
        return [
            rule.state(row, view.answers.facet_of(point, name))
            for point in ("row_predicate", "row_score", "row_batch_score")
            for name, rule in view.chains.named(point)
            if isinstance(rule, StateRule) and rule.concerns(view.class_)
        ]

    def refresh(self, index: NDArray[np.intp] | None) -> None:
        """Computes some rows, or all of them."""
        where = slice(None) if index is None else index
        state = self.evaluate(NodeRows(self._view.table, index), where)
        values = (
            state.fits_idle,
            state.fits_future,
            state.open,
            state.order,
            state.batch,
            state.total,
        )
        for part, value in zip(self._view.outputs, values, strict=True):
            part[where] = value

    def evaluate(self, rows: NodeRows, where: slice | NDArray[np.intp]) -> RowState:
        """Evaluates some rows for the class; ``where`` are their positions."""
        view = self._view
        view.count("rows_computed", len(rows))
        open_ = view.static_ok[where].copy()
        for refusals in self._answers("row_predicate", rows):
            for refusal in refusals:
                open_ &= ~refusal.rows
        order = view.static_order[where]
        for score in self._answers("row_score", rows):
            order = order + score
        batch: Floats = np.zeros(len(rows))
        for score in self._answers("row_batch_score", rows):
            batch = batch + score
        return RowState(view.fits(rows.idle), view.fits(rows.future), open_, order, batch)

    def _answers(self, point: str, rows: NodeRows) -> Iterator[Any]:
        """What the plugins of a row point answer about rows."""
        view = self._view
        for name, function in view.chains.named(point):
            if isinstance(function, RowTerms):
                facet = view.answers.facet_of(point, name)
                yield function.term_of(view.class_, facet).evaluate(rows)
            elif not isinstance(function, StateRule):
                yield function(view.class_, rows)
            elif function.concerns(view.class_):
                yield function.answer(view.class_, view.answers.facet_of(point, name), rows)

    def refusals(self, plugin: str, function: Any, rows: NodeRows) -> list[Refusal]:
        """What a plugin's row predicate has against rows."""
        view = self._view
        if not isinstance(function, StateRule):
            return list(function(view.class_, rows))
        if not function.concerns(view.class_):
            return []
        facet = view.answers.facet_of("row_predicate", plugin)
        return list(function.answer(view.class_, facet, rows))

    def best_rows(self, within: Mask | None, count: int) -> list[int]:
        """The best row with idle resources for each of so many tasks of the class, placed in turn.

        Fewer rows where idle resources run out. A placement changes nothing but its own row. So the
        best rows are found once, the score of each row after one, two … more tasks is computed for
        all of them together, and a heap merges these scores.
        """
        return _Levels(self._view, within, count).take(count)


class _Levels:
    """The scores of the best rows with one, two … more tasks on them."""

    def __init__(self, view: ClassView, within: Mask | None, count: int) -> None:
        self._table = view.table
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
        """Computes the next levels of all rows whose levels end here, all at once."""
        slots = [
            slot
            for slot, values in enumerate(self._levels)
            if len(values) == level and values[-1] != NEVER
        ]
        index: NDArray[np.intp] = np.repeat(self._rows[slots], self._chunk)
        counts: Floats = np.tile(np.arange(level, level + self._chunk, dtype=float), len(slots))
        rows = NodeRows(self._table, index, self._view.class_, counts)
        values = self._view.by_numpy.evaluate(rows, index).total.tolist()
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
