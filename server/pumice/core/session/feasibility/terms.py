"""The terms of row hooks that the kernel knows, and the program that the kernel runs from them.

NumPy can evaluate each term too, with the same result to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pumice.core import kernel
from pumice.core.cache.nodes import CPU_COLUMN, MEMORY_COLUMN, PODS_COLUMN, Floats, NodeTable
from pumice.core.cache.tasks import TaskClass
from pumice.core.model.fit import Mask, Refusal
from pumice.core.session.feasibility.candidate_terms import KernelParts
from pumice.core.session.feasibility.rows import NodeRows
from pumice.core.session.policies import KernelStates, RowTerms, StateRule

if TYPE_CHECKING:
    from pumice.core.kernel._rows import Parts, Program
    from pumice.core.session.feasibility.views import ClassAnswers
    from pumice.core.session.hooks import Chains


@dataclass(frozen=True, slots=True)
class PodLimit:
    """A row predicate: no more pods than the node allows; evictions can resolve it."""

    reason: str

    def evaluate(self, rows: NodeRows) -> tuple[Refusal, ...]:
        full = rows.allocatable[PODS_COLUMN] <= rows.kube_pods
        return (Refusal(self.reason, full, unresolvable=False),)


@dataclass(frozen=True, slots=True)
class Fullness:
    """A row score: how full the node would be, 0 where it would be more than full."""

    # Resource, what the class asks of it, and its weight.
    parts: tuple[tuple[str, float, float], ...]
    # The divisor of the weighted sum, which counts where it is above zero; and the factor of the result.
    divisor: float
    factor: float

    def evaluate(self, rows: NodeRows) -> Floats:
        parts = [(*part, False) for part in self.parts]
        return mean_use(rows, parts, self.divisor, self.factor)


def mean_use(
    rows: NodeRows, parts: Iterable[tuple[str, float, float, bool]], divisor: float, factor: float
) -> Floats:
    """The weighted mean of what would be in use of each resource, or of what would be free.

    Each part has the resource, what is asked of it, its weight, and whether the free part counts.
    The result is 0 where the node would be more than full.
    """
    total = np.zeros(len(rows))
    fits = np.ones(len(rows), dtype=np.bool_)
    # Pipelined tasks are not in use yet: such a node looks emptier than it will be.
    used, allocatable = rows.used, rows.allocatable
    for name, asked, weight, by_free in parts:
        column = rows.column(name)
        if not weight or column is None:
            continue
        capacity = allocatable[column]
        exists = capacity != 0
        then = used[column] + asked
        fits &= ~exists | (then <= capacity)
        counted = capacity - then if by_free else then
        total = total + np.divide(counted * weight, capacity, out=np.zeros(len(rows)), where=exists)
    if divisor > 0:
        total = total / divisor
    return np.where(fits, total * factor, 0.0)


_FULL = 100.0
# Up to here amount * 100 is a whole number in floats, and the floor of a quotient is exact.
_EXACT_BELOW = 2.0**46


@dataclass(frozen=True, slots=True)
class AmountScore:
    """A batch row score: least, most and balanced allocation over Kubernetes' view of the nodes.

    A node counts those of cpu, memory and cards that it has.
    """

    least: float
    most: float
    balanced: float
    # What the class asks for, by the defaults for scores and as it is.
    non_zero_milli_cpu: float
    non_zero_memory: float
    milli_cpu: float
    memory: float
    # A third resource that counts for balance; empty: none.
    card: str = ""
    cards: float = 0.0

    @property
    def has_balance(self) -> bool:
        """Whether the class asks for something that could be out of balance."""
        return bool(self.balanced) and (self.milli_cpu > 0 or self.memory > 0 or self.cards > 0)

    def evaluate(self, rows: NodeRows) -> Floats:
        capacity = rows.kube_allocatable[:2]
        # Floats have all that is computed here exactly, for nodes with cpu and memory.
        is_usual = bool(((capacity > 0) & (capacity < _EXACT_BELOW)).all())
        total: Floats = np.zeros(len(rows))
        if self.least or self.most:
            free = capacity - rows.kube_non_zero
            free -= np.array([[self.non_zero_milli_cpu], [self.non_zero_memory]])
            if self.least:
                total += self.least * _mean(np.maximum(free, 0.0), capacity, is_usual=is_usual)
            if self.most:
                used = np.minimum(capacity - free, capacity)
                total += self.most * _mean(used, capacity, is_usual=is_usual)
        if self.has_balance:
            total += self.balanced * self._balance(rows, is_usual=is_usual)
        return total

    def _balance(self, rows: NodeRows, *, is_usual: bool) -> Floats:
        column = rows.column(self.card) if self.card else None
        used, capacity = rows.kube_requested[:2], rows.kube_allocatable[:2]
        asked, evenness = [[self.milli_cpu], [self.memory]], _evenness
        if column is not None:
            columns = [0, 1, column]
            used, capacity = rows.kube_requested[columns], rows.kube_allocatable[columns]
            asked.append([self.cards])
        elif is_usual:
            evenness = _evenness_of_two
        with_task, without = evenness(used + np.array(asked), capacity), evenness(used, capacity)
        return 50.0 + np.trunc((50.0 + with_task - without) / 2)


def _mean(amount: Floats, capacity: Floats, *, is_usual: bool) -> Floats:
    """What percentage of its capacity each amount is, and their mean; truncated each time."""
    if not is_usual:
        return _careful_mean(amount, capacity)
    amount *= _FULL
    amount /= capacity
    np.floor(amount, out=amount)
    mean: Floats = np.floor((amount[0] + amount[1]) * 0.5)
    return mean


def _careful_mean(amount: Floats, capacity: Floats) -> Floats:
    """The same for nodes without cpu or memory, which count what they have, and huge ones."""
    known = capacity > 0
    parts = amount.astype(np.int64) * 100 // np.where(known, capacity, 1).astype(np.int64)
    parts[~known] = 0
    count = np.maximum(known[0].astype(np.int64) + known[1], 1)
    mean: Floats = ((parts[0] + parts[1]) // count).astype(np.float64)
    return mean


def _evenness_of_two(used: Floats, capacity: Floats) -> Floats:
    """Fractions of two dimensions deviate from their mean by half their difference."""
    fractions = np.minimum(used / capacity, 1.0)
    evenness: Floats = np.floor((1.0 - np.abs(fractions[0] - fractions[1]) * 0.5) * _FULL)
    return evenness


def _evenness(used: Floats, capacity: Floats) -> Floats:
    """The same for any number of dimensions, which a node may lack."""
    known = capacity > 0
    fractions = np.divide(used, capacity, out=np.zeros_like(used), where=known)
    np.minimum(fractions, 1.0, out=fractions)
    count = known.sum(axis=0)
    deviation = np.zeros(used.shape[1])
    # Two dimensions have a formula of their own, whichever two they are.
    for left, right in combinations(range(len(used)), 2):
        these = (count == 2) & known[left] & known[right]
        deviation = np.where(these, np.abs((fractions[left] - fractions[right]) / 2), deviation)
    if len(used) > 2:
        total, squares = fractions[0], np.zeros(used.shape[1])
        for fraction in fractions[1:]:
            total = total + fraction
        mean = total / len(used)
        for fraction in fractions:
            squares = squares + (fraction - mean) * (fraction - mean)
        deviation = np.where(count == len(used), np.sqrt(squares / len(used)), deviation)
    return np.trunc((1.0 - deviation) * _FULL)


KernelTerm = PodLimit | Fullness | AmountScore
# Where each may stand, and so how the kernel adds it up.
KERNEL_TERMS: dict[str, type[KernelTerm]] = {
    "row_predicate": PodLimit,
    "row_score": Fullness,
    "row_batch_score": AmountScore,
}

# The parts of the node table's amounts and offers, in the order of their rows.
_IDLE, _USED, _RELEASING, _FUTURE, _KUBE_USED, _KUBE_COUNTED = range(6)
_ALLOCATABLE, _KUBE_ALLOCATABLE = range(2)
_NONE = -1
# Limits and places by row, and the scores that the places point to; empty where nothing limits a class.
Limits = tuple[Floats, NDArray[np.int64], Floats]
NO_LIMITS: Limits = (np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0))
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
