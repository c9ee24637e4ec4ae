"""Ascend NPUs in HAMi's way: shares are templates of fixed sizes, or amounts of memory and cores."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.plugins.deviceshare.cards import (
    BINPACK,
    SPREAD,
    Annotations,
    Choice,
    DeviceKind,
    Indexes,
    NodeCards,
    Question,
    Share,
    State,
    Usage,
    fullness,
    named_cards,
)
from pumice.core.plugins.deviceshare.device_config import NpuType
from pumice.core.plugins.deviceshare.requests import (
    WHOLE,
    ContainerRequest,
    Requests,
    requests_of,
    shares_in,
    shares_text,
)

# Annotations of a pod and of a node about shared cores.
_MODE, _BY_CORES = "huawei.com/vnpu-mode", "hami-core"
_NODE_SHARES_CORES = "hami-vnpu-core"
_SECOND_NS = 1_000_000_000
# Cards of types with this prefix are chosen within one network, if all cards have a network.
_NETWORKED = "Ascend910"
_NETWORK_WEIGHT = 10


class Npu(NamedTuple):
    """One card: the maximum number of pods that share it, its memory and cores, and its network."""

    max_pods: int
    memory: int
    cores: int
    network: int | None


# Whether pods share the cores of the cards, and the cards.
_Shape = tuple[bool, tuple[Npu, ...]]


class HamiNpu(DeviceKind):
    """Shares NPUs of one type."""

    lock = "hami.io/mutex.lock"
    reason = "no ascend device available"
    has_scores = True
    has_facets = True

    def __init__(self, type_: NpuType, policy: str, *, shares_cores: bool) -> None:
        self.name = type_.common_word
        self._type, self._policy, self._shares_cores = type_, policy, shares_cores
        self._allocated = f"hami.io/{type_.common_word}-devices-allocated"

    def request_of(self, class_: TaskClass) -> Requests | None:
        return requests_of(class_, self._type.names)

    def facet_of(self, task: Task) -> bool | None:
        """Whether a pod shares cores; None: it gets parts of fixed sizes."""
        return task.pod.annotations.get(_MODE) == _BY_CORES or None

    def is_possible(self, request: Any, facet: Any) -> bool:
        return facet is not None or all(
            container.memory is None or self._memory(container, 0, by_cores=False) is not None
            for container in request
        )

    def cards_of(self, entry: NodeEntry) -> tuple[_Shape, tuple[str, ...]] | None:
        node = entry.known_node
        if not dict(node.allocatable).get(self._type.names.count):
            return None
        register = _read_register(node.annotations.get(f"hami.io/node-register-{self.name}", ""))
        if register is None:
            return None
        text = node.annotations.get(_NODE_SHARES_CORES)
        by_cores = self._shares_cores if text is None else text == "true"
        return (by_cores, register[0]), register[1]

    def shares_of(self, task: Task, _shape: _Shape, indexes: Indexes) -> list[Share]:
        found = shares_in(task.annotations.get(self._allocated, ""))
        return [Share(indexes[name], m, c) for name, _, m, c in found if name in indexes]

    def choose(self, state: State, question: Question) -> Choice | None:
        (shape, usage), (request, facet, _) = state, question
        allows_cores, cards = shape
        by_cores = facet is not None
        if by_cores and not allows_cores:
            return None
        score_of = [self._score(card, used) for card, used in zip(cards, usage, strict=True)]
        order = sorted(range(len(cards)), key=lambda i: (-score_of[i], i))
        after, shares, first = list(usage), [], []
        for container in request:
            memory = self._memory(container, cards[order[0]].memory, by_cores=by_cores)
            if memory is None:
                return None
            # A card serves only one container of a pod.
            free = (i for i in order if after[i] is usage[i])
            cores = container.cores
            fits = [i for i in free if _fits(cards[i], usage[i], memory, cores, by_cores)]
            if len(fits) < container.number:
                return None
            chosen = self._by_network(cards, fits)[: container.number]
            first += chosen[:1]
            shares.append(tuple(Share(i, memory, cores) for i in chosen))
            for share in shares[-1]:
                after[share.card] = usage[share.card].plus(share)
        score = sum((score_of[i] for i in first), 0.0) + self._network_score(cards, first)
        return Choice(tuple(shares), tuple(after), score)

    def _memory(self, container: ContainerRequest, card: int, *, by_cores: bool) -> int | None:
        """The memory that a container gets of each card; None: no part has this size."""
        memory = card if container.memory is None else container.memory
        if by_cores:
            return memory
        part = self._type.part_for(memory)
        # A container with several cards gets whole cards only.
        if part is None or (container.number > 1 and part[0] != self._type.memory_allocatable):
            return None
        return part[0]

    def _score(self, card: Npu, used: Usage) -> float:
        if self._policy == BINPACK:
            return fullness(used, card.memory)
        return 100.0 if self._policy == SPREAD and card.memory and not used.pods else 0.0

    def _by_network(self, cards: Sequence[Npu], fits: list[int]) -> list[int]:
        """The cards that fit, those of the network with the most such cards first."""
        if not self._is_networked(cards):
            return fits
        counts = Counter(cards[index].network or 0 for index in fits)
        networks = sorted(counts, key=lambda network: (-counts[network], network))
        return sorted(fits, key=lambda index: networks.index(cards[index].network or 0))

    def _is_networked(self, cards: Sequence[Npu]) -> bool:
        return self.name.startswith(_NETWORKED) and all(c.network is not None for c in cards)

    def _network_score(self, cards: Sequence[Npu], chosen: list[int]) -> float:
        networks = [cards[index].network for index in chosen]
        if not networks or not self._is_networked([cards[index] for index in chosen]):
            return 0.0
        most = max(networks.count(network) for network in networks)
        return float(most) / float(len(networks)) * _NETWORK_WEIGHT

    def annotations(self, task: Task, cards: NodeCards, choice: Choice, now_ns: int) -> Annotations:
        text = "".join(f"{part};" for part in shares_text(cards.names, choice, self.name))
        by_cores = self.facet_of(task) is not None
        parts = [
            self._part(cards.names[share.card], share, by_cores=by_cores)
            for container in choice.shares
            for share in container
        ]
        seconds = str(now_ns // _SECOND_NS)
        return {
            f"hami.io/{self.name}-devices-to-allocate": text,
            self._allocated: text,
            f"huawei.com/{self.name}": json.dumps(parts, separators=(",", ":")),
            "predicate-time": seconds,
            "hami.io/vgpu-node": task.node_name,
            "hami.io/vgpu-time": seconds,
            "hami.io/bind-phase": "allocating",
            "hami.io/bind-time": seconds,
        }

    def _part(self, name: str, share: Share, *, by_cores: bool) -> dict[str, str | int]:
        part = self._type.part_for(share.memory)
        known: dict[str, str | int] = {"memory": share.memory, "core": share.cores}
        if not by_cores:
            known = {"temp": "" if part is None else part[1]}
        return {"UUID": name, **{key: value for key, value in known.items() if value}}


def _fits(card: Npu, used: Usage, memory: int, cores: int, by_cores: bool) -> bool:
    total = WHOLE if by_cores else card.cores
    if used.pods >= card.max_pods or card.memory - used.memory < memory:
        return False
    if total - used.cores < cores or (total == cores == WHOLE and used.pods):
        return False
    # A card whose cores are all in use does not serve a pod without a request for cores.
    return not (total and used.cores == total and not cores)


@lru_cache(maxsize=16_384)
def _read_register(text: str) -> tuple[tuple[Npu, ...], tuple[str, ...]] | None:
    """The cards in an annotation and their names; None: the annotation is invalid."""
    try:
        return named_cards([(str(card["id"]), _card(card)) for card in json.loads(text)])
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return None


def _card(card: dict[str, Any]) -> Npu:
    network: Any = (card.get("custominfo") or {}).get("NetworkID")
    is_number = isinstance(network, int | float) and not isinstance(network, bool)
    count, memory, cores = (int(card.get(key) or 0) for key in ("count", "devmem", "devcore"))
    return Npu(count, memory, cores, int(network) if is_number else None)
