"""Several kinds of shared devices at once: the cards of a node are those of all kinds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
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
            of_kinds=tuple(found),
        )

    def blocked(self, facet: Any, cards: NodeCards) -> frozenset[int]:
        found, start = set[int](), 0
        for kind, own, facet_ in zip(self._kinds, cards.of_kinds, self._each(facet), strict=True):
            if own is not None:
                blocked = () if facet_ is None else kind.blocked(facet_, own)
                found.update(start + index for index in blocked)
                start += len(own.names)
        return frozenset(found)

    def take(self, state: State, question: Question) -> Taken | None:
        (shapes, usage), (request, facet, blocked) = state, question
        requests, facets = self._each(request), self._each(facet)
        of_kinds: list[Taken | None] = []
        after, shares, score, stop = list(usage), list[tuple[Share, ...]](), 0.0, 0
        for kind, shape, asked, own in zip(self._kinds, shapes, requests, facets, strict=True):
            start, stop = stop, stop + (0 if shape is None else shape[1])
            taken = None
            if asked is not None:
                out = frozenset(index - start for index in blocked if start <= index < stop)
                if shape is not None:
                    taken = kind.take((shape[0], usage[start:stop]), (asked, own, out))
                if taken is None:
                    return None
                after[start:stop] = taken.usage
                shares += [
                    tuple(share._replace(card=start + share.card) for share in container)
                    for container in taken.shares
                ]
                score += taken.score
            of_kinds.append(taken)
        return Taken(tuple(shares), tuple(after), score, tuple(of_kinds))

    def annotations(self, task: Task, cards: NodeCards, taken: Taken, now_ns: int) -> Annotations:
        said: dict[str, str] = {}
        for kind, own, its in zip(self._kinds, cards.of_kinds, taken.of_kinds, strict=True):
            if own is not None and its is not None:
                said |= kind.annotations(task, own, its, now_ns)
        return said
