"""Feasibility and scores of rows for one class, computed by the compiled kernel.

The kernel runs a program, which is made from the terms of the class. States that plugins keep about
nodes limit the number of tasks of a row; the program reads these limits from arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pumice.core import kernel
from pumice.core.cache.nodes import CPU_COLUMN, MEMORY_COLUMN, PODS_COLUMN, Floats, NodeTable
from pumice.core.model.fit import Mask
from pumice.core.session.feasibility.candidate_terms import CandidateTerm
from pumice.core.session.feasibility.class_rules import ClassRules
from pumice.core.session.feasibility.rows import RowState
from pumice.core.session.feasibility.terms import (
    KERNEL_TERMS,
    AmountScore,
    Fullness,
    KernelTerm,
    PodLimit,
)
from pumice.core.session.policies import RowTerms, StateRule

if TYPE_CHECKING:
    from pumice.core.kernel._rows import Parts

# The parts of the node table's amounts and offers, in the order of their rows.
_IDLE, _USED, _RELEASING, _FUTURE, _KUBE_USED, _KUBE_COUNTED = range(6)
_ALLOCATABLE, _KUBE_ALLOCATABLE = range(2)
_NONE = -1
Terms = dict[str, KernelTerm]
# Column of the table and amount of each resource that a node must have.
Needs = list[tuple[int, float]]


class KernelRows:
    """The program of one class; it writes to the arrays of its view."""

    __slots__ = ("_arrays", "_limits", "_needs", "_program", "_rules", "_table", "_terms")

    def __init__(
        self,
        rules: ClassRules,
        table: NodeTable,
        needs: Needs,
        terms: Terms,
        arrays: tuple[Mask, Floats, RowState],
    ) -> None:
        """``arrays`` are the rows that pass the class predicates, the class scores, and the results."""
        self._rules, self._table = rules, table
        self._needs, self._terms, self._arrays = needs, terms, arrays
        self._limits = _RowLimits(rules, len(table)) if _limits_of(rules) else None
        self._compile()

    def _compile(self) -> None:
        assert kernel.rows is not None
        table, (passes, scores, results) = self._table, self._arrays
        plan, numbers = _write(table, self._needs, self._terms)
        parts: Parts = (
            table.amounts,
            table.offered,
            passes,
            scores,
            np.array(plan, dtype=np.int64),
            np.array(numbers, dtype=np.float64),
            table.weights(self._rules.class_).placed,
            *(_NO_LIMITS if self._limits is None else self._limits.arrays),
        )
        self._program = kernel.rows.program(parts, table.stamps, results)

    @property
    def is_valid(self) -> bool:
        """Whether the rules of this session give the terms and limits of the program."""
        if terms_of(self._rules) != self._terms:
            return False
        return not _limits_of(self._rules) if self._limits is None else self._limits.is_valid

    def renew_states(self) -> None:
        """Uses other states, after a session has begun or ended."""
        if self._limits is not None:
            self._limits.renew_states()

    def follow(self, since: int) -> int:
        """Computes the rows that have changed since a state of the table, and returns their number."""
        assert kernel.rows is not None
        if self._limits is not None and not self._limits.fill(self._table.touched_since(since)):
            self._compile()
        computed: int = kernel.rows.evaluate(self._program, since)
        return computed

    def forget(self) -> None:
        """Invalidates what the kernel knows; called after other code has written to the results."""
        assert kernel.rows is not None
        kernel.rows.forget(self._program)

    def best_rows(
        self, within: Mask | None, count: int, terms: tuple[CandidateTerm, ...]
    ) -> tuple[list[int], int]:
        """The best rows for ``count`` tasks one after the other, and the number of computed rows."""
        assert kernel.rows is not None
        if count > 1 and self._limits is not None and not self._limits.deepen(count):
            self._compile()
        parts: Any = tuple([term.kernel_parts for term in terms]) if terms else ()
        chosen: tuple[list[int], int] = kernel.rows.choose(self._program, within, count, parts)
        return chosen


def terms_of(rules: ClassRules) -> Terms | None:
    """The term of every row point that has one; None: the kernel does not support one of them.

    State rules have no terms: the kernel reads their limits and steps.
    """
    terms: Terms = {}
    if _steps_of(rules) and not _limits_of(rules):
        return None
    for point, kind in KERNEL_TERMS.items():
        by_state = _state_rules(rules, point)
        others = [(name, rule) for name, rule in rules.at(point) if rule not in by_state]
        if len(others) > 1:
            return None
        for name, rule in others:
            if not isinstance(rule, RowTerms):
                return None
            term = rule.term_of(rules.class_, rules.facet_of(point, name))
            if not isinstance(term, kind):
                return None
            terms[point] = term
    return terms


def _limits_of(rules: ClassRules) -> list[StateRule[Any]]:
    """The rules whose states limit the number of tasks of a row."""
    return _state_rules(rules, "row_predicate")


def _steps_of(rules: ClassRules) -> StateRule[Any] | None:
    """The rule by whose states rows are scored."""
    return next(iter(_state_rules(rules, "row_score")), None)


def _state_rules(rules: ClassRules, point: str) -> list[StateRule[Any]]:
    """The state rules at a point that the kernel supports."""
    at_point = rules.at(point)
    return [
        rule
        for index, (name, rule) in enumerate(at_point)
        if isinstance(rule, StateRule) and rules.facet_of(point, name) is None
        # Scores are added in the order of plugins, and the kernel adds these last.
        if point == "row_predicate" or index == len(at_point) - 1
    ]


def _write(table: NodeTable, needs: Needs, terms: Terms) -> tuple[list[int], list[float]]:
    """Plan and numbers in the order in which the kernel reads them."""
    width = len(table.columns)
    pods, pack = terms.get("row_predicate"), terms.get("row_score")
    scores = terms.get("row_batch_score")
    parts = [
        (_USED * width + column, column, request, weight)
        for name, request, weight in (pack.parts if isinstance(pack, Fullness) else ())
        if weight and (column := table.column_of(name)) is not None
    ]
    plan = [
        len(needs),
        PODS_COLUMN if isinstance(pods, PodLimit) else _NONE,
        _KUBE_COUNTED * width + 2,
        int(isinstance(scores, AmountScore)),
        _KUBE_ALLOCATABLE * width + CPU_COLUMN,
        _KUBE_ALLOCATABLE * width + MEMORY_COLUMN,
        _KUBE_COUNTED * width,
        _KUBE_COUNTED * width + 1,
        _KUBE_USED * width + CPU_COLUMN,
        _KUBE_USED * width + MEMORY_COLUMN,
        *_gpu_parts(table, scores),
        len(parts),
        *(_IDLE * width + column for column, _ in needs),
        *(_FUTURE * width + column for column, _ in needs),
        *(used for used, _, _, _ in parts),
        *(_ALLOCATABLE * width + offered for _, offered, _, _ in parts),
    ]
    numbers = [
        *_score_numbers(scores),
        pack.divisor if isinstance(pack, Fullness) else 0.0,
        pack.factor if isinstance(pack, Fullness) else 0.0,
        *(need for _, need in needs),
        *(request for _, _, request, _ in parts),
        *(weight for _, _, _, weight in parts),
    ]
    return plan, numbers


def _gpu_parts(table: NodeTable, scores: KernelTerm | None) -> tuple[int, int]:
    """The rows of allocatable and used GPUs in the arrays; below zero: GPUs are not in the score."""
    column = None
    if isinstance(scores, AmountScore) and scores.gpu:
        column = table.column_of(scores.gpu)
    if column is None:
        return (_NONE, _NONE)
    width = len(table.columns)
    return (_KUBE_ALLOCATABLE * width + column, _KUBE_USED * width + column)


def _score_numbers(scores: KernelTerm | None) -> tuple[float, ...]:
    if not isinstance(scores, AmountScore):
        return (0.0,) * 8
    request = (scores.non_zero_milli_cpu, scores.non_zero_memory, scores.milli_cpu, scores.memory)
    balanced = scores.balanced if scores.has_balance else 0.0
    return (*request, scores.gpus, scores.least, scores.most, balanced)


# The number of tasks of a row is computed up to a multiple of this.
_FIRST_DEPTH = 4
_FIRST_STEPS = 256
_UNKNOWN = -1.0
# With more steps than this, the steps are computed again for the next session.
_MAX_STEPS = 65_536
# Limits and offsets by row, and the scores at the offsets; empty if no state limits the class.
_Limits = tuple[Floats, NDArray[np.int64], Floats]
_NO_LIMITS: _Limits = (np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0))


class _ByState:
    """Values of one rule by the number of the state, computed when they are first needed."""

    __slots__ = ("_values", "rule")

    def __init__(self, rule: StateRule[Any]) -> None:
        self.rule = rule
        self._values: Floats = np.full(64, _UNKNOWN)

    def of(self, rows: NDArray[np.intp], value: Callable[[int], float]) -> Floats:
        numbers = self.rule.numbers(rows)
        most = int(numbers.max())
        if most >= len(self._values):
            more = np.full(max(most + 1, 2 * len(self._values)) - len(self._values), _UNKNOWN)
            self._values = np.concatenate((self._values, more))
        found: Floats = self._values[numbers]
        if found.min() < 0:
            for number in dict.fromkeys(numbers[found < 0].tolist()):
                self._values[number] = value(number)
            found = self._values[numbers]
        return found


class _RowLimits:
    """A limit by row, and scores by the number of tasks, in arrays that the kernel reads."""

    __slots__ = (
        *("_depth", "_limits", "_most", "_offset_of", "_offsets"),
        *("_rules", "_scores", "_starts_over", "_steps", "_used"),
    )

    def __init__(self, rules: ClassRules, rows: int) -> None:
        self._rules = rules
        self._depth = _FIRST_DEPTH
        self._limits: list[_ByState] = []
        self._scores: _ByState | None = None
        # The offsets of steps by their scores, and the used length of the array.
        self._offset_of: dict[tuple[float, ...], int] = {}
        self._used = 0
        self._starts_over = False
        self.renew_states()
        has_steps = self._scores is not None
        self._most: Floats = np.zeros(rows)
        self._offsets: NDArray[np.int64] = np.zeros(rows if has_steps else 0, dtype=np.int64)
        self._steps: Floats = np.zeros(_FIRST_STEPS if has_steps else 0)

    def renew_states(self) -> None:
        """Uses the current states of the rules."""
        self._limits = [_ByState(rule) for rule in _limits_of(self._rules)]
        steps = _steps_of(self._rules)
        self._scores = None if steps is None else _ByState(steps)
        self._starts_over = self._starts_over or self._used > _MAX_STEPS

    @property
    def arrays(self) -> _Limits:
        return (self._most, self._offsets, self._steps)

    @property
    def is_valid(self) -> bool:
        """Whether there are still limits, and steps if there were some before."""
        return bool(self._limits) and (self._scores is not None) == bool(len(self._steps))

    def fill(self, rows: NDArray[np.intp]) -> bool:
        """Computes some rows; False: the arrays were replaced by larger ones."""
        if not len(rows):
            return True
        if self._starts_over:
            self._starts_over, self._used = False, 0
            self._offset_of.clear()
            rows = np.arange(len(self._most))
        # In place: the kernel's program reads the array.
        limits = [limit.of(rows, self._limit_by(limit.rule)) for limit in self._limits]
        self._most[rows] = limits[0] if len(limits) == 1 else np.minimum.reduce(limits)
        if self._scores is None:
            return True
        before = self._steps
        self._offsets[rows] = self._scores.of(rows, self._offset_by(self._scores.rule))
        return self._steps is before

    def _limit_by(self, rule: StateRule[Any]) -> Callable[[int], float]:
        class_, depth = self._rules.class_, self._depth
        return lambda number: float(len(rule.steps(class_, number, depth)))

    def _offset_by(self, rule: StateRule[Any]) -> Callable[[int], float]:
        class_, depth = self._rules.class_, self._depth
        return lambda number: float(self._store_steps(rule.steps(class_, number, depth)))

    def _store_steps(self, scores: tuple[float, ...]) -> int:
        """Stores steps, if they are new, and returns their offset."""
        offset = self._offset_of.get(scores)
        if offset is None:
            offset = self._offset_of[scores] = self._used
            self._used += len(scores)
            if self._used > len(self._steps):
                more = np.zeros(max(self._used, len(self._steps)))
                self._steps = np.concatenate((self._steps, more))
            self._steps[offset : self._used] = scores
        return offset

    def deepen(self, count: int) -> bool:
        """Computes limits up to ``count`` at least; False: the arrays were replaced by larger ones."""
        if count <= self._depth:
            return True
        self._depth = -(-count // _FIRST_DEPTH) * _FIRST_DEPTH
        self.renew_states()
        return self.fill(np.arange(len(self._most)))
