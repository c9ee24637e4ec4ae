"""GPU sharing by memory or by number; the cards of a node are numbered and have equal memory."""

from __future__ import annotations

from collections.abc import Iterable

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.pod import ContainerResources
from pumice.core.model.quantities import whole_units
from pumice.core.plugins.deviceshare.cards import (
    MOST_CARDS,
    Annotations,
    DeviceKind,
    NodeCards,
    Places,
    Question,
    Share,
    State,
    Taken,
    plain_int,
    plain_ints,
    with_shares,
)

MEMORY = "volcano.sh/gpu-memory"
NUMBER = "volcano.sh/gpu-number"
INDEX = "volcano.sh/gpu-index"
PREDICATE_TIME = "volcano.sh/predicate-time"
UNHEALTHY = "volcano.sh/gpu-unhealthy-ids"


class GpuShare(DeviceKind):
    """Shares a card by memory, or gives out whole cards by number.

    The shape of a node's cards is the memory of each, and their names are the numbers of the healthy
    ones.
    """

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
        """The sum of the limits of all containers, or the largest limit of an init container."""
        total = largest = 0
        for container in containers:
            limit = whole_units(dict(container.limits).get(self._resource, 0))
            if container.init:
                largest = max(largest, limit)
            else:
                total += limit
        return max(total, largest)

    def cards_of(self, entry: NodeEntry) -> tuple[int, tuple[str, ...]] | None:
        """None: the node does not report the memory and number of its cards."""
        node, capacity = entry.known_node, dict(entry.known_node.capacity)
        if MEMORY not in capacity or NUMBER not in capacity:
            return None
        count = whole_units(capacity[NUMBER])
        if not 0 < count <= MOST_CARDS:
            return None
        broken = {plain_int(text) for text in node.annotations.get(UNHEALTHY, "").split(",")}
        healthy = tuple(str(card) for card in range(count) if card not in broken)
        return whole_units(capacity[MEMORY]) // count, healthy

    def shares_of(self, task: Task, _memory: int, places: Places) -> list[Share]:
        demand = self._demand(task.class_.spec.containers)
        if not demand:
            return []
        numbers = sorted(set(plain_ints(task.annotations.get(INDEX, "")) or ()))
        memory = demand if self._by_memory else 0
        return [Share(places[str(n)], memory, 0) for n in numbers if str(n) in places]

    def take(self, state: State, question: Question) -> Taken | None:
        (card_memory, usage), (request, _, _) = state, question
        if self._by_memory:
            memory, count = request, 1
            fits = [i for i, used in enumerate(usage) if card_memory - used.memory >= memory]
        else:
            memory, count = 0, request
            # Volcano takes any idle cards; pumice takes the first ones.
            fits = [i for i, used in enumerate(usage) if not used.pods]
        if len(fits) < count:
            return None
        shares = tuple(Share(index, memory, 0) for index in fits[:count])
        return Taken((shares,), with_shares(usage, shares), 0.0)

    def annotations(self, task: Task, cards: NodeCards, taken: Taken, now_ns: int) -> Annotations:
        numbers = ",".join(cards.names[share.card] for share in taken.shares[0])
        return {INDEX: numbers, PREDICATE_TIME: str(now_ns)}
