"""Feasible nodes of a task class, with their scores.

A view is kept across sessions. It follows the node table's changes, so that after a placement
only the touched rows are computed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from pumice.core import kernel
from pumice.core.cache.nodes import ABSENT_COLUMN, Floats, NodeTable
from pumice.core.cache.tasks import TaskClass
from pumice.core.model.fit import FitErrors, Mask, Refusal
from pumice.core.model.resources import CPU, MEMORY, PODS
from pumice.core.session.feasibility.candidate_terms import CandidateTerm
from pumice.core.session.feasibility.limits import RowLimits
from pumice.core.session.feasibility.numpy_rows import NumpyRows
from pumice.core.session.feasibility.terms import (
    NO_LIMITS,
    KernelTerm,
    Outputs,
    RowProgram,
    is_about,
    limits_of,
    terms_of,
)
from pumice.core.session.hooks import Chains, Hooks
from pumice.core.session.policies import ClassRule

_NO_CHAINS = Chains(Hooks(), [])
Work = Counter[str]
# ((point, plugin), facet) for every class rule with a facet.
Facets = tuple[tuple[tuple[str, str], Hashable], ...]
Refusals = list[tuple[str, list[Refusal]]]


class ClassView:
    """Masks and scores of one class over all rows; call ``sync`` before reading."""

    def __init__(
        self, class_: TaskClass, facets: Facets, table: NodeTable, chains: Chains, work: Work
    ) -> None:
        self.class_ = class_
        self.answers = ClassAnswers(class_, facets, table)
        self.table = table
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
        """Uses the view in a new session, which has opened its plugins again."""
        self.chains = chains
        # This session has not yet checked whether the answers at class points still hold.
        self._is_checked = False
        self._work = work
        if self._limits is not None:
            self._limits.reuse(chains, self.answers)
        # The results of NumPy for rows, by everything that they follow from: most nodes are like others.
        self.seen: dict[tuple[object, ...], tuple[bool | float, ...]] = {}

    def release(self) -> None:
        """The session has ended: its plugins and work may be freed."""
        self.chains, self._work, self.seen = _NO_CHAINS, Counter(), {}
        if self._limits is not None:
            self._limits.reuse(_NO_CHAINS, self.answers)

    @property
    def by_numpy(self) -> NumpyRows:
        """Computes rows where the kernel does not."""
        return NumpyRows(self)

    @property
    def fits_nowhere(self) -> bool:
        """No node offers some resource that the class asks for: the arrays are the table's."""
        return self.total is self.table.never

    def sync(self) -> None:
        table = self.table
        if self._layout != table.layout:
            self._start()
            return
        if not self._is_checked:
            self._check_class_answers()
        if self._position == table.changes:
            return
        if self._program is not None:
            self._run_program(self._program, self._position)
        elif not self.fits_nowhere:
            self.by_numpy.follow(self._position)
        self._position = table.changes

    def _start(self) -> None:
        table = self.table
        self.seen.clear()
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
        self.static, self.static_ok, self.static_order = self.answers.combined(self.chains)
        self.fits_future: Mask = np.zeros(count, dtype=np.bool_)
        self.fits_idle: Mask = np.zeros(count, dtype=np.bool_)
        self.open: Mask = np.zeros(count, dtype=np.bool_)
        # Without scores of rows the order is that of the class, in the same array.
        self.order: Floats = np.zeros(count) if self._scores_rows() else self.static_order
        self.batch: Floats = np.zeros(count)
        self.total: Floats = np.zeros(count)
        fits = (self.fits_idle, self.fits_future)
        # What is computed for each row.
        self.outputs: Outputs = (*fits, self.open, self.order, self.batch, self.total)
        self._limits = None
        self._program = self._compile()
        if self._program is None:
            self.by_numpy.refresh(None)
        else:
            self._run_program(self._program, -1)
        self._position = table.changes

    def _invalidate_findings(self) -> None:
        self._takes_any = (-1, -1)
        if self._errors is not None:
            # The next errors are compared with these.
            self._errors = (-1, self._errors[1])

    def _check_class_answers(self) -> None:
        """Asks again what no longer holds, and refreshes the rows for which that matters."""
        self._is_checked = True
        if self.fits_nowhere:
            return
        if kernel.rows is not None and self._program is None:
            self.count("classes_by_numpy")
        before = self.answers.asked
        self.static, passes, scores = self.answers.combined(self.chains)
        if (self.order is self.static_order and self._scores_rows()) or self._has_other_terms():
            self._start()
            return
        if self.answers.asked == before:
            return
        self.count("classes_refreshed")
        changed = np.flatnonzero((passes != self.static_ok) | (scores != self.static_order))
        # In place: the kernel's program reads these arrays.
        self.static_ok[:], self.static_order[:] = passes, scores
        self._invalidate_findings()
        if len(changed):
            self.by_numpy.refresh(changed)
            if self._program is not None:
                self._program.forget()

    def _has_other_terms(self) -> bool:
        """Whether a node has changed so that the kernel computes the scores by other terms."""
        if kernel.rows is None:
            return False
        if terms_of(self.class_, self.chains, self.answers) != self._terms:
            return True
        if self._limits is not None:
            return not self._limits.holds
        return self._program is not None and self._is_limited()

    def _is_limited(self) -> bool:
        """Whether states that plugins keep limit how many tasks of the class a row takes."""
        return bool(limits_of(self.class_, self.chains, self.answers))

    def _scores_rows(self) -> bool:
        return any(is_about(rule, self.class_) for _, rule in self.chains.named("row_score"))

    def class_refusals(self) -> dict[str, list[Refusal]]:
        """What plugins have against nodes, whatever their state, by plugin."""
        return dict(self.answers.at("class_predicate", self.chains))

    def class_scores(self) -> list[tuple[str, Floats]]:
        """The scores of all nodes that follow from the class, by plugin."""
        return self.answers.at("class_score", self.chains)

    def _find_needs(self) -> None:
        """Column and amount of all that must be there, and the names of the resources.

        Cpu and memory are compared even when nothing is asked: a node may be below zero.
        """
        table, request = self.table, self.class_.request
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
        table = self.table
        self.static = []
        self.static_ok = self.fits_future = self.fits_idle = self.open = table.nowhere
        self.static_order = self.order = self.batch = table.nothing
        self.total = table.never
        self._program = None
        self._position = table.changes

    def _compile(self) -> RowProgram | None:
        """The row functions for the kernel, where there is one and all of them have a term."""
        if kernel.rows is None or not len(self.table):
            return None
        terms = self._terms = terms_of(self.class_, self.chains, self.answers)
        if terms is None:
            self.count("classes_by_numpy")
            return None
        if self._limits is None and self._is_limited():
            self._limits = RowLimits(self.class_, self.table, self.chains, self.answers)
        static = (self.static_ok, self.static_order)
        limits = NO_LIMITS if self._limits is None else self._limits.arrays
        return RowProgram(self.class_, self.table, self.needs, static, terms, limits, self.outputs)

    def _run_program(self, program: RowProgram, since: int) -> None:
        if self._limits is not None:
            rows = self.table.touched_since(since)
            if not self._limits.fill(rows):
                program = self._reopened()
        self._work["rows_computed"] += program.evaluate(since)

    def _reopened(self) -> RowProgram:
        """The program with the arrays of the limits as they are now."""
        program = self._program = self._compile()
        assert program is not None
        return program

    def count(self, what: str, number: int = 1) -> None:
        self._work[what] += number

    @property
    def has_program(self) -> bool:
        """Whether the kernel computes the rows."""
        return self._program is not None

    def best_rows(
        self, within: Mask | None, count: int, terms: tuple[CandidateTerm, ...] = ()
    ) -> list[int]:
        """The best rows for so many tasks placed one after the other; fewer where room runs out.

        Terms may be given only where the view has a program.
        """
        if self._program is None:
            return self.by_numpy.best_rows(within, count)
        limits = self._limits if count > 1 else None
        if limits is not None and not limits.deepen(count, self.chains, self.answers):
            self._reopened()
        parts = tuple([term.kernel_parts for term in terms]) if terms else ()
        rows, judged = self._program.choose(within, count, parts)
        if judged:
            self._work["rows_computed"] += judged
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
            # The row that was found last is still feasible.
            return True
        if position != self._position:
            takes = self.open & self.fits_future
            found = int(takes.argmax()) if len(takes) else -1
            row = found if found >= 0 and takes[found] else -1
            self._takes_any = (self._position, row)
        return row >= 0

    def fit_errors(self, find: Callable[[], FitErrors]) -> FitErrors:
        """Why the class fits on no row; computed again only after a change.

        Errors that are equal to those before stay the same object, so that callers can compare objects.
        """
        known = self._errors
        if known is not None and known[0] == self.table.changes:
            return known[1]
        errors = find()
        if known is not None and errors.is_equivalent_to(known[1]):
            errors = known[1]
        self._errors = (self.table.changes, errors)
        return errors


class ClassAnswers:
    """The answers at ``class_predicate`` and ``class_score``, each kept as long as it holds."""

    __slots__ = ("_class", "_facets", "_kept", "_table", "asked")

    def __init__(self, class_: TaskClass, facets: Facets, table: NodeTable) -> None:
        self._class = class_
        self._facets = dict(facets)
        self._table = table
        # By point and plugin: the version that the answer holds for, and the answer.
        self._kept: dict[tuple[str, str], tuple[Hashable, Any]] = {}
        # How often a plugin was asked.
        self.asked = 0

    def facet_of(self, point: str, plugin: str) -> Hashable:
        """What a plugin's answers at a point depend on beside the class; None: nothing."""
        return self._facets.get((point, plugin))

    def combined(self, chains: Chains) -> tuple[Refusals, Mask, Floats]:
        """All refusals by plugin, the nodes that pass all of them, and the sum of the scores."""
        refused: Refusals = self.at("class_predicate", chains)
        passes: Mask = np.ones(len(self._table), dtype=np.bool_)
        for _, refusals in refused:
            for refusal in refusals:
                passes &= ~refusal.rows
        scores: Floats = np.zeros(len(self._table))
        for _, score in self.at("class_score", chains):
            scores = scores + score
        return refused, passes, scores

    def _version(self, rule: ClassRule[Any]) -> Hashable:
        own = rule.version()
        return own if rule.version_of is None else (own, rule.version_of(self._class))

    def at(self, point: str, chains: Chains) -> list[tuple[str, Any]]:
        """The answers at one point, by plugin, in the order in which plugins are asked."""
        answers = []
        for name, rule in chains.named(point):
            is_rule = isinstance(rule, ClassRule)
            own = self._version(rule) if is_rule else self._table.objects_version
            version = (self._table.layout, own)
            known = self._kept.get((point, name))
            if known is None or known[0] != version:
                self.asked += 1
                facet = self._facets.get((point, name))
                answer = rule.answer(self._class, facet) if is_rule else rule(self._class)
                answer = list(answer) if point == "class_predicate" else answer
                known = self._kept[point, name] = (version, answer)
            answers.append((name, known[1]))
        return answers
