"""vGPU: shares of memory and cores of cards that a node registers in an annotation.

Annotations and labels of a pod select the cards that it may get.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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
    indexes_of,
)
from pumice.core.plugins.deviceshare.device_config import DEFAULT_DEVICES, DeviceConfig
from pumice.core.plugins.deviceshare.registers import (
    MIG,
    Card,
    free_instance,
    memory_of,
    read_register,
)
from pumice.core.plugins.deviceshare.requests import (
    WHOLE,
    ContainerRequest,
    Requests,
    requests_of,
    shares_in,
    shares_text,
)

IDS = "volcano.sh/vgpu-ids-new"
_TYPE = "NVIDIA"
_SECOND_NS = 1_000_000_000

Rules = Sequence[Mapping[str, str]]
_MODE = "volcano.sh/vgpu-mode"
_USE_TYPE = "nvidia.com/use-gputype"
_NO_TYPE = "nvidia.com/nouse-gputype"
_USE_NAME = "volcano.sh/vgpu-use-gpuuuid"
_NO_NAME = "volcano.sh/vgpu-nouse-gpuuuid"
_GROUP_POLICY = "volcano.sh/vgpu-podgroup-policy"
_GROUPS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_KEYS = frozenset((_MODE, _USE_TYPE, _NO_TYPE, _USE_NAME, _NO_NAME, _GROUP_POLICY))


class VGpu(DeviceKind):
    """Shares cards by memory and cores; the policy determines which cards are used first."""

    name = "hamivgpu"
    lock = "hamivgpu"
    reason = "hami-vgpuDeviceSharing error"
    has_scores = True
    has_facets = True
    # Volcano frees the shares that are in the pod's annotations, and a pod that is not bound has none.
    keeps_undone = True

    def __init__(self, policy: str, rules: Rules, config: DeviceConfig) -> None:
        self._policy, self._rules, self._config = policy, rules, config

    def request_of(self, class_: TaskClass) -> Requests | None:
        return requests_of(class_, self._config.vgpu)

    def facet_of(self, task: Task) -> CardSelector | None:
        """The card selector of a pod; None: the pod may get any card."""
        given, rules = task.pod.annotations, self._rules
        if not rules and given.keys().isdisjoint(_KEYS):
            return None
        group, matched = groups_of(task, rules) if rules or _GROUP_POLICY in given else ("", ())
        selector = CardSelector(
            mode=given.get(_MODE),
            use_types=_words(given, _USE_TYPE),
            no_types=_words(given, _NO_TYPE),
            use_names=_names(given.get(_USE_NAME, "")),
            no_names=_names(given.get(_NO_NAME, "")),
            apart_from=group if given.get(_GROUP_POLICY) == SPREAD else "",
            rules=matched,
        )
        return None if selector == _NONE else selector

    def cards_of(self, entry: NodeEntry) -> tuple[tuple[Card, ...], tuple[str, ...]] | None:
        node, names = entry.known_node, DEFAULT_DEVICES.vgpu
        offered = dict(node.allocatable)
        # As in Volcano, the built-in names are used here, even if the configuration has others.
        if not all(offered.get(name) for name in (names.count, names.cores, names.memory)):
            return None
        text = node.annotations.get("volcano.sh/node-vgpu-register", "")
        return read_register(text, self._config)

    def shares_of(self, task: Task, cards: Sequence[Card], indexes: Indexes) -> Iterable[Share]:
        for name, part, memory, cores in shares_in(task.annotations.get(IDS, "")):
            index = indexes.get(name)
            if index is None:
                continue
            if not part or cards[index].mode != MIG:
                yield Share(index, memory, cores)
                continue
            size = memory_of(cards[index].geometries, part)
            part_memory = memory if size is None else size // self._config.memory_factor
            yield Share(index, memory, cores, part, part_memory)

    def blocked(self, facet: CardSelector, cards: NodeCards, entry: NodeEntry) -> frozenset[int]:
        found = {index for index, name in enumerate(cards.names) if not facet.allows_name(name)}
        # Exclusive rules do not apply to cards in MIG mode.
        rules = set(facet.rules) if cards.shape[-1].mode != MIG else set()
        if facet.apart_from or rules:
            indexes = indexes_of(cards.names)
            for task in entry.tasks.values():
                group, matched = groups_of(task, self._rules)
                is_excluded = not rules.isdisjoint(matched)
                if is_excluded or (group and group == facet.apart_from):
                    found.update(
                        share.card
                        for share in self.shares_of(task, cards.shape, indexes)
                        if is_excluded or share.memory or share.cores
                    )
        return frozenset(found)

    def choose(self, state: State, question: Question) -> Choice | None:
        (shape, usage), (request, facet, blocked) = state, question
        cards: tuple[Card, ...] = shape
        selector: CardSelector | None = facet
        if selector is not None and selector.mode not in (None, cards[-1].mode):
            return None
        after, shares, score = list(usage), [], 0.0
        for container in request:
            chosen: list[Share] = []
            for index in self._order(after) if container.number else ():
                card = cards[index]
                if index in blocked or (selector is not None and not selector.allows_type(card)):
                    continue
                share = self._share_of(card, after[index], container, index)
                if share is None:
                    continue
                after[index] = after[index].plus(share)
                chosen.append(share)
                score += self._score(card, after[index])
                if len(chosen) == container.number:
                    break
            if len(chosen) < container.number:
                return None
            shares.append(tuple(chosen))
        return Choice(tuple(shares), tuple(after), score)

    def _order(self, usage: Sequence[Usage]) -> Iterable[int]:
        """The cards in the order in which they are tried."""
        if self._policy == BINPACK:
            return sorted(range(len(usage)), key=lambda i: (-usage[i].memory, i))
        if self._policy == SPREAD:
            return sorted(range(len(usage)), key=lambda i: (usage[i].pods, i))
        return range(len(usage) - 1, -1, -1)

    def _score(self, card: Card, used: Usage) -> float:
        # With spread, Volcano scores unused cards, but only after it has counted the pod on the card.
        return fullness(used, card.memory) if self._policy == BINPACK else 0.0

    def _share_of(
        self, card: Card, used: Usage, container: ContainerRequest, index: int
    ) -> Share | None:
        """The share of a card that a container would get; None: it does not fit."""
        memory, cores = container.memory, container.cores
        if memory is None:
            memory = int(float(card.memory) * float(container.percentage) / 100.0)
        if used.pods >= card.max_pods or card.memory - used.memory < memory:
            return None
        if used.cores + cores > WHOLE or (cores == WHOLE and used.pods):
            return None
        if (used.cores == WHOLE and not cores) or _TYPE not in card.type:
            return None
        if card.mode != MIG:
            return Share(index, memory, cores)
        factor = self._config.memory_factor
        instance = free_instance(card.geometries, used.parts, memory * factor)
        if instance is None:
            return None
        return Share(index, memory, cores, instance[0], instance[1] // factor)

    def annotations(self, task: Task, cards: NodeCards, choice: Choice, now_ns: int) -> Annotations:
        ids = ";".join(shares_text(cards.names, choice, _TYPE))
        seconds = str(now_ns // _SECOND_NS)
        return {
            "volcano.sh/vgpu-node": task.node_name,
            "volcano.sh/vgpu-time": seconds,
            IDS: ids,
            "volcano.sh/devices-to-allocate": ids,
            "volcano.sh/bind-phase": "allocating",
            "volcano.sh/bind-time": seconds,
        }


@dataclass(frozen=True, slots=True)
class CardSelector:
    """The cards that a pod may get, by its annotations and labels; empty fields allow all cards."""

    # None: not given.
    mode: str | None = None
    # None: not given. A list of types to use, even an empty one, overrides the list of types to avoid.
    use_types: tuple[str, ...] | None = None
    no_types: tuple[str, ...] | None = None
    use_names: tuple[str, ...] = ()
    no_names: tuple[str, ...] = ()
    # No card with another pod of this group.
    apart_from: str = ""
    # No card with another pod that matches one of these rules.
    rules: tuple[int, ...] = ()

    def allows_type(self, card: Card) -> bool:
        kind = card.type.upper()
        if self.use_types is not None:
            return any(word in kind for word in self.use_types)
        return not any(word in kind for word in self.no_types or ())

    def allows_name(self, name: str) -> bool:
        if self.use_names and name not in self.use_names:
            return False
        return name not in self.no_names


_NONE = CardSelector()


def groups_of(task: Task, rules: Rules) -> tuple[str, tuple[int, ...]]:
    """The group of a pod, and the indexes of the exclusive rules that it matches."""
    pod = task.pod
    name = next((pod.annotations[key] for key in _GROUPS if pod.annotations.get(key)), "")
    matched = tuple(
        number
        for number, rule in enumerate(rules)
        if all(pod.labels.get(key) == value for key, value in rule.items())
    )
    return (f"{pod.namespace}/{name}" if name else "", matched)


def _words(annotations: Mapping[str, str], key: str) -> tuple[str, ...] | None:
    text = annotations.get(key)
    return None if text is None else tuple(text.upper().split(","))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))
