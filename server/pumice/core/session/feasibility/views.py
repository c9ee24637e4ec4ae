"""Feasible nodes of task classes, with their scores, and the cache of these views.

A view stays valid over sessions. It is updated with the changes of the node table, so that a placement
invalidates one row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pumice.core import kernel
from pumice.core.cache.nodes import ABSENT_COLUMN, Floats, NodeTable
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.fit import FitErrors, Mask, Refusal
from pumice.core.model.memo import Memo
from pumice.core.model.resources import CPU, MEMORY, PODS
from pumice.core.session.feasibility.candidate_terms import CandidateTerm
from pumice.core.session.feasibility.class_rules import ClassRules, Facets, Refusals
from pumice.core.session.feasibility.kernel_rows import KernelRows, terms_of
from pumice.core.session.feasibility.numpy_rows import NumpyRows
from pumice.core.session.feasibility.rows import RowState
from pumice.core.session.policies import ClassRule, RowTerms, StateRule, concerns

if TYPE_CHECKING:
    from pumice.core.session.session import Session

# The number of a class, with the facets where there are any.
ViewKey = int | tuple[int, Facets]
# The approximate size of a view per node, and the maximum size of all views together.
_BYTES_PER_NODE = 40
_MAX_BYTES = 256 * 2**20
_MIN_VIEWS = 16
# Point and plugin, and the function that returns the facet of a task there.
_FacetRule = tuple[tuple[str, str], Callable[[Task], Hashable]]
_NO_RULES: list[_FacetRule] = []
_FACET_POINTS = ("class_predicate", "class_score", "row_predicate", "row_score", "row_batch_score")


class ClassView:
    """Masks and scores of one class over all rows; call ``sync`` before reading."""

    def __init__(self, class_: TaskClass, facets: Facets, session: Session) -> None:
        self.class_ = class_
        self.table: NodeTable = session.table
        self.rules = ClassRules(class_, facets, self.table)
        # The state of the table for which the arrays are valid.
        self._layout = self._position = -1
        # None: NumPy computes the rows.
        self._kernel_rows: KernelRows | None = None
        # A row that was feasible, and the state of the table at that time.
        self._feasible_row, self._feasible_position = -1, -1
        self._errors: tuple[int, FitErrors] | None = None
        self.static: Refusals = []
        self.use(session)

    def use(self, session: Session) -> None:
        """Uses the rules of a new session."""
        self.rules.use(session.chains)
        self._work = session.work
        # Whether all tasks of the class are plain.
        self.is_plain = session.plain.is_class_plain(self.class_)
        # Whether this session has checked that the results at class points are still valid.
        self._is_checked = False
        # The results of NumPy for rows, by everything that they depend on; many nodes are equal.
        self.known_rows: dict[tuple[object, ...], tuple[bool | float, ...]] = {}
        if self._kernel_rows is not None:
            self._kernel_rows.renew_states()

    def release(self) -> None:
        """Drops the rules and counters of a session that has ended, so that they can be freed."""
        self.rules.release()
        self._work, self.known_rows = Counter(), {}
        if self._kernel_rows is not None:
            self._kernel_rows.renew_states()

    def count(self, what: str, number: int = 1) -> None:
        self._work[what] += number

    @property
    def by_numpy(self) -> NumpyRows:
        """Computes rows if the kernel does not."""
        return NumpyRows(self)

    @property
    def uses_kernel(self) -> bool:
        return self._kernel_rows is not None

    @property
    def fits_nowhere(self) -> bool:
        """Whether no node offers a resource that the class requests; the arrays are the table's then."""
        return self.total is self.table.never

    # Updates.

    def sync(self) -> None:
        table = self.table
        if self._layout != table.layout:
            self._start()
            return
        if not self._is_checked:
            self._check_class_results()
        if self._position == table.changes:
            return
        if self._kernel_rows is not None:
            self._work["rows_computed"] += self._kernel_rows.follow(self._position)
        elif not self.fits_nowhere:
            self.by_numpy.follow(self._position)
        self._position = table.changes

    def _start(self) -> None:
        """Computes everything."""
        table, count = self.table, len(self.table)
        self.known_rows.clear()
        self._layout, self._is_checked, self._kernel_rows = table.layout, True, None
        self._invalidate_results()
        self._find_needs()
        self._position = table.changes
        if any(column == ABSENT_COLUMN for column, _ in self.needs):
            self._fit_nowhere()
            return
        self.static_ok: Mask
        self.static_order: Floats
        # The refusals are by plugin, in the order of plugins.
        self.static, self.static_ok, self.static_order = self.rules.combined()
        self.fits_idle: Mask = np.zeros(count, dtype=np.bool_)
        self.fits_future: Mask = np.zeros(count, dtype=np.bool_)
        self.open: Mask = np.zeros(count, dtype=np.bool_)
        # Without row scores, ``order`` is the array of the class scores.
        scores_rows = self.rules.at("row_score")
        self.order: Floats = np.zeros(count) if scores_rows else self.static_order
        self.batch: Floats = np.zeros(count)
        self.total: Floats = np.zeros(count)
        fits = (self.fits_idle, self.fits_future)
        self.outputs = RowState(*fits, self.open, self.order, self.batch, self.total)
        terms = terms_of(self.rules) if kernel.rows is not None and count else None
        if terms is None:
            if kernel.rows is not None and count:
                self.count("classes_by_numpy")
            self.by_numpy.refresh(None)
            return
        arrays = (self.static_ok, self.static_order, self.outputs)
        self._kernel_rows = KernelRows(self.rules, table, self.needs, terms, arrays)
        self.count("rows_computed", self._kernel_rows.follow(-1))

    def _invalidate_results(self) -> None:
        self._feasible_row = self._feasible_position = -1
        if self._errors is not None:
            # The next errors are compared with these.
            self._errors = (-1, self._errors[1])

    def _find_needs(self) -> None:
        """Finds columns, amounts and names of the resources that a node must have.

        Cpu and memory are compared even if nothing is requested, because a node can be below zero.
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
        """Uses shared arrays, because no node offers a resource that the class requests."""
        table = self.table
        self.static = []
        self.static_ok = self.fits_future = self.fits_idle = self.open = table.nowhere
        self.static_order = self.order = self.batch = table.nothing
        self.total = table.never

    def _check_class_results(self) -> None:
        """Evaluates rules at class points again, if necessary, and the rows that they change."""
        self._is_checked = True
        if self.fits_nowhere:
            return
        if kernel.rows is not None and not self.uses_kernel:
            self.count("classes_by_numpy")
        before = self.rules.evaluations
        self.static, passes, scores = self.rules.combined()
        if self._has_other_row_rules():
            self._start()
            return
        if self.rules.evaluations == before:
            return
        self.count("classes_refreshed")
        changed = np.flatnonzero((passes != self.static_ok) | (scores != self.static_order))
        # In place: the kernel's program reads these arrays.
        self.static_ok[:], self.static_order[:] = passes, scores
        self._invalidate_results()
        if len(changed):
            self.by_numpy.refresh(changed)
            if self._kernel_rows is not None:
                self._kernel_rows.forget()

    def _has_other_row_rules(self) -> bool:
        """Whether there are new row scores, or the kernel needs another program."""
        if self.order is self.static_order and self.rules.at("row_score"):
            return True
        if self._kernel_rows is not None:
            return not self._kernel_rows.is_valid
        return kernel.rows is not None and terms_of(self.rules) is not None

    # Results.

    def class_refusals(self) -> dict[str, list[Refusal]]:
        """The refusals at ``class_predicate``, by plugin."""
        return dict(self.rules.results("class_predicate"))

    def class_scores(self) -> list[tuple[str, Floats]]:
        """The scores at ``class_score``, by plugin."""
        return self.rules.results("class_score")

    def best_rows(
        self, within: Mask | None, count: int, terms: tuple[CandidateTerm, ...] = ()
    ) -> list[int]:
        """The best rows for ``count`` tasks, one after the other; fewer if idle resources run out.

        Terms may be given only if the view uses the kernel.
        """
        if self._kernel_rows is None:
            return self.by_numpy.best_rows(within, count)
        rows, computed = self._kernel_rows.best_rows(within, count, terms)
        if computed:
            self._work["rows_computed"] += computed
        return rows

    def fits(self, amounts: Floats) -> Mask:
        """By row, whether amounts, by column and row, are enough for a task of the class."""
        first, least = self.needs[0]
        mask: Mask = amounts[first] >= least
        for column, need in self.needs[1:]:
            mask &= amounts[column] >= need
        return mask

    @property
    def has_feasible_row(self) -> bool:
        """Whether a row passes the predicates and has enough future resources."""
        row = self._feasible_row
        if row >= 0 and self.open[row] and self.fits_future[row]:
            return True
        if self._feasible_position != self._position:
            feasible = self.open & self.fits_future
            first = int(feasible.argmax()) if len(feasible) else -1
            self._feasible_row = first if first >= 0 and feasible[first] else -1
            self._feasible_position = self._position
        return self._feasible_row >= 0

    def fit_errors(self, find: Callable[[], FitErrors]) -> FitErrors:
        """Why the class fits on no row; computed again only after a change.

        If the errors are the same as before, the result is the same object, so that callers can compare
        objects.
        """
        known = self._errors
        if known is not None and known[0] == self.table.changes:
            return known[1]
        errors = find()
        if known is not None and errors.is_equivalent_to(known[1]):
            errors = known[1]
        self._errors = (self.table.changes, errors)
        return errors


class ClassViews:
    """The views of task classes; if they need too much memory, the least recently used are dropped."""

    def __init__(self) -> None:
        # The session that used a view last, and the view; in the order of use.
        self._views: dict[ViewKey, tuple[int, ClassView]] = {}
        # Views with separate arrays.
        self._with_arrays: set[ViewKey] = set()

    def __len__(self) -> int:
        return len(self._views)

    def view(self, class_: TaskClass, facets: Facets, session: Session) -> ClassView:
        """The view of a class, up to date."""
        number: ViewKey = (class_.number, facets) if facets else class_.number
        known, age = self._views.get(number), session.number
        if known is not None and known[0] == age:
            # In one session, only the rows can change.
            known[1].sync()
            return known[1]
        if known is None:
            view = ClassView(class_, facets, session)
        else:
            del self._views[number]
            view = known[1]
            view.use(session)
        self._views[number] = (age, view)
        view.sync()
        if view.fits_nowhere:
            self._with_arrays.discard(number)
        elif number not in self._with_arrays:
            self._with_arrays.add(number)
            self._trim(max(_MIN_VIEWS, _MAX_BYTES // (_BYTES_PER_NODE * len(session.table) + 1)))
        return view

    def _trim(self, most: int) -> None:
        if len(self._with_arrays) > most:
            oldest = [number for number in self._views if number in self._with_arrays]
            for key in oldest[: len(oldest) - most]:
                self._drop(key)

    def forget(self, number: int) -> None:
        """Drops the views of a class that was removed."""
        self._drop(number)
        for key in [k for k in self._views if isinstance(k, tuple) and k[0] == number]:
            self._drop(key)

    def _drop(self, key: ViewKey) -> None:
        self._views.pop(key, None)
        self._with_arrays.discard(key)

    def clear(self) -> None:
        self._views.clear()
        self._with_arrays.clear()

    def release(self, age: int) -> None:
        """Drops the rules of a session that has ended, so that its plugins can be freed."""
        for used, view in reversed(self._views.values()):
            if used != age:
                break
            view.release()


class SessionViews:
    """Finds the view of a task: one for each class, and for each facet where rules have facets."""

    def __init__(self, session: Session, kept: ClassViews) -> None:
        self._session = session
        self._kept = kept
        self._rules = Memo(self._find_rules)

    def of(self, task: Task) -> ClassView:
        """The view of the task's class, up to date."""
        facets = self.facets(task) if self.has_facets else ()
        return self._kept.view(task.class_, facets, self._session)

    def facets(self, task: Task) -> Facets:
        """What rules depend on beside the task's class; empty: no rule has a facet."""
        rules = self.facet_rules(task.class_)
        return tuple([(where, facet(task)) for where, facet in rules]) if rules else ()

    @cached_property
    def has_facets(self) -> bool:
        """Whether any rule has a facet; first read after all plugins have registered their rules."""
        return any(
            getattr(rule, "facet", None) is not None
            for point in _FACET_POINTS
            for _, rule in self._session.chains.named(point)
        )

    def facet_rules(self, class_: TaskClass) -> list[_FacetRule]:
        """The rules with facets that concern a class, by point and plugin."""
        return self._rules[class_] if self.has_facets else _NO_RULES

    def _find_rules(self, class_: TaskClass) -> list[_FacetRule]:
        return [
            ((point, name), rule.facet)
            for point in _FACET_POINTS
            for name, rule in self._session.chains.named(point)
            if isinstance(rule, ClassRule | RowTerms | StateRule) and rule.facet is not None
            if concerns(rule, class_)
        ]
