"""What is known of a task class over all nodes: who would take it, and how gladly.

A view is kept across sessions. It follows the node table's log, so that after a placement only
the touched rows are computed again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.nodes import CPU_COLUMN, MEMORY_COLUMN, Floats, NodeTable
from pumice.core.cache.tasks import TaskClass
from pumice.core.model.fit import Mask, Refusal
from pumice.core.model.tolerance import Tolerance
from pumice.core.session.hooks import Chains
from pumice.core.session.rows import NodeRows

# A larger part of the rows than this is computed in one go for all of them.
_REFRESH_ALL_ABOVE = 4
# So few touched rows are first looked for among those already seen, of which so many are kept.
_FEW_ROWS = 4
_MOST_SEEN = 1_000


@dataclass(frozen=True, slots=True)
class RowState:
    """What a class makes of some rows."""

    fits_idle: Mask
    fits_future: Mask
    # All predicates pass that depend on class and row alone.
    open: Mask
    order: Floats
    batch: Floats


class ClassView:
    """Masks and scores of one class; call ``sync`` before reading."""

    __slots__ = (
        "_chains",
        "_columns",
        "_layout",
        "_needs",
        "_objects",
        "_position",
        "_seen",
        "_table",
        "_work",
        "batch",
        "class_",
        "fits_future",
        "fits_idle",
        "open",
        "order",
        "static",
        "static_ok",
        "static_order",
    )

    def __init__(
        self, class_: TaskClass, table: NodeTable, chains: Chains, work: dict[str, int]
    ) -> None:
        self.class_ = class_
        self._table = table
        self._work = work
        self._layout = -1
        self._objects = -1
        self._position = -1
        self.reuse(chains, work)

    def reuse(self, chains: Chains, work: dict[str, int]) -> None:
        """A new session: the same questions to plugins that were opened anew."""
        self._chains = chains
        self._work = work
        # What was computed for a row, by all that it follows from: most nodes are like others.
        self._seen: dict[tuple[object, ...], tuple[bool, bool, bool, float, float]] = {}

    def sync(self) -> None:
        table = self._table
        if self._layout != table.layout or self._objects != table.objects_version:
            self._start()
            return
        touched = table.touched_since(self._position)
        if touched is not None and not touched:
            return
        rows = None if touched is None else sorted(set(touched))
        if rows is None or len(rows) * _REFRESH_ALL_ABOVE > len(table):
            self._refresh(None)
        elif len(rows) <= _FEW_ROWS:
            for row in rows:
                self._recall(row)
        else:
            self._refresh(np.array(rows, dtype=np.intp))
        self._position = table.log_end

    def _recall(self, row: int) -> None:
        """Refreshes a row from one that was just like it, if there was any."""
        table = self._table
        key = (
            table.amounts[:, row].tobytes(),
            table.offered[:, row].tobytes(),
            bool(self.static_ok[row]),
            float(self.static_order[row]),
        )
        parts = (self.fits_idle, self.fits_future, self.open, self.order, self.batch)
        known = self._seen.get(key)
        if known is not None:
            for part, value in zip(parts, known, strict=True):
                part[row] = value
            return
        self._refresh(np.array([row], dtype=np.intp))
        if len(self._seen) < _MOST_SEEN:
            fits_idle, fits_future, open_, order, batch = (part[row].item() for part in parts)
            self._seen[key] = (fits_idle, fits_future, open_, order, batch)

    def _start(self) -> None:
        table, class_ = self._table, self.class_
        self._seen.clear()
        self._layout, self._objects = table.layout, table.objects_version
        count = len(table)
        vector = table.vector(class_)
        asked = {name for name, _ in class_.amounts}
        # cpu and memory are compared even when nothing is asked: a node may be below zero.
        self._columns = [
            column
            for column, name in enumerate(table.columns)
            if column in (CPU_COLUMN, MEMORY_COLUMN) or name in asked
        ]
        self._needs = [float(vector[column]) for column in self._columns]
        if table.tolerance is not None:
            self._tolerate(table.tolerance)
        # (plugin, refusals) in the order in which plugins are asked.
        self.static: list[tuple[str, list[Refusal]]] = [
            (name, list(function(class_)))
            for name, function in self._chains.named("class_predicate")
        ]
        self.static_ok: Mask = np.ones(count, dtype=np.bool_)
        for _, refusals in self.static:
            for refusal in refusals:
                self.static_ok &= ~refusal.rows
        self.static_order: Floats = np.zeros(count)
        for function in self._chains.flat("class_score"):
            self.static_order = self.static_order + function(class_)
        self.fits_future: Mask = np.zeros(count, dtype=np.bool_)
        self.fits_idle: Mask = np.zeros(count, dtype=np.bool_)
        self.open: Mask = np.zeros(count, dtype=np.bool_)
        self.order: Floats = np.zeros(count)
        self.batch: Floats = np.zeros(count)
        self._refresh(None)
        self._position = table.log_end

    def _tolerate(self, tolerance: Tolerance) -> None:
        """Lowers what must be there; what is next to nothing is not asked for."""
        names = self._table.columns
        least = [
            (column, tolerance.least(names[column], need))
            for column, need in zip(self._columns, self._needs, strict=True)
        ]
        self._columns = [column for column, need in least if need is not None]
        self._needs = [float(need) for _, need in least if need is not None]

    def _refresh(self, index: NDArray[np.intp] | None) -> None:
        rows = NodeRows(self._table, index)
        where = slice(None) if index is None else index
        state = self.evaluate(rows, where)
        self.fits_idle[where] = state.fits_idle
        self.fits_future[where] = state.fits_future
        self.open[where] = state.open
        self.order[where] = state.order
        self.batch[where] = state.batch

    def evaluate(self, rows: NodeRows, where: slice | NDArray[np.intp]) -> RowState:
        """What the class makes of some rows, real or imagined; ``where`` are their positions."""
        class_, chains = self.class_, self._chains
        self._work["rows_computed"] = self._work.get("rows_computed", 0) + len(rows)
        open_ = self.static_ok[where].copy()
        for function in chains.flat("row_predicate"):
            for refusal in function(class_, rows):
                open_ &= ~refusal.rows
        order = self.static_order[where]
        for function in chains.flat("row_score"):
            order = order + function(class_, rows)
        batch: Floats = np.zeros(len(rows))
        for function in chains.flat("row_batch_score"):
            batch = batch + function(class_, rows)
        return RowState(self._fits(rows.idle), self._fits(rows.future), open_, order, batch)

    def _fits(self, amounts: Floats) -> Mask:
        mask: Mask = amounts[self._columns[0]] >= self._needs[0]
        for column, need in zip(self._columns[1:], self._needs[1:], strict=True):
            mask &= amounts[column] >= need
        return mask

    @property
    def needs(self) -> list[tuple[int, float]]:
        """Column and amount of all that must be there for the class to fit."""
        return list(zip(self._columns, self._needs, strict=True))

    def first_short(self) -> NDArray[np.intp]:
        """By row, the first asked resource that even the future lacks; -1: none."""
        table = self._table
        result = np.full(len(table), -1, dtype=np.intp)
        for column, need in zip(self._columns, self._needs, strict=True):
            short = (table.future[column] < need) & (result < 0)
            result[short] = column
        return result


class ClassViews:
    """The views of all classes in use; the ones not used for long are let go."""

    def __init__(self) -> None:
        self._views: dict[int, tuple[int, ClassView]] = {}

    def view(
        self, class_: TaskClass, table: NodeTable, chains: Chains, work: dict[str, int], age: int
    ) -> ClassView:
        known = self._views.get(class_.number)
        if known is None:
            view = ClassView(class_, table, chains, work)
        else:
            view = known[1]
            if known[0] != age:
                view.reuse(chains, work)
        if known is None or known[0] != age:
            self._views[class_.number] = (age, view)
        return view

    def clear(self) -> None:
        self._views.clear()

    def prune(self, age: int, keep_sessions: int, most: int) -> None:
        """Lets go of views that recent sessions did not use, when there are many."""
        if len(self._views) <= most:
            return
        self._views = {k: v for k, v in self._views.items() if v[0] > age - keep_sessions}
