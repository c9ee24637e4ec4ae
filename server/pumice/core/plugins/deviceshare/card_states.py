"""What fits on which cards, computed once for equal cards in equal use.

Cards and their use are a *state* with a number. Whether a request fits in a state, and in which
state that leaves the node, is remembered by number; most nodes of a cluster are in few states.
"""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.node_states import NodeStates, StateNumbers
from pumice.core.cache.nodes import Floats, NodeTable
from pumice.core.model.fit import Mask
from pumice.core.plugins.deviceshare.cards import (
    IGNORED,
    DeviceKind,
    NodeCards,
    Question,
    State,
    Taken,
    Usage,
)
from pumice.core.plugins.deviceshare.locks import NodeLocks
from pumice.core.session.feasibility.rows import NodeRows

_NONE: frozenset[int] = frozenset()
# Number of the state of nodes without cards.
NO_CARDS = 0
_NOTHING = Taken((), (), 0.0)
_UNKNOWN, _FITS, _REFUSED = 0, 1, 2
_FIRST_SIZE = 64

_Evaluated = tuple[Mask, Floats]


class _Answers:
    """The answers to one question, by number of the state."""

    __slots__ = ("chains", "fits", "nexts", "scores", "steps")

    def __init__(self) -> None:
        self.fits: NDArray[np.int8] = np.zeros(_FIRST_SIZE, dtype=np.int8)
        self.scores: Floats = np.zeros(_FIRST_SIZE)
        # The states after one, two … more pods, by the state that it begins with.
        self.chains: dict[int, list[int]] = {}
        # By state: the score of one more pod, and the state then.
        self.nexts: dict[int, tuple[float, int | None]] = {}
        # By state: up to how many pods was counted, and the scores as far as they fit.
        self.steps: dict[int, tuple[int, tuple[float, ...]]] = {}

    def grow(self, size: int) -> None:
        if size > len(self.fits):
            more = max(size, 2 * len(self.fits)) - len(self.fits)
            self.fits = np.concatenate((self.fits, np.zeros(more, dtype=np.int8)))
            self.scores = np.concatenate((self.scores, np.zeros(more)))


class CardStates(StateNumbers[State | None]):
    """The states of all nodes in one session, and the answers of a device kind about them."""

    def __init__(
        self,
        kind: DeviceKind,
        states: NodeStates[NodeCards | None],
        table: NodeTable,
        weight: float,
        locks: NodeLocks | None,
    ) -> None:
        self._kind = kind
        self._locks = locks
        self._weight = weight
        self._states = states
        super().__init__(table)
        assert self._number_of(None) == NO_CARDS
        self._taken: dict[tuple[int, Question], Taken | None] = {}
        self._answers: dict[Question, _Answers] = {}
        # The last rows that were asked about: predicate and score ask about the same ones.
        self._last: tuple[NodeRows, Hashable, Hashable, _Evaluated] | None = None
        # By row: use that Volcano does not give back before the session ends.
        self.kept: dict[int, tuple[Usage, ...]] = {}

    def cards(self, row: int) -> NodeCards | None:
        return self._states.of(row)

    def number(self, row: int) -> int:
        """The state of a node as it is now; one that is locked takes nothing."""
        cards = self._states.of(row)
        if cards is None or (self._locks is not None and self._locks.holds(row)):
            return NO_CARDS
        return self._number_with_kept(row, cards.shape, cards.usage)

    def _number_with_kept(self, row: int, shape: Hashable, usage: tuple[Usage, ...]) -> int:
        """The state of a node in this use, and with the use that ends with the session."""
        kept = self.kept.get(row)
        if kept is not None and len(kept) == len(usage):
            usage = tuple(map(add_usage, usage, kept))
        return self._number_of((shape, usage))

    def blocked(self, facet: Hashable, row: int) -> frozenset[int]:
        cards = None if facet is None else self._states.of(row)
        return _NONE if cards is None else self._kind.blocked(facet, cards)

    def take(self, number: int, question: Question) -> Taken | None:
        """What a pod gets in a state."""
        key = (number, question)
        if key in self._taken:
            return self._taken[key]
        state = self._values[number]
        taken = None
        if state is not None:
            if state[0] is IGNORED.shape:
                return _NOTHING
            taken = self._kind.take(state, question)
        self._taken[key] = taken
        return taken

    def take_now(self, row: int, question: Question) -> Taken | None:
        """What a pod gets on a node at once, where pods that are being deleted keep theirs."""
        cards = self._states.of(row)
        if cards is None:
            return None
        if cards.all_usage is cards.usage or cards.all_usage == cards.usage:
            return self.take(self.number(row), question)
        if self._locks is not None and self._locks.holds(row):
            return None
        return self.take(self._number_with_kept(row, cards.shape, cards.all_usage), question)

    def place(self, row: int, cards: NodeCards | None) -> None:
        """Sets the cards of a node after a pod was placed on it."""
        self._states.update(row, cards)

    def is_freed(self, row: int) -> bool:
        """Whether pods that are being deleted use cards of the node."""
        cards = self._states.of(row)
        return cards is not None and cards.all_usage != cards.usage

    # Over rows.

    def evaluate(self, rows: NodeRows, request: Hashable, facet: Hashable) -> _Evaluated:
        """Where a pod fits, and the weighted scores there."""
        last = self._last
        if last is not None and last[0] is rows and last[1:3] == (request, facet):
            return last[3]
        found = self._evaluate(rows, request, facet)
        self._last = (rows, request, facet, found)
        return found

    def _evaluate(self, rows: NodeRows, request: Hashable, facet: Hashable) -> _Evaluated:
        if facet is not None:
            return self._one_by_one(rows, request, facet)
        question = (request, None, _NONE)
        answers = self._answers_to(question)
        numbers = self._numbers_ahead(
            rows.index,
            rows.ahead,
            lambda number, count: self._after(answers, question, number, count),
        )
        answers.grow(len(self._values))
        self._answer(answers, question, numbers)
        return answers.fits[numbers] == _FITS, self._weighted(answers.scores[numbers])

    def _weighted(self, scores: Floats) -> Floats:
        return np.floor(scores + 0.5) * self._weight

    def _answer(self, answers: _Answers, question: Question, numbers: NDArray[np.intp]) -> None:
        """Fills in the answers for states that were not asked about before."""
        unknown = numbers[answers.fits[numbers] == _UNKNOWN]
        for number in np.unique(unknown).tolist():
            taken = self.take(number, question)
            answers.fits[number] = _REFUSED if taken is None else _FITS
            answers.scores[number] = 0.0 if taken is None else taken.score

    def _after(self, answers: _Answers, question: Question, number: int, count: int) -> int:
        """The state after so many more pods; that of no cards where they do not fit."""
        chain = answers.chains.setdefault(number, [number])
        while len(chain) <= count:
            after = self._next(answers, question, chain[-1])[1]
            chain.append(NO_CARDS if after is None else after)
        return chain[count]

    # For the kernel.

    def steps(self, number: int, request: Hashable, count: int) -> tuple[float, ...]:
        """Weighted scores with no, one, two … more pods, as far as the state takes them."""
        question = (request, None, _NONE)
        answers = self._answers_to(question)
        known = answers.steps.get(number)
        if known is None or known[0] < count:
            scores: list[float] = []
            after: int | None = number
            while len(scores) < count and after is not None:
                score, after = self._next(answers, question, after)
                if after is not None:
                    scores.append(score)
            known = answers.steps[number] = (count, tuple(scores))
        return known[1][:count]

    def _next(self, answers: _Answers, question: Question, number: int) -> tuple[float, int | None]:
        """The weighted score of a pod, and the state after it; None: it does not fit."""
        found = answers.nexts.get(number)
        if found is None:
            taken, state = self.take(number, question), self._values[number]
            if taken is None or state is None:
                found = (0.0, None)
            else:
                score = math.floor(taken.score + 0.5) * self._weight
                # With locks, a node takes one pod at a time.
                is_locked = self._locks is not None
                after = NO_CARDS if is_locked else self._number_of((state[0], taken.usage))
                found = (score, after)
            answers.nexts[number] = found
        return found

    def _answers_to(self, question: Question) -> _Answers:
        answers = self._answers.get(question)
        if answers is None:
            answers = self._answers[question] = _Answers()
        return answers

    def _one_by_one(
        self, rows: NodeRows, request: Hashable, facet: Hashable
    ) -> tuple[Mask, Floats]:
        """The same where each node has cards that are out of the question."""
        numbers = self._follow()
        where = range(len(self._table)) if rows.index is None else rows.index.tolist()
        ahead = [0] * len(where) if rows.ahead is None else rows.ahead.astype(np.intp).tolist()
        fits: Mask = np.zeros(len(where), dtype=np.bool_)
        scores: Floats = np.zeros(len(where))
        for place, (row, count) in enumerate(zip(where, ahead, strict=True)):
            question = (request, facet, self.blocked(facet, row))
            answers = self._answers_to(question)
            number = self._after(answers, question, int(numbers[row]), count)
            taken = self.take(number, question)
            if taken is not None:
                fits[place], scores[place] = True, taken.score
        return fits, self._weighted(scores)


def add_usage(one: Usage, other: Usage) -> Usage:
    parts = tuple(sorted((*one.parts, *other.parts)))
    return Usage(one.pods + other.pods, one.memory + other.memory, one.cores + other.cores, parts)
