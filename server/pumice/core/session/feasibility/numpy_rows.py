"""Feasibility and scores of rows for one class, computed with NumPy.

The kernel computes the same if it supports all row hooks of the class.
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

# If more than one in this number of rows has changed, all rows are computed.
_REFRESH_ALL_ABOVE = 2
# Up to this many changed rows are looked up among known results; and the maximum number of results.
_FEW_ROWS = 4
_MAX_KNOWN = 1_000
# About this many rows are computed at a time.
_ROWS_AT_ONCE = 32
_NO_ROWS: NDArray[np.intp] = np.zeros(0, dtype=np.intp)


class NumpyRows:
    """Computes the rows of a view by calling the row hooks of plugins."""

    __slots__ = ("_view",)

    def __init__(self, view: ClassView) -> None:
        self._view = view

    def follow(self, since: int) -> None:
        """Computes the rows that have changed since a state of the table."""
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
        """Computes a row, or copies the known result of an equal row."""
        view, table = self._view, self._view.table
        states = self._states(row)
        if states is None:
            self.refresh(np.array([row], dtype=np.intp))
            return
        key = (
            table.amounts[:, row].tobytes(),
            table.offered[:, row].tobytes(),
            bool(view.static_ok[row]),
            float(view.static_order[row]),
            *states,
        )
        known = view.known_rows.get(key)
        if known is not None:
            for part, value in zip(view.outputs, known, strict=True):
                part[row] = value
            return
        self.refresh(np.array([row], dtype=np.intp))
        if len(view.known_rows) < _MAX_KNOWN:
            view.known_rows[key] = tuple(part[row].item() for part in view.outputs)

    def _states(self, row: int) -> list[int] | None:
        """The states of a node that rules depend on; None: a facet may give it another state."""
        rules, states = self._view.rules, []
        for point in ("row_predicate", "row_score", "row_batch_score"):
            for name, rule in rules.at(point):
                if not isinstance(rule, StateRule):
                    continue
                if rules.facet_of(point, name) is not None:
                    return None
                states.append(int(rule.numbers(np.array([row], dtype=np.intp))[0]))
        return states

    def refresh(self, index: NDArray[np.intp] | None) -> None:
        """Computes some rows, or all of them."""
        where = slice(None) if index is None else index
        state = self.evaluate(NodeRows(self._view.table, index), where)
        for part, values in zip(self._view.outputs, state, strict=True):
            part[where] = values

    def evaluate(self, rows: NodeRows, where: slice | NDArray[np.intp]) -> RowState:
        """Evaluates some rows for the class; ``where`` are their positions."""
        view = self._view
        view.count("rows_computed", len(rows))
        open_ = view.static_ok[where].copy()
        for refusals in self._results("row_predicate", rows):
            for refusal in refusals:
                open_ &= ~refusal.rows
        order = view.static_order[where]
        for score in self._results("row_score", rows):
            order = order + score
        batch: Floats = np.zeros(len(rows))
        for score in self._results("row_batch_score", rows):
            batch = batch + score
        fits_idle, fits_future = view.fits(rows.idle), view.fits(rows.future)
        total = np.where(open_ & fits_future & fits_idle, order + batch, NEVER)
        return RowState(fits_idle, fits_future, open_, order, batch, total)

    def _results(self, point: str, rows: NodeRows) -> Iterator[Any]:
        """The results of the rules at a row point, in the order of plugins."""
        for name, rule in self._view.rules.at(point):
            yield self._result(point, name, rule, rows)

    def _result(self, point: str, plugin: str, rule: Any, rows: NodeRows) -> Any:
        class_, facet = self._view.class_, self._view.rules.facet_of(point, plugin)
        if isinstance(rule, RowTerms):
            return rule.term_of(class_, facet).evaluate(rows)
        return (
            rule.answer(class_, facet, rows) if isinstance(rule, StateRule) else rule(class_, rows)
        )

    def refusals(self, plugin: str, rows: NodeRows) -> list[Refusal]:
        """The refusals of a plugin at ``row_predicate``."""
        point = "row_predicate"
        for name, rule in self._view.rules.at(point):
            if name == plugin:
                return list(self._result(point, name, rule, rows))
        return []

    def best_rows(self, within: Mask | None, count: int) -> list[int]:
        """The best row with idle resources for each of ``count`` tasks of the class, placed in turn.

        There are fewer rows if idle resources run out. A placement changes only its own row. So the
        best rows are found once, the scores of these rows with 1, 2 … further tasks are computed
        together, and a heap merges these scores.
        """
        return _Levels(self._view, within, count).take(count)


class _Levels:
    """The scores of the best rows with 1, 2 … further tasks on them."""

    def __init__(self, view: ClassView, within: Mask | None, count: int) -> None:
        self._table = view.table
        self._view = view
        totals = view.total if within is None else np.where(within, view.total, NEVER)
        self._rows = _top(totals, count)
        # By row, then by the number of further tasks; computed in chunks.
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
            self._compute_levels(level + 1)
        value = values[level + 1]
        if value == NEVER:
            heappop(self._heap)
        else:
            heapreplace(self._heap, (-value, slot, level + 1))

    def _compute_levels(self, level: int) -> None:
        """Computes the next levels of all rows whose levels end here."""
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
    """The ``count`` best rows in the order of rows; of rows with the last score, the first ones."""
    if count == 1:
        return np.array([int(np.argmax(totals))], dtype=np.intp) if len(totals) else _NO_ROWS
    if count >= len(totals):
        return np.arange(len(totals), dtype=np.intp)
    edge = np.partition(totals, len(totals) - count)[len(totals) - count]
    above = np.flatnonzero(totals > edge)
    equal = np.flatnonzero(totals == edge)[: count - len(above)]
    return np.sort(np.concatenate((above, equal)))
