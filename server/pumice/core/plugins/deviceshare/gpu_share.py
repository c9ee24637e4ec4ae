"""GPU sharing by memory and by number: the cards of a node have numbers and equal memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.pod import ContainerResources
from pumice.core.plugins.deviceshare.cards import (
    NodeCards,
    Share,
    Taken,
    Usage,
    plain_int,
    stays,
    whole_units,
)

MEMORY = "volcano.sh/gpu-memory"
NUMBER = "volcano.sh/gpu-number"
INDEX = "volcano.sh/gpu-index"
PREDICATE_TIME = "volcano.sh/predicate-time"
UNHEALTHY = "volcano.sh/gpu-unhealthy-ids"
# No machine has more; a larger number in an annotation or capacity is a mistake.
MOST_CARDS = 1024


@dataclass(frozen=True, slots=True)
class _Shape:
    """Numbers of the healthy cards, and the memory of each."""

    cards: tuple[int, ...]
    memory: int


class GpuShare:
    """Shares a card by memory, or gives out whole cards by number."""

    name = "GpuShare"
    lock = "gpu"

    def __init__(self, *, by_memory: bool) -> None:
        self._by_memory = by_memory
        self._resource = MEMORY if by_memory else NUMBER
        what = "GpuShare no enough gpu memory" if by_memory else "GpuNumber no enough gpu number"
        self.reason = f"{what} on node"

    def request_of(self, class_: TaskClass) -> int | None:
        return self._demand(class_.spec.containers) or None

    def _demand(self, containers: Iterable[ContainerResources]) -> int:
        """The limits of all containers together, or of one init container if that is more."""
        total = largest = 0
        for container in containers:
            limit = whole_units(dict(container.limits).get(self._resource, 0))
            if container.init:
                largest = max(largest, limit)
            else:
                total += limit
        return max(total, largest)

    def facet_of(self, task: Task) -> Hashable:
        return None

    def blocked(self, facet: Hashable, cards: NodeCards) -> frozenset[int]:
        return frozenset()

    def read(self, entry: NodeEntry) -> NodeCards | None:
        shape = _read_shape(entry)
        if shape is None:
            return None
        places = {card: index for index, card in enumerate(shape.cards)}
        usage = [Usage()] * len(places)
        all_usage = list(usage)
        for task in entry.tasks.values():
            demand = self._demand(task.class_.spec.containers)
            if not demand:
                continue
            memory = demand if self._by_memory else 0
            for card in card_numbers(task.annotations.get(INDEX, "")):
                index = places.get(card)
                if index is not None:
                    _add(all_usage, index, memory)
                    if stays(task):
                        _add(usage, index, memory)
        names = tuple(str(card) for card in shape.cards)
        return NodeCards(shape, names, tuple(usage), tuple(all_usage))

    def take(
        self,
        shape: Hashable,
        usage: tuple[Usage, ...],
        request: Hashable,
        facet: Hashable,
        blocked: frozenset[int],
    ) -> Taken | None:
        assert isinstance(shape, _Shape)
        assert isinstance(request, int)
        if self._by_memory:
            memory, count = request, 1
            fits = [i for i, used in enumerate(usage) if shape.memory - used.memory >= memory]
        else:
            memory, count = 0, request
            # Volcano takes any idle cards; here it is the first ones.
            fits = [i for i, used in enumerate(usage) if not used.pods]
        if len(fits) < count:
            return None
        chosen, after = fits[:count], list(usage)
        for index in chosen:
            _add(after, index, memory)
        return Taken((tuple(Share(i, memory, 0) for i in chosen),), tuple(after), 0.0)

    def annotations(
        self, node: str, cards: NodeCards, taken: Taken, now_ns: int
    ) -> Mapping[str, str]:
        numbers = ",".join(cards.names[share.card] for share in taken.shares[0])
        return {INDEX: numbers, PREDICATE_TIME: str(now_ns)}


def _add(usage: list[Usage], index: int, memory: int) -> None:
    used = usage[index]
    usage[index] = used._replace(pods=used.pods + 1, memory=used.memory + memory)


def _read_shape(entry: NodeEntry) -> _Shape | None:
    """The cards of a node; None without memory or number of them."""
    if entry.node is None:
        return None
    capacity = dict(entry.node.capacity)
    if MEMORY not in capacity or NUMBER not in capacity:
        return None
    count = whole_units(capacity[NUMBER])
    if not 0 < count <= MOST_CARDS:
        return None
    broken = set()
    for text in entry.node.annotations.get(UNHEALTHY, "").split(","):
        number = plain_int(text)
        if number is not None:
            broken.add(number)
    healthy = tuple(card for card in range(count) if card not in broken)
    return _Shape(healthy, whole_units(capacity[MEMORY]) // count)


def card_numbers(text: str) -> list[int]:
    """The cards of a pod by its annotation, each once; none where one of them is no number."""
    if not text:
        return []
    numbers = [plain_int(part) for part in text.split(",")]
    if None in numbers:
        return []
    return sorted({number for number in numbers if number is not None})
