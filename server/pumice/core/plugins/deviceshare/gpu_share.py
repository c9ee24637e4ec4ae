"""GPU sharing by memory or by number; the cards of a node are numbered and have equal memory."""

from __future__ import annotations

from collections.abc import Iterable

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.pod import ContainerResources
from pumice.core.model.quantities import whole_units
from pumice.core.plugins.deviceshare.cards import (
    MAX_CARDS,
    Annotations,
    Choice,
    DeviceKind,
    Indexes,
    NodeCards,
    Question,
    Share,
    State,
    parse_uint32,
    parse_uint32s,
    with_shares,
)

MEMORY = "volcano.sh/gpu-memory"
NUMBER = "volcano.sh/gpu-number"
INDEX = "volcano.sh/gpu-index"
PREDICATE_TIME = "volcano.sh/predicate-time"
UNHEALTHY = "volcano.sh/gpu-unhealthy-ids"


class GpuShare(DeviceKind):
    """Shares a card by memory, or allocates whole cards by number.

    The shape of a node's cards is the memory of each card, and their names are the numbers of the
    healthy cards.
    """

    name = "GpuShare"
    lock = "gpu"

    def __init__(self, *, by_memory: bool) -> None:
        self._by_memory = by_memory
        self._resource = MEMORY if by_memory else NUMBER
        short = "GpuShare no enough gpu memory" if by_memory else "GpuNumber no enough gpu number"
        self.reason = f"{short} on node"

    def request_of(self, class_: TaskClass) -> int | None:
        return self._request(class_.spec.containers) or None

    def _request(self, containers: Iterable[ContainerResources]) -> int:
        """The sum of the limits of all containers, or the largest limit of an init container if larger."""
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
        if not 0 < count <= MAX_CARDS:
            return None
        unhealthy = {parse_uint32(text) for text in node.annotations.get(UNHEALTHY, "").split(",")}
        healthy = tuple(str(card) for card in range(count) if card not in unhealthy)
        return whole_units(capacity[MEMORY]) // count, healthy

    def shares_of(self, task: Task, _memory: int, indexes: Indexes) -> list[Share]:
        request = self._request(task.class_.spec.containers)
        if not request:
            return []
        numbers = sorted(set(parse_uint32s(task.annotations.get(INDEX, "")) or ()))
        memory = request if self._by_memory else 0
        return [Share(indexes[str(n)], memory, 0) for n in numbers if str(n) in indexes]

    def choose(self, state: State, question: Question) -> Choice | None:
        (card_memory, usage), (request, _, _) = state, question
        if self._by_memory:
            memory, count = request, 1
            fits = [i for i, used in enumerate(usage) if card_memory - used.memory >= memory]
        else:
            memory, count = 0, request
            # Volcano chooses any idle cards; pumice chooses the first ones.
            fits = [i for i, used in enumerate(usage) if not used.pods]
        if len(fits) < count:
            return None
        shares = tuple(Share(index, memory, 0) for index in fits[:count])
        return Choice((shares,), with_shares(usage, shares), 0.0)

    def annotations(self, task: Task, cards: NodeCards, choice: Choice, now_ns: int) -> Annotations:
        numbers = ",".join(cards.names[share.card] for share in choice.shares[0])
        return {INDEX: numbers, PREDICATE_TIME: str(now_ns)}
