"""A class's row functions, and the limits of its rows, as numbers for the kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pumice.core import kernel
from pumice.core.cache.nodes import CPU_COLUMN, MEMORY_COLUMN, PODS_COLUMN, Floats, NodeTable
from pumice.core.cache.tasks import TaskClass
from pumice.core.model.fit import Mask
from pumice.core.session.feasibility.candidate_terms import KernelParts
from pumice.core.session.feasibility.class_answers import ClassAnswers
from pumice.core.session.feasibility.terms import (
    KERNEL_TERMS,
    AmountScore,
    Fullness,
    KernelTerm,
    PodLimit,
)
from pumice.core.session.hooks import Chains
from pumice.core.session.policies import KernelStates, RowTerms, StateRule

if TYPE_CHECKING:
    from pumice.core.kernel._rows import Parts, Program


# The parts of the node table's amounts and offers, in the order of their rows.
_IDLE, _USED, _RELEASING, _FUTURE, _KUBE_USED, _KUBE_COUNTED = range(6)
_ALLOCATABLE, _KUBE_ALLOCATABLE = range(2)
_NONE = -1
# Limits and places by row, and the scores that the places point to.
Limits = tuple[Floats, NDArray[np.int64], Floats]
# fits_idle, fits_future, open, order, batch and total, by row.
Outputs = tuple[Mask, Mask, Mask, Floats, Floats, Floats]


def is_about(rule: Any, class_: TaskClass) -> bool:
    """Whether a rule at a row point has something to say about a class."""
    return not isinstance(rule, StateRule) or rule.concerns(class_)


def limits_of(class_: TaskClass, chains: Chains, answers: ClassAnswers) -> list[KernelStates]:
    """The states that limit how many tasks of the class a row takes."""
    return [kept for _, kept in _stated("row_predicate", class_, chains, answers)]


def steps_of(class_: TaskClass, chains: Chains, answers: ClassAnswers) -> KernelStates | None:
    """The states by which rows are scored."""
    return next((kept for _, kept in _stated("row_score", class_, chains, answers)), None)


def _stated(
    point: str, class_: TaskClass, chains: Chains, answers: ClassAnswers
) -> list[tuple[Any, KernelStates]]:
    """The state rules at a point that the kernel can be told about."""
    found = []
    rules = [(name, rule) for name, rule in chains.named(point) if is_about(rule, class_)]
    for place, (name, rule) in enumerate(rules):
        kept = rule.kernel if isinstance(rule, StateRule) else None
        if kept is None or answers.facet_of(point, name) is not None:
            continue
        # Scores are added in the order of plugins, and the kernel adds these last.
        is_last = place == len(rules) - 1
        if kept.most if point == "row_predicate" else kept.steps and is_last:
            found.append((rule, kept))
    return found


def terms_of(
    class_: TaskClass, chains: Chains, answers: ClassAnswers
) -> dict[str, KernelTerm] | None:
    """The term of every row point that has one; None when the kernel does not know one of them.

    The kernel is told the limits and steps of state rules instead.
    """
    terms: dict[str, KernelTerm] = {}
    if steps_of(class_, chains, answers) and not limits_of(class_, chains, answers):
        return None
    for point, kind in KERNEL_TERMS.items():
        stated = [rule for rule, _ in _stated(point, class_, chains, answers)]
        rules = [
            (name, rule)
            for name, rule in chains.named(point)
            if is_about(rule, class_) and rule not in stated
        ]
        if len(rules) > 1:
            return None
        for name, rule in rules:
            if not isinstance(rule, RowTerms):
                return None
            term = rule.term_of(class_, answers.facet_of(point, name))
            if not isinstance(term, kind):
                return None
            terms[point] = term
    return terms


class RowProgram:
    """What the kernel needs to know of a class; void when the table's layout or nodes change."""

    __slots__ = ("choose", "evaluate", "forget")

    def __init__(
        self,
        class_: TaskClass,
        table: NodeTable,
        needs: list[tuple[int, float]],
        static: tuple[Mask, Floats],
        terms: dict[str, KernelTerm],
        limits: Limits,
        outputs: Outputs,
    ) -> None:
        assert kernel.rows is not None
        plan, numbers = _write(table, needs, terms)
        parts: Parts = (
            table.amounts,
            table.offered,
            *static,
            np.array(plan, dtype=np.int64),
            np.array(numbers, dtype=np.float64),
            table.weights(class_).placed,
            *limits,
        )
        program: Program = kernel.rows.program(parts, table.stamps, outputs)
        # Fills in the rows that changed since the table stood there, and returns their number.
        self.evaluate: Callable[[int], int] = partial(kernel.rows.evaluate, program)
        # To be called when others have written totals.
        self.forget: Callable[[], None] = partial(kernel.rows.forget, program)
        # The best rows for so many tasks one after the other, within a mask and with terms, and how
        # many rows were judged.
        self.choose: Callable[
            [Mask | None, int, tuple[KernelParts | None, ...]], tuple[list[int], int]
        ] = partial(kernel.rows.choose, program)


def _write(
    table: NodeTable, needs: list[tuple[int, float]], terms: dict[str, KernelTerm]
) -> tuple[list[int], list[float]]:
    """Plan and numbers in the order that the kernel reads them in."""
    width = len(table.columns)
    pods, pack = terms.get("row_predicate"), terms.get("row_score")
    scores = terms.get("row_batch_score")
    parts = [
        (_USED * width + column, column, asked, weight)
        for name, asked, weight in (pack.parts if isinstance(pack, Fullness) else ())
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
        *_card_parts(table, scores),
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


def _card_parts(table: NodeTable, scores: KernelTerm | None) -> tuple[int, int]:
    """Where a third resource that counts for balance is offered and used; none: below zero."""
    column = None
    if isinstance(scores, AmountScore) and scores.card:
        column = table.column_of(scores.card)
    if column is None:
        return (_NONE, _NONE)
    width = len(table.columns)
    return (_KUBE_ALLOCATABLE * width + column, _KUBE_USED * width + column)


def _score_numbers(scores: KernelTerm | None) -> tuple[float, ...]:
    if not isinstance(scores, AmountScore):
        return (0.0,) * 8
    asked = (scores.non_zero_milli_cpu, scores.non_zero_memory, scores.milli_cpu, scores.memory)
    balanced = scores.balanced if scores.has_balance else 0.0
    return (*asked, scores.cards, scores.least, scores.most, balanced)


# Tasks are counted up to a multiple of this.
_FIRST_DEPTH = 4
_FIRST_STEPS = 256
_UNKNOWN = -1.0
# With more steps than this, those that no row has are forgotten before the next session.
_MOST_STEPS = 65_536


class _ByState:
    """Values of one rule by the number of the state, computed when they are first asked for."""

    __slots__ = ("_values", "states")

    def __init__(self, states: KernelStates) -> None:
        self.states = states
        self._values: Floats = np.full(64, _UNKNOWN)

    def of(self, rows: NDArray[np.intp], value: Callable[[int], float]) -> Floats:
        numbers = self.states.numbers(rows)
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


class RowLimits:
    """A limit by row, and scores by the number of tasks, in arrays that the kernel reads.

    The arrays are empty where no rule limits the class.
    """

    __slots__ = (
        *("_class", "_depth", "_known", "_limits", "_most"),
        *("_places", "_scores", "_starts_over", "_steps", "_used", "is_empty"),
    )

    def __init__(
        self, class_: TaskClass, table: NodeTable, chains: Chains, answers: ClassAnswers
    ) -> None:
        self._class = class_
        self._depth = _FIRST_DEPTH
        self._limits: list[_ByState] = []
        self._scores: _ByState | None = None
        # Where the steps begin, by their scores, and how much of the array is used.
        self._known: dict[tuple[float, ...], int] = {}
        self._used = 0
        self._starts_over = False
        self.reuse(chains, answers)
        rows, has_steps = len(table) if self._limits else 0, self._scores is not None
        self.is_empty = not rows
        self._most: Floats = np.zeros(rows)
        self._places: NDArray[np.int64] = np.zeros(rows if has_steps else 0, dtype=np.int64)
        self._steps: Floats = np.zeros(_FIRST_STEPS if has_steps else 0)

    def reuse(self, chains: Chains, answers: ClassAnswers) -> None:
        """A new session has states of its own."""
        self._limits = [_ByState(kept) for kept in limits_of(self._class, chains, answers)]
        steps = steps_of(self._class, chains, answers)
        self._scores = None if steps is None else _ByState(steps)
        self._starts_over = self._starts_over or self._used > _MOST_STEPS

    @property
    def arrays(self) -> Limits:
        return (self._most, self._places, self._steps)

    @property
    def holds(self) -> bool:
        """Whether there are rules exactly where there were some."""
        found = (bool(self._limits), self._scores is not None)
        return found == (bool(len(self._most)), bool(len(self._steps)))

    def fill(self, rows: NDArray[np.intp]) -> bool:
        """Fills in some rows; False: the kernel has to be given other arrays."""
        if not len(rows):
            return True
        if self._starts_over:
            self._starts_over, self._used = False, 0
            self._known.clear()
            rows = np.arange(len(self._most))
        # In place: the kernel's program reads the array.
        limits = [limit.of(rows, self._limit_by(limit.states)) for limit in self._limits]
        self._most[rows] = limits[0] if len(limits) == 1 else np.minimum.reduce(limits)
        if self._scores is None:
            return True
        before = self._steps
        self._places[rows] = self._scores.of(rows, self._place_by(self._scores.states))
        return self._steps is before

    def _limit_by(self, states: KernelStates) -> Callable[[int], float]:
        assert states.most is not None
        most = states.most
        return lambda number: float(most(self._class, number, self._depth))

    def _place_by(self, states: KernelStates) -> Callable[[int], float]:
        assert states.steps is not None
        steps = states.steps
        return lambda number: float(self._place_of(steps(self._class, number, self._depth)))

    def _place_of(self, scores: tuple[float, ...]) -> int:
        place = self._known.get(scores)
        if place is None:
            place = self._known[scores] = self._used
            self._used += len(scores)
            if self._used > len(self._steps):
                more = np.zeros(max(self._used, len(self._steps)))
                self._steps = np.concatenate((self._steps, more))
            self._steps[place : self._used] = scores
        return place

    def deepen(self, count: int, chains: Chains, answers: ClassAnswers) -> bool:
        """Counts so many tasks at least; the result is as for ``fill``."""
        if self.is_empty or count <= self._depth:
            return True
        self._depth = -(-count // _FIRST_DEPTH) * _FIRST_DEPTH
        self.reuse(chains, answers)
        return self.fill(np.arange(len(self._most)))
