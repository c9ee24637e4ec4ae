"""Allocations of cards, computed once for nodes with equal cards and equal usage.

The cards of a node and their usage are a *state* with a number. The result for a request, and the
state after it, are cached by number, because the nodes of a cluster are mostly in few states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from pumice.core.cache.node_states import NodeStates, StateNumbers
from pumice.core.cache.nodes import Floats, NodeTable
from pumice.core.cache.tasks import TaskClass
from pumice.core.model.fit import Mask
from pumice.core.model.memo import Memo
from pumice.core.model.status import BINDING
from pumice.core.plugins.deviceshare.cards import State, Usage, with_shares
from pumice.core.plugins.deviceshare.kinds import (
    IGNORED,
    Blocked,
    CardsOfKinds,
    ChoiceOfKinds,
    DeviceKinds,
    QuestionOfKinds,
    StateOfKinds,
)
from pumice.core.session.feasibility.rows import NodeRows

LOCKED = "node has been locked within 5 minutes"
_LOCK_NS = 5 * 60 * 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The number of the state of nodes without cards.
NO_CARDS = 0

_Evaluated = tuple[Mask, Floats]


class CardStates(StateNumbers[StateOfKinds | None, QuestionOfKinds, ChoiceOfKinds | None]):
    """The states of all nodes in one session, and the results for them."""

    def __init__(
        self,
        kinds: DeviceKinds,
        states: NodeStates[CardsOfKinds | None],
        table: NodeTable,
        weight: float,
        locks: NodeLocks | None,
    ) -> None:
        self._kinds = kinds
        self._locks = locks
        self._weight = weight
        self._states = states
        super().__init__(table)
        assert self._number_of(None) == NO_CARDS
        # By state, request and count: the weighted scores of the first, second … pod that fits.
        self.steps = Memo(self._find_steps)
        # The last result, because the predicate and the score evaluate the same rows.
        self._last: tuple[NodeRows, Hashable, Hashable, _Evaluated] | None = None
        # By row and index of the kind: the usage of undone placements, which Volcano does not free
        # before the session ends.
        self.undone: dict[int, dict[int, tuple[Usage, ...]]] = {}

    def number(self, row: int, *, now: bool = False) -> int:
        """The state of a node; a locked node has no cards.

        With ``now``, pods that are being deleted still use their cards.
        """
        cards = self._states.of(row)
        if cards is None or (self._locks is not None and self._locks.is_locked(row)):
            return NO_CARDS
        state: list[State | None] = [
            None if own is None else (own.shape, own.all_usage if now else own.usage)
            for own in cards
        ]
        for index, undone in self.undone[row].items() if row in self.undone else ():
            own = state[index]
            if own is not None and len(undone) == len(own[1]):
                state[index] = (own[0], tuple(map(_sum, own[1], undone)))
        return self._number_of(tuple(state))

    def keep_undone(self, row: int, choice: ChoiceOfKinds) -> None:
        """Keeps the shares of an undone placement in use, for the kinds with ``keeps_undone``."""
        for index, (kind, own) in enumerate(zip(self._kinds.kinds, choice, strict=False)):
            if kind.keeps_undone and own is not None:
                undone = self.undone.setdefault(row, {})
                before = undone.get(index) or (Usage(),) * len(own.usage)
                undone[index] = with_shares(before, own.all_shares())
                self._table.touch(row)

    def blocked(self, facet: Hashable, row: int) -> Blocked | None:
        """The cards of a node that a pod with this facet cannot get."""
        cards = None if facet is None else self._states.of(row)
        return None if cards is None else self._kinds.blocked(facet, cards, self._table.rows[row])

    def _answer(
        self, state: StateOfKinds | None, question: QuestionOfKinds
    ) -> ChoiceOfKinds | None:
        """The shares that a pod gets; None: it does not fit."""
        if state is None:
            return None
        # The state of a node whose devices are ignored is empty.
        return self._kinds.choose(state, question) if state else ()

    def _next(self, number: int, answer: ChoiceOfKinds | None) -> int | None:
        state = self._values[number]
        if answer is None or state is None:
            return None
        # With locks, a node takes one pod at a time.
        if self._locks is not None:
            return NO_CARDS
        return self._number_of(
            tuple(
                own if its is None or own is None else (own[0], its.usage)
                for own, its in zip(state, answer, strict=True)
            )
        )

    def _weighted(self, choice: ChoiceOfKinds | None) -> float:
        if choice is None:
            return 0.0
        score = sum((own.score for own in choice if own is not None), 0.0)
        return math.floor(score + 0.5) * self._weight

    def is_freed(self, row: int) -> bool:
        """Whether pods that are being deleted use cards of the node."""
        cards = self._states.of(row) or IGNORED
        return any(own is not None and own.all_usage != own.usage for own in cards)

    # Over rows.

    def evaluate(self, rows: NodeRows, request: tuple[Any, ...], facet: Any) -> _Evaluated:
        """The rows where a pod fits, and its weighted scores there."""
        last = self._last
        if last is not None and last[0] is rows and last[1:3] == (request, facet):
            return last[3]
        if facet is None:
            found = self._by_state(rows, (request, None, None))
        else:
            found = self._by_row(rows, request, facet)
        self._last = (rows, request, facet, found)
        return found

    def _by_state(self, rows: NodeRows, question: QuestionOfKinds) -> _Evaluated:
        numbers = self.numbers_ahead(rows.index, rows.ahead, question)
        distinct, where = np.unique(numbers, return_inverse=True)
        fits, scores = self._arrays([self.answers[n, question] for n in distinct.tolist()])
        return fits[where], scores[where]

    def _by_row(self, rows: NodeRows, request: tuple[Any, ...], facet: Any) -> _Evaluated:
        """The same for a pod with a facet, for which cards can be blocked on each node."""
        numbers = self._follow()
        where = range(len(self._table)) if rows.index is None else rows.index.tolist()
        ahead = [0] * len(where) if rows.ahead is None else rows.ahead.astype(np.intp).tolist()
        choices = []
        for row, count in zip(where, ahead, strict=True):
            question = (request, facet, self.blocked(facet, row))
            number = self._after(int(numbers[row]), question, count)
            choices.append(self.answers[number, question])
        return self._arrays(choices)

    def _arrays(self, choices: list[ChoiceOfKinds | None]) -> _Evaluated:
        fits = np.array([each is not None for each in choices], dtype=np.bool_)
        return fits, np.array([self._weighted(each) for each in choices], dtype=np.float64)

    def _find_steps(self, key: tuple[int, tuple[Any, ...], int]) -> tuple[float, ...]:
        number, request, count = key
        question = (request, None, None)
        scores: list[float] = []
        while len(scores) < count and (after := self._nexts[number, question]) is not None:
            scores.append(self._weighted(self.answers[number, question]))
            number = after
        return tuple(scores)


def _sum(one: Usage, other: Usage) -> Usage:
    parts = tuple(sorted((*one.parts, *other.parts)))
    return Usage(one.pods + other.pods, one.memory + other.memory, one.cores + other.cores, parts)


class NodeLocks:
    """The nodes that are locked in a session: by their annotation, or by a pod that is being bound.

    The device plugin of a node serves one pod at a time. A lock is an annotation of the node with a
    time. The adapter sets it before it binds a pod, and the device plugin removes it when the pod
    has its cards. A lock expires after five minutes.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        table: NodeTable,
        now_ns: int,
        concerns: Callable[[TaskClass], bool],
    ) -> None:
        self._names = names
        self._table, self._now_ns, self._concerns = table, now_ns, concerns
        # By row, the uid of the pod that this session placed there.
        self._reserved: dict[int, str] = {}
        # The end of the annotation's lock, by row.
        self.ends: dict[int, int] = {}

    def is_locked(self, row: int) -> bool:
        if row in self._reserved:
            return True
        entry = self._table.rows[row]
        for text in filter(None, map(entry.known_node.annotations.get, self._names)):
            end = _end_ns(text)
            if end is None or end > self._now_ns:
                self.ends[row] = self._now_ns + _LOCK_NS if end is None else end
                return True
        return any(
            task.status is BINDING and self._concerns(task.class_) for task in entry.tasks.values()
        )

    def reserve(self, row: int, pod_uid: str) -> None:
        self._reserved[row] = pod_uid

    def unreserve(self, row: int, pod_uid: str) -> None:
        if self._reserved.get(row) == pod_uid:
            del self._reserved[row]


def _end_ns(text: str) -> int | None:
    """The end of a lock; None: the time is invalid, and as in Volcano the lock does not expire."""
    try:
        since = datetime.fromisoformat(text)
    except ValueError:
        return None
    if since.tzinfo is None:
        return None
    microseconds = (since - _EPOCH) // timedelta(microseconds=1)
    return microseconds * 1_000 + _LOCK_NS
