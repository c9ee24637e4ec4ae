"""What is known of a task class over all nodes: who would take it, and how gladly.

A view is kept across sessions. It follows the node table's changes, so that after a placement
only the touched rows are computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pumice.core import kernel
from pumice.core.cache.nodes import ABSENT_COLUMN, Floats, NodeTable
from pumice.core.cache.tasks import TaskClass
from pumice.core.model.fit import FitErrors, Mask, Refusal
from pumice.core.model.resources import CPU, MEMORY, PODS, Number
from pumice.core.session.feasibility.program import RowProgram, terms_of
from pumice.core.session.feasibility.rows import NodeRows
from pumice.core.session.hooks import Chains, Hooks

# Where more than one row in so many was touched, all are computed without picking.
_REFRESH_ALL_ABOVE = 2
# So few touched rows are first looked for among those already seen, of which so many are kept.
_FEW_ROWS = 4
_MOST_SEEN = 1_000
NEVER = -np.inf
_NO_CHAINS = Chains(Hooks(), [])


@dataclass(frozen=True, slots=True)
class RowState:
    """What a class makes of some rows."""

    fits_idle: Mask
    fits_future: Mask
    # All predicates pass that depend on class and row alone.
    open: Mask
    order: Floats
    batch: Floats

    @property
    def total(self) -> Floats:
        """What counts when a task is to be placed now: never, where there is no idle room."""
        takes = self.open & self.fits_future
        takes &= self.fits_idle
        return np.where(takes, self.order + self.batch, NEVER)


class ClassView:
    """Masks and scores of one class; call ``sync`` before reading."""

    __slots__ = (
        "_chains",
        "_errors",
        "_layout",
        "_objects",
        "_position",
        "_program",
        "_seen",
        "_table",
        "_takes_any",
        "_work",
        "batch",
        "class_",
        "fits_future",
        "fits_idle",
        "need_names",
        "needs",
        "open",
        "order",
        "static",
        "static_ok",
        "static_order",
        "total",
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
        self._program: RowProgram | None = None
        self._takes_any = (-1, -1)
        self._errors: tuple[int, FitErrors] | None = None
        self.static: list[tuple[str, list[Refusal]]] = []
        self.reuse(chains, work)

    def reuse(self, chains: Chains, work: dict[str, int]) -> None:
        """A new session: the same questions to plugins that were opened anew."""
        self._chains = chains
        self._work = work
        # What was computed for a row, by all that it follows from: most nodes are like others.
        self._seen: dict[tuple[object, ...], tuple[bool | float, ...]] = {}

    def release(self) -> None:
        """The session has ended: its plugins and work may be freed."""
        self._chains, self._work, self._seen = _NO_CHAINS, {}, {}

    @property
    def fits_nowhere(self) -> bool:
        """No node offers some resource that the class asks for: the arrays are the table's."""
        return self.total is self._table.never

    def sync(self) -> None:
        table = self._table
        if self._layout != table.layout or self._objects != table.objects_version:
            self._start()
            return
        if self._position == table.changes:
            return
        if self.fits_nowhere:
            self._position = table.changes
            return
        if self._program is not None:
            self._run_program(self._program, self._position)
            return
        rows = table.touched_since(self._position)
        if len(rows) * _REFRESH_ALL_ABOVE > len(table):
            self._refresh(None)
        elif len(rows) <= _FEW_ROWS:
            for row in rows.tolist():
                self._recall(row)
        else:
            self._refresh(rows)
        self._position = table.changes

    def _recall(self, row: int) -> None:
        """Refreshes a row from one that was just like it, if there was any."""
        table = self._table
        key = (
            table.amounts[:, row].tobytes(),
            table.offered[:, row].tobytes(),
            bool(self.static_ok[row]),
            float(self.static_order[row]),
        )
        parts = (self.fits_idle, self.fits_future, self.open, self.order, self.batch, self.total)
        known = self._seen.get(key)
        if known is not None:
            for part, value in zip(parts, known, strict=True):
                part[row] = value
            return
        self._refresh(np.array([row], dtype=np.intp))
        if len(self._seen) < _MOST_SEEN:
            self._seen[key] = tuple(part[row].item() for part in parts)

    def _start(self) -> None:
        table, class_ = self._table, self.class_
        self._seen.clear()
        self._layout, self._objects = table.layout, table.objects_version
        self._takes_any = (-1, -1)
        if self._errors is not None:
            # To be found again, and to be compared with.
            self._errors = (-1, self._errors[1])
        count = len(table)
        self._find_needs()
        if any(column == ABSENT_COLUMN for column, _ in self.needs):
            self._fit_nowhere()
            return
        # (plugin, refusals) in the order in which plugins are asked.
        self.static = self._ask_class_predicates()
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
        self.total: Floats = np.zeros(count)
        self._program = self._compile()
        if self._program is None:
            self._refresh(None)
        else:
            self._run_program(self._program, -1)
        self._position = table.changes

    def _ask_class_predicates(self) -> list[tuple[str, list[Refusal]]]:
        return [
            (name, list(function(self.class_)))
            for name, function in self._chains.named("class_predicate")
        ]

    def class_refusals(self) -> dict[str, list[Refusal]]:
        """What plugins have against nodes, whatever their state, by plugin."""
        return dict(self._ask_class_predicates() if self.fits_nowhere else self.static)

    def _find_needs(self) -> None:
        """Column and amount of all that must be there, and the names of the resources.

        Cpu and memory are compared even when nothing is asked: a node may be below zero.
        """
        table, request = self._table, self.class_.request
        columns = {name: column for column, name in enumerate(table.columns)}
        self.needs: list[tuple[int, float]] = []
        self.need_names: list[str] = []
        for name in (CPU, MEMORY, *sorted(request.scalars, key=lambda n: (n != PODS, n))):
            need: Number | None = request.get(name)
            if table.tolerance is not None:
                # What is next to nothing is not asked for.
                need = table.tolerance.least(name, request.get(name))
            column = columns.get(name, ABSENT_COLUMN)
            if need is not None and (need > 0 or column != ABSENT_COLUMN):
                self.needs.append((column, float(need)))
                self.need_names.append(name)

    def _fit_nowhere(self) -> None:
        """No node offers some resource that the class asks for: nothing has to be computed."""
        table = self._table
        self.static = []
        self.static_ok = self.fits_future = self.fits_idle = self.open = table.nowhere
        self.static_order = self.order = self.batch = table.nothing
        self.total = table.never
        self._program = None
        self._position = table.changes

    def _compile(self) -> RowProgram | None:
        """The row functions for the kernel, where there is one and all of them have a term."""
        if kernel.rows is None or not len(self._table):
            return None
        terms = terms_of(self.class_, self._chains)
        if terms is None:
            return None
        static = (self.static_ok, self.static_order)
        fits = (self.fits_idle, self.fits_future)
        outputs = (*fits, self.open, self.order, self.batch, self.total)
        return RowProgram(self.class_, self._table, self.needs, static, terms, outputs)

    def _run_program(self, program: RowProgram, since: int) -> None:
        self._count_rows(program.evaluate(since))
        self._position = self._table.changes

    def _refresh(self, index: NDArray[np.intp] | None) -> None:
        rows = NodeRows(self._table, index)
        where = slice(None) if index is None else index
        state = self.evaluate(rows, where)
        self.fits_idle[where] = state.fits_idle
        self.fits_future[where] = state.fits_future
        self.open[where] = state.open
        self.order[where] = state.order
        self.batch[where] = state.batch
        self.total[where] = state.total

    def evaluate(self, rows: NodeRows, where: slice | NDArray[np.intp]) -> RowState:
        """What the class makes of some rows, real or imagined; ``where`` are their positions."""
        class_, chains = self.class_, self._chains
        self._count_rows(len(rows))
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

    def _count_rows(self, number: int) -> None:
        self._work["rows_computed"] = self._work.get("rows_computed", 0) + number

    def best_rows(self, within: Mask | None, count: int) -> list[int] | None:
        """The best rows for so many tasks one after the other; None: not without the kernel."""
        if self._program is None:
            return None
        if count == 1 and within is None:
            best = int(self.total.argmax())
            return [best] if self.total[best] != NEVER else []
        rows, judged = self._program.choose(within, count)
        self._count_rows(judged)
        return rows

    def _fits(self, amounts: Floats) -> Mask:
        first, least = self.needs[0]
        mask: Mask = amounts[first] >= least
        for column, need in self.needs[1:]:
            mask &= amounts[column] >= need
        return mask

    @property
    def takes_any(self) -> bool:
        """Whether there is a row with room in the future, as far as class and row can tell."""
        position, row = self._takes_any
        if row >= 0 and self.open[row] and self.fits_future[row]:
            # The one that was found last is as good as any.
            return True
        if position != self._position:
            takes = self.open & self.fits_future
            found = int(takes.argmax()) if len(takes) else -1
            row = found if found >= 0 and takes[found] else -1
            self._takes_any = (self._position, row)
        return row >= 0

    def fit_errors(self, find: Callable[[], FitErrors]) -> FitErrors:
        """Why no row takes the class; found again only after a change.

        What comes out the same stays the same object, by which it is known to be nothing new.
        """
        known = self._errors
        if known is not None and known[0] == self._table.changes:
            return known[1]
        errors = find()
        if known is not None and errors.says_the_same_as(known[1]):
            errors = known[1]
        self._errors = (self._table.changes, errors)
        return errors

    def first_short(self) -> NDArray[np.intp]:
        """By row, which need comes first that even the future does not meet; -1: none."""
        table = self._table
        result = np.full(len(table), -1, dtype=np.intp)
        for position, (column, need) in enumerate(self.needs):
            short = (table.future[column] < need) & (result < 0)
            result[short] = position
        return result


# A view takes about so many bytes for each node, and all views together no more than so many.
_BYTES_PER_NODE = 40
_MOST_BYTES = 256 * 2**20
_FEWEST_VIEWS = 16


class ClassViews:
    """The views of the classes in use; when they need too much memory, the oldest ones go."""

    def __init__(self) -> None:
        # The session that used a view last, and the view; in the order of use.
        self._views: dict[int, tuple[int, ClassView]] = {}
        # Class numbers of views with arrays of their own.
        self._with_arrays: set[int] = set()

    def __len__(self) -> int:
        return len(self._views)

    def view(
        self, class_: TaskClass, table: NodeTable, chains: Chains, work: dict[str, int], age: int
    ) -> ClassView:
        """The view of a class, up to date."""
        number = class_.number
        known = self._views.get(number)
        if known is not None and known[0] == age:
            view = known[1]
        else:
            if known is None:
                view = ClassView(class_, table, chains, work)
            else:
                del self._views[number]
                view = known[1]
                view.reuse(chains, work)
            self._views[number] = (age, view)
        view.sync()
        if view.fits_nowhere:
            self._with_arrays.discard(number)
        elif number not in self._with_arrays:
            self._with_arrays.add(number)
            self._trim(max(_FEWEST_VIEWS, _MOST_BYTES // (_BYTES_PER_NODE * len(table) + 1)))
        return view

    def _trim(self, most: int) -> None:
        if len(self._with_arrays) > most:
            oldest = [number for number in self._views if number in self._with_arrays]
            for number in oldest[: len(oldest) - most]:
                self.forget(number)

    def forget(self, number: int) -> None:
        """The class with that number is gone."""
        self._views.pop(number, None)
        self._with_arrays.discard(number)

    def clear(self) -> None:
        self._views.clear()
        self._with_arrays.clear()

    def release(self, age: int) -> None:
        """The session has ended: views keep nothing of it alive."""
        for used, view in reversed(self._views.values()):
            if used != age:
                break
            view.release()
