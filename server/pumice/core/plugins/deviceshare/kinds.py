"""All kinds of devices that are switched on, with the methods of one kind.

Values of nodes and pods are tuples with an entry for each kind; the entry is None where a node has no
cards of the kind, or a pod requests none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.plugins.deviceshare.cards import (
    NO_CARD,
    Annotations,
    Choice,
    DeviceKind,
    NodeCards,
    State,
)

CardsOfKinds = tuple[NodeCards | None, ...]
StateOfKinds = tuple[State | None, ...]
ChoiceOfKinds = tuple[Choice | None, ...]
Blocked = tuple[frozenset[int], ...]
# The requests and facets of a pod, and the cards that it cannot get; None: no facets, or no such cards.
QuestionOfKinds = tuple[tuple[Any, ...], tuple[Any, ...] | None, Blocked | None]
# The cards of a node whose devices are ignored: pods are placed there as if they requested none.
IGNORED: CardsOfKinds = ()


class DeviceKinds:
    """Reads nodes and pods for every kind; a pod fits where each kind can serve its request."""

    def __init__(self, kinds: Sequence[DeviceKind]) -> None:
        self.kinds = kinds
        self._nothing = [None] * len(kinds)
        self.has_scores = any(kind.has_scores for kind in kinds)
        self.has_facets = any(kind.has_facets for kind in kinds)

    def first_requested(self, request: Any) -> DeviceKind:
        """The first kind that a pod requests."""
        return next(kind for kind, own in zip(self.kinds, request, strict=True) if own is not None)

    def request_of(self, class_: TaskClass) -> tuple[Any, ...] | None:
        """The requests of the pods of a class; None: they request no device."""
        found = [kind.request_of(class_) for kind in self.kinds]
        return None if found == self._nothing else tuple(found)

    def facet_of(self, task: Task) -> tuple[Any, ...] | None:
        found = [kind.facet_of(task) for kind in self.kinds]
        return None if found == self._nothing else tuple(found)

    def is_possible(self, request: Any, facet: Any) -> bool:
        """Whether idle cards could serve the request."""
        each = zip(self.kinds, request, facet or self._nothing, strict=True)
        return all(own is None or kind.is_possible(own, its_facet) for kind, own, its_facet in each)

    def read(self, entry: NodeEntry) -> CardsOfKinds | None:
        found = [kind.read(entry) for kind in self.kinds]
        return None if found == self._nothing else tuple(found)

    def blocked(self, facet: Any, cards: CardsOfKinds, entry: NodeEntry) -> Blocked | None:
        return tuple(
            NO_CARD if own is None or its_facet is None else kind.blocked(its_facet, own, entry)
            for kind, own, its_facet in zip(self.kinds, cards, facet, strict=False)
        )

    def choose(self, state: StateOfKinds, question: QuestionOfKinds) -> ChoiceOfKinds | None:
        """The shares that a pod would get of each kind; None: it does not fit."""
        requests, facets, blocked = question
        found: list[Choice | None] = []
        for index, (kind, request) in enumerate(zip(self.kinds, requests, strict=True)):
            own, choice = state[index], None
            if request is not None:
                facet = None if facets is None else facets[index]
                cards = NO_CARD if blocked is None else blocked[index]
                choice = None if own is None else kind.choose(own, (request, facet, cards))
                if choice is None:
                    return None
            found.append(choice)
        return tuple(found)

    def with_pod(self, cards: CardsOfKinds, choice: ChoiceOfKinds) -> CardsOfKinds:
        """The cards of a node with a further pod on them."""
        each = zip(cards, choice, strict=True)
        return tuple([own if own is None or its is None else own.plus(its) for own, its in each])

    def annotations(
        self, task: Task, cards: CardsOfKinds, choice: ChoiceOfKinds, now_ns: int
    ) -> Annotations:
        annotations: dict[str, str] = {}
        for kind, own, its in zip(self.kinds, cards, choice, strict=True):
            if own is not None and its is not None:
                annotations |= kind.annotations(task, own, its, now_ns)
        return annotations
