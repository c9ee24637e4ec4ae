"""Several kinds of shared devices at once: the cards of a node are those of all kinds."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.plugins.deviceshare.cards import (
    Annotations,
    DeviceKind,
    NodeCards,
    Question,
    Share,
    State,
    Taken,
)


class SeveralKinds(DeviceKind):
    """Kinds side by side. Requests, facets and shapes are tuples with a value of each kind."""

    has_scores = True
    has_facets = True

    def __init__(self, kinds: Sequence[DeviceKind]) -> None:
        self._kinds = kinds
        self.name, self.lock, self.reason = kinds[0].name, kinds[0].lock, kinds[0].reason

    def asked(self, request: Any) -> DeviceKind:
        return next(kind for kind, own in zip(self._kinds, request, strict=True) if own is not None)

    def request_of(self, class_: TaskClass) -> Hashable | None:
        found = tuple(kind.request_of(class_) for kind in self._kinds)
        return None if all(own is None for own in found) else found

    def facet_of(self, task: Task) -> Hashable:
        found = tuple(kind.facet_of(task) for kind in self._kinds)
        return None if all(own is None for own in found) else found

    def is_possible(self, request: Any, facet: Any) -> bool:
        each = zip(self._kinds, self._each(request), self._each(facet), strict=True)
        return all(own is None or kind.is_possible(own, its_facet) for kind, own, its_facet in each)

    def _each(self, value: Hashable) -> tuple[Hashable, ...]:
        return value if isinstance(value, tuple) else (None,) * len(self._kinds)

    def read(self, entry: NodeEntry) -> NodeCards | None:
        found = [kind.read(entry) for kind in self._kinds]
        known = [cards for cards in found if cards is not None]
        if not known:
            return None
        return NodeCards(
            tuple(None if cards is None else (cards.shape, len(cards.names)) for cards in found),
            tuple(name for cards in known for name in cards.names),
            tuple(used for cards in known for used in cards.usage),
            tuple(used for cards in known for used in cards.all_usage),
            tuple(
                tenants for cards in known for tenants in cards.tenants or ((),) * len(cards.names)
            ),
        )

    def _slices(self, shape: Any) -> Iterator[tuple[int, Hashable, slice]]:
        """Number of each kind that the node has, its shape, and the places of its cards."""
        start = 0
        for number, own in enumerate(shape):
            if own is not None:
                yield number, own[0], slice(start, start + own[1])
                start += own[1]

    def blocked(self, facet: Any, cards: NodeCards) -> frozenset[int]:
        facets, found = self._each(facet), set[int]()
        for number, shape, where in self._slices(cards.shape):
            if facets[number] is not None:
                own = self._kinds[number].blocked(facets[number], _part(cards, shape, where))
                found.update(where.start + index for index in own)
        return frozenset(found)

    def take(self, state: State, question: Question) -> Taken | None:
        (shape, usage), (request, facet, blocked) = state, question
        requests, facets = self._each(request), self._each(facet)
        of_kinds: list[Taken | None] = [None] * len(self._kinds)
        after, shares, score = list(usage), list[tuple[Share, ...]](), 0.0
        for number, own, where in self._slices(shape):
            if requests[number] is None:
                continue
            start, stop = where.start, where.stop
            out = frozenset(index - start for index in blocked if start <= index < stop)
            question = (requests[number], facets[number], out)
            taken = self._kinds[number].take((own, usage[where]), question)
            if taken is None:
                return None
            after[where], of_kinds[number] = taken.usage, taken
            shares += [
                tuple(share._replace(card=start + share.card) for share in container)
                for container in taken.shares
            ]
            score += taken.score
        if any(own is not None and of_kinds[n] is None for n, own in enumerate(requests)):
            return None
        return Taken(tuple(shares), tuple(after), score, tuple(of_kinds))

    def annotations(self, task: Task, cards: NodeCards, taken: Taken, now_ns: int) -> Annotations:
        said: dict[str, str] = {}
        for number, shape, where in self._slices(cards.shape):
            own = taken.of_kinds[number]
            if own is not None:
                part = _part(cards, shape, where)
                said |= self._kinds[number].annotations(task, part, own, now_ns)
        return said


def _part(cards: NodeCards, shape: Any, where: slice) -> NodeCards:
    """The cards of one kind."""
    return NodeCards(
        shape, cards.names[where], cards.usage[where], cards.all_usage[where], cards.tenants[where]
    )
