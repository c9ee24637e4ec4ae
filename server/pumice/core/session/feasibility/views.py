"""Feasible nodes of a task class, with their scores.

A view is kept across sessions. It follows the node table's changes, so that after a placement
only the touched rows are computed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pumice.core import kernel
from pumice.core.cache.nodes import ABSENT_COLUMN, Floats, NodeTable
from pumice.core.cache.tasks import TaskClass
from pumice.core.model.fit import FitErrors, Mask, Refusal
from pumice.core.model.resources import CPU, MEMORY, PODS
from pumice.core.session.feasibility.candidate_terms import CandidateTerm
from pumice.core.session.feasibility.class_answers import ClassAnswers, Facets
from pumice.core.session.feasibility.program import RowLimits, RowProgram, is_about, terms_of
from pumice.core.session.feasibility.rows import NodeRows, RowState
from pumice.core.session.feasibility.terms import KernelTerm
from pumice.core.session.hooks import Chains, Hooks
from pumice.core.session.policies import RowTerms, StateRule

# Where more than one row in this number was touched, all rows are computed.
_REFRESH_ALL_ABOVE = 2
# Up to this many touched rows are looked up among known results, of which a view keeps the second
# number.
_FEW_ROWS = 4
_MOST_SEEN = 1_000
_NO_CHAINS = Chains(Hooks(), [])
Work = Counter[str]


class ClassView:
    """Masks and scores of one class over all rows; call ``sync`` before reading."""

    def __init__(
        self, class_: TaskClass, facets: Facets, table: NodeTable, chains: Chains, work: Work
    ) -> None:
        self.class_ = class_
        self.answers = ClassAnswers(class_, facets, table)
        self._table = table
        self._work = work
        self._layout = -1
        self._terms: dict[str, KernelTerm] | None = None
        self._limits: RowLimits | None = None
        self._position = -1
        self._program: RowProgram | None = None
        self._takes_any = (-1, -1)
        self._errors: tuple[int, FitErrors] | None = None
        self.static: list[tuple[str, list[Refusal]]] = []
        self.reuse(chains, work)

    def reuse(self, chains: Chains, work: Work) -> None:
        """A new session: the same questions to plugins that were opened anew."""
        self._chains = chains
        # Whether the answers at class points still hold was not asked in this session.
        self._is_checked = False
        self._work = work
        if self._limits is not None:
            self._limits.reuse(chains, self.answers)
        # What was computed for a row, by all that it follows from: most nodes are like others.
        self._seen: dict[tuple[object, ...], tuple[bool | float, ...]] = {}

    def release(self) -> None:
        """The session has ended: its plugins and work may be freed."""
        self._chains, self._work, self._seen = _NO_CHAINS, Counter(), {}
        if self._limits is not None:
            self._limits.reuse(_NO_CHAINS, self.answers)

    @property
    def fits_nowhere(self) -> bool:
        """No node offers some resource that the class asks for: the arrays are the table's."""
        return self.total is self._table.never

    def sync(self) -> None:
        table = self._table
        if self._layout != table.layout:
            self._start()
            return
        if not self._is_checked:
            self._check_class_answers()
        if self._position == table.changes:
            return
        if self._program is not None:
            self._run_program(self._program, self._position)
            return
        if self.total is table.never:
            self._position = table.changes
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
        """Refreshes a row from the known result of an equal row, if there is one."""
        table = self._table
        key = (
            table.amounts[:, row].tobytes(),
            table.offered[:, row].tobytes(),
            bool(self.static_ok[row]),
            float(self.static_order[row]),
            *[rule.state(row, facet) for rule, facet in self._states()],
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
        table = self._table
        self._seen.clear()
        self._layout, self._is_checked = table.layout, True
        self._invalidate_findings()
        count = len(table)
        self._find_needs()
        if any(column == ABSENT_COLUMN for column, _ in self.needs):
            self._fit_nowhere()
            return
        self.static_ok: Mask
        self.static_order: Floats
        # The refusals are by plugin, in the order in which plugins are asked.
        self.static, self.static_ok, self.static_order = self.answers.combined(self._chains)
        self.fits_future: Mask = np.zeros(count, dtype=np.bool_)
        self.fits_idle: Mask = np.zeros(count, dtype=np.bool_)
        self.open: Mask = np.zeros(count, dtype=np.bool_)
        # Without scores of rows the order is that of the class, in the same array.
        self.order: Floats = np.zeros(count) if self._scores_rows() else self.static_order
        self.batch: Floats = np.zeros(count)
        self.total: Floats = np.zeros(count)
        self._limits = None
        self._program = self._compile()
        if self._program is None:
            self._refresh(None)
        else:
            self._run_program(self._program, -1)
        self._position = table.changes

    def _invalidate_findings(self) -> None:
        self._takes_any = (-1, -1)
        if self._errors is not None:
            # To be found again, and to be compared with.
            self._errors = (-1, self._errors[1])

    def _check_class_answers(self) -> None:
        """Asks again what no longer holds, and refreshes the rows for which that matters."""
        self._is_checked = True
        if self.fits_nowhere:
            return
        if kernel.rows is not None and self._program is None:
            self._count("classes_by_numpy")
        before = self.answers.asked
        self.static, passes, scores = self.answers.combined(self._chains)
        if (self.order is self.static_order and self._scores_rows()) or self._has_other_terms():
            self._start()
            return
        if self.answers.asked == before:
            return
        self._count("classes_refreshed")
        changed = np.flatnonzero((passes != self.static_ok) | (scores != self.static_order))
        # In place: the kernel's program reads these arrays.
        self.static_ok[:], self.static_order[:] = passes, scores
        self._invalidate_findings()
        if len(changed):
            self._refresh(changed)

    def _has_other_terms(self) -> bool:
        """Whether a node has changed so that the kernel computes the scores by other terms."""
        if kernel.rows is None:
            return False
        terms = terms_of(self.class_, self._chains, self.answers)
        return terms != self._terms or (self._limits is not None and not self._limits.holds)

    def _scores_rows(self) -> bool:
        return any(is_about(rule, self.class_) for _, rule in self._chains.named("row_score"))

    def class_refusals(self) -> dict[str, list[Refusal]]:
        """What plugins have against nodes, whatever their state, by plugin."""
        return dict(self.answers.at("class_predicate", self._chains))

    def class_scores(self) -> list[tuple[str, Floats]]:
        """The scores of all nodes that follow from the class, by plugin."""
        return self.answers.at("class_score", self._chains)

    def _find_needs(self) -> None:
        """Column and amount of all that must be there, and the names of the resources.

        Cpu and memory are compared even when nothing is asked: a node may be below zero.
        """
        table, request = self._table, self.class_.request
        columns = {name: column for column, name in enumerate(table.columns)}
        self.needs: list[tuple[int, float]] = []
        self.need_names: list[str] = []
        for name in (CPU, MEMORY, *sorted(request.scalars, key=lambda n: (n == PODS, n))):
            need = self.class_.least(name)
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
        terms = self._terms = terms_of(self.class_, self._chains, self.answers)
        if terms is None:
            self._count("classes_by_numpy")
            return None
        if self._limits is None:
            self._limits = RowLimits(self.class_, self._table, self._chains, self.answers)
        static = (self.static_ok, self.static_order)
        fits = (self.fits_idle, self.fits_future)
        outputs = (*fits, self.open, self.order, self.batch, self.total)
        limits = self._limits.arrays
        return RowProgram(self.class_, self._table, self.needs, static, terms, limits, outputs)

    def _run_program(self, program: RowProgram, since: int) -> None:
        if self._limits is not None and not self._limits.is_empty:
            rows = self._table.touched_since(since)
            if not self._limits.fill(rows):
                program = self._reopened()
        self._work["rows_computed"] += program.evaluate(since)
        self._position = self._table.changes

    def _reopened(self) -> RowProgram:
        """The program with the arrays of the limits as they are now."""
        program = self._program = self._compile()
        assert program is not None
        return program

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
        if self._program is not None:
            self._program.forget()

    def evaluate(self, rows: NodeRows, where: slice | NDArray[np.intp]) -> RowState:
        """Evaluates some rows for the class; ``where`` are their positions."""
        self._count("rows_computed", len(rows))
        open_ = self.static_ok[where].copy()
        for refusals in self._of_rows("row_predicate", rows):
            for refusal in refusals:
                open_ &= ~refusal.rows
        order = self.static_order[where]
        for score in self._of_rows("row_score", rows):
            order = order + score
        batch: Floats = np.zeros(len(rows))
        for score in self._of_rows("row_batch_score", rows):
            batch = batch + score
        return RowState(self.fits(rows.idle), self.fits(rows.future), open_, order, batch)

    def _of_rows(self, point: str, rows: NodeRows) -> Iterator[Any]:
        for name, function in self._chains.named(point):
            if isinstance(function, RowTerms):
                facet = self.answers.facet_of(point, name)
                yield function.term_of(self.class_, facet).evaluate(rows)
            elif not isinstance(function, StateRule):
                yield function(self.class_, rows)
            elif function.concerns(self.class_):
                yield function.answer(self.class_, self.answers.facet_of(point, name), rows)

    def row_refusals(self, plugin: str, function: Any, rows: NodeRows) -> list[Refusal]:
        """What a plugin's row predicate has against rows."""
        if not isinstance(function, StateRule):
            return list(function(self.class_, rows))
        if not function.concerns(self.class_):
            return []
        facet = self.answers.facet_of("row_predicate", plugin)
        return list(function.answer(self.class_, facet, rows))

    def _states(self) -> list[tuple[StateRule[Any], Hashable]]:
        """The rules whose states of nodes the answers follow from, with the facets of the view."""
        return [
            (rule, self.answers.facet_of(point, name))
            for point in ("row_predicate", "row_score", "row_batch_score")
            for name, rule in self._chains.named(point)
            if isinstance(rule, StateRule) and rule.concerns(self.class_)
        ]

    def _count(self, what: str, number: int = 1) -> None:
        self._work[what] += number

    @property
    def has_program(self) -> bool:
        """Whether the kernel computes the rows."""
        return self._program is not None

    def best_rows(
        self, within: Mask | None, count: int, terms: tuple[CandidateTerm, ...] = ()
    ) -> list[int] | None:
        """The best rows for so many tasks placed one after the other; None: there is no program."""
        if self._program is None:
            return None
        limits = self._limits if count > 1 else None
        if limits is not None and not limits.deepen(count, self._chains, self.answers):
            self._reopened()
        parts = tuple([term.kernel_parts for term in terms]) if terms else ()
        rows, judged = self._program.choose(within, count, parts)
        if judged:
            self._count("rows_computed", judged)
        return rows

    def fits(self, amounts: Floats) -> Mask:
        """Where amounts, by column of the table and row, are enough for a task of the class."""
        first, least = self.needs[0]
        mask: Mask = amounts[first] >= least
        for column, need in self.needs[1:]:
            mask &= amounts[column] >= need
        return mask

    @property
    def has_feasible_row(self) -> bool:
        """Whether a row has enough resources now or after releases, and passes the predicates."""
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
        """Why the class fits on no row; computed again only after a change.

        What comes out the same stays the same object, by which it is known to be nothing new.
        """
        known = self._errors
        if known is not None and known[0] == self._table.changes:
            return known[1]
        errors = find()
        if known is not None and errors.is_equivalent_to(known[1]):
            errors = known[1]
        self._errors = (self._table.changes, errors)
        return errors
