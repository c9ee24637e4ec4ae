"""Which requests fit on which cards, computed once for nodes with equal cards and equal usage.

The cards of a node and their usage are a *state* with a number. The result for a request, and the
state after it, are kept by number; most nodes of a cluster are in few states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from datetime import UTC, datetime, timedelta

import numpy as np

from pumice.core.cache.node_states import NodeStates, StateNumbers
from pumice.core.cache.nodes import Floats, NodeTable
from pumice.core.cache.tasks import TaskClass
from pumice.core.model.fit import Mask
from pumice.core.model.memo import Memo
from pumice.core.model.status import BINDING
from pumice.core.plugins.deviceshare.cards import (
    IGNORED,
    DeviceKind,
    NodeCards,
    Question,
    State,
    Taken,
    Usage,
)
from pumice.core.session.feasibility.rows import NodeRows

_NONE: frozenset[int] = frozenset()
LOCKED = "node has been locked within 5 minutes"
_LOCK_NS = 5 * 60 * 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The number of the state of nodes without cards.
NO_CARDS = 0
_NOTHING = Taken((), (), 0.0)

_Evaluated = tuple[Mask, Floats]


class CardStates(StateNumbers[State | None]):
    """The states of all nodes in one session, and the results of a device kind for them."""

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
        # By state and question: the shares that a pod gets; and its weighted score with the state
        # after it, or None where it does not fit.
        self.taken, self._nexts = Memo(self._take), Memo(self._next)
        # By state, request and count: the weighted scores of the first, second … pod, as far as they
        # fit.
        self.steps = Memo(self._find_steps)
        # The last result: the predicate and the score ask for the same rows.
        self._last: tuple[NodeRows, Hashable, Hashable, _Evaluated] | None = None
        # By row: usage that Volcano does not free before the session ends.
        self.kept: dict[int, tuple[Usage, ...]] = {}

    def number(self, row: int, *, now: bool = False) -> int:
        """The state of a node; a locked node has no cards.

        With ``now``, pods that are being deleted still use their cards.
        """
        cards = self._states.of(row)
        if cards is None or (self._locks is not None and self._locks.holds(row)):
            return NO_CARDS
        usage, kept = cards.all_usage if now else cards.usage, self.kept.get(row)
        if kept is not None and len(kept) == len(usage):
            usage = tuple(map(_sum, usage, kept))
        return self._number_of((cards.shape, usage))

    def blocked(self, facet: Hashable, row: int) -> frozenset[int]:
        cards = None if facet is None else self._states.of(row)
        return _NONE if cards is None else self._kind.blocked(facet, cards)

    def _take(self, key: tuple[int, Question]) -> Taken | None:
        number, question = key
        state = self._values[number]
        if state is None:
            return None
        return _NOTHING if state[0] is IGNORED.shape else self._kind.take(state, question)

    def _next(self, key: tuple[int, Question]) -> tuple[float, int] | None:
        taken, state = self.taken[key], self._values[key[0]]
        if taken is None or state is None:
            return None
        # With locks, a node serves one pod at a time.
        is_locked = self._locks is not None
        after = NO_CARDS if is_locked else self._number_of((state[0], taken.usage))
        return self._weighted(taken), after

    def _weighted(self, taken: Taken | None) -> float:
        return 0.0 if taken is None else math.floor(taken.score + 0.5) * self._weight

    def is_freed(self, row: int) -> bool:
        """Whether pods that are being deleted use cards of the node."""
        cards = self._states.of(row)
        return cards is not None and cards.all_usage != cards.usage

    # Over rows.

    def evaluate(self, rows: NodeRows, request: Hashable, facet: Hashable) -> _Evaluated:
        """The rows where a pod fits, and its weighted scores there."""
        last = self._last
        if last is not None and last[0] is rows and last[1:3] == (request, facet):
            return last[3]
        if facet is None:
            found = self._by_state(rows, (request, None, _NONE))
        else:
            found = self._by_row(rows, request, facet)
        self._last = (rows, request, facet, found)
        return found

    def _by_state(self, rows: NodeRows, question: Question) -> _Evaluated:
        numbers = self._numbers_ahead(
            rows.index, rows.ahead, lambda number, count: self._after(number, question, count)
        )
        distinct, where = np.unique(numbers, return_inverse=True)
        fits, scores = self._judge([self.taken[n, question] for n in distinct.tolist()])
        return fits[where], scores[where]

    def _by_row(self, rows: NodeRows, request: Hashable, facet: Hashable) -> _Evaluated:
        """The same where some cards of each node are blocked."""
        numbers = self._follow()
        where = range(len(self._table)) if rows.index is None else rows.index.tolist()
        ahead = [0] * len(where) if rows.ahead is None else rows.ahead.astype(np.intp).tolist()
        taken = []
        for row, count in zip(where, ahead, strict=True):
            question = (request, facet, self.blocked(facet, row))
            number = self._after(int(numbers[row]), question, count)
            taken.append(self.taken[number, question])
        return self._judge(taken)

    def _judge(self, taken: list[Taken | None]) -> _Evaluated:
        fits = np.array([each is not None for each in taken], dtype=np.bool_)
        return fits, np.array([self._weighted(each) for each in taken], dtype=np.float64)

    def _after(self, number: int, question: Question, count: int) -> int:
        """The state after ``count`` more pods; NO_CARDS where they do not fit."""
        for _ in range(count):
            found = self._nexts[number, question]
            number = NO_CARDS if found is None else found[1]
        return number

    def _find_steps(self, key: tuple[int, Hashable, int]) -> tuple[float, ...]:
        number, request, count = key
        question: Question = (request, None, _NONE)
        scores: list[float] = []
        while len(scores) < count and (found := self._nexts[number, question]) is not None:
            scores.append(found[0])
            number = found[1]
        return tuple(scores)


def _sum(one: Usage, other: Usage) -> Usage:
    parts = tuple(sorted((*one.parts, *other.parts)))
    return Usage(one.pods + other.pods, one.memory + other.memory, one.cores + other.cores, parts)


class NodeLocks:
    """The nodes that are locked in a session: by their annotation, or by a pod that is being bound.

    The device plugin of a node serves one pod at a time. A lock is an annotation of the node with a
    time. The adapter sets it before it binds a pod, and the device plugin removes it when the pod
    has its cards. A lock is void after five minutes.
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
        # The pod that this session placed there, by row.
        self._taken: dict[int, str] = {}
        # The end of the annotation's lock, by row.
        self.ends: dict[int, int] = {}

    def holds(self, row: int) -> bool:
        if row in self._taken:
            return True
        entry = self._table.rows[row]
        said = {} if entry.node is None else entry.node.annotations
        for text in filter(None, map(said.get, self._names)):
            end = _end_ns(text)
            if end is None or end > self._now_ns:
                self.ends[row] = self._now_ns + _LOCK_NS if end is None else end
                return True
        return any(
            task.status is BINDING and self._concerns(task.class_) for task in entry.tasks.values()
        )

    def reserve(self, row: int, pod_uid: str) -> None:
        self._taken[row] = pod_uid

    def unreserve(self, row: int, pod_uid: str) -> None:
        if self._taken.get(row) == pod_uid:
            del self._taken[row]


def _end_ns(text: str) -> int | None:
    """The end of a lock; None: the time cannot be read, and as in Volcano the lock holds."""
    try:
        since = datetime.fromisoformat(text)
    except ValueError:
        return None
    if since.tzinfo is None:
        return None
    microseconds = (since - _EPOCH) // timedelta(microseconds=1)
    return microseconds * 1_000 + _LOCK_NS
