"""A class's row functions as numbers for the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pumice.core import kernel
from pumice.core.cache.nodes import CPU_COLUMN, MEMORY_COLUMN, PODS_COLUMN, Floats, NodeTable
from pumice.core.cache.tasks import TaskClass
from pumice.core.model.fit import Mask
from pumice.core.session.feasibility.amounts import AmountScore
from pumice.core.session.feasibility.candidate_terms import CandidateTerm
from pumice.core.session.feasibility.class_answers import ClassAnswers
from pumice.core.session.feasibility.terms import (
    KERNEL_TERMS,
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

    __slots__ = ("_program",)

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
        weights = table.weights(class_)
        plan, numbers = _write(table, needs, terms)
        parts: Parts = (
            table.amounts,
            table.offered,
            *static,
            np.array(plan, dtype=np.int64),
            np.array(numbers, dtype=np.float64),
            weights.held + weights.kube,
            *limits,
        )
        self._program: Program = kernel.rows.program(parts, table.stamps, outputs)

    def evaluate(self, since: int) -> int:
        """Fills in the rows that changed since the table stood there; returns their number."""
        assert kernel.rows is not None
        count: int = kernel.rows.evaluate(self._program, since)
        return count

    def choose(
        self, within: Mask | None, count: int, terms: tuple[CandidateTerm, ...]
    ) -> tuple[list[int], int]:
        """The best rows for so many tasks one after the other, and how many rows were judged."""
        assert kernel.rows is not None
        parts = tuple([term.kernel_parts for term in terms])
        chosen: tuple[list[int], int] = kernel.rows.choose(self._program, within, count, parts)
        return chosen


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
