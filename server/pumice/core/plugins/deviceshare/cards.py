"""Values about shared cards: the cards of a node, their usage, and the shares of a pod."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.status import RELEASING

# A node with more cards than this counts as one without cards.
MAX_CARDS = 1024
_UINT32 = 2**32
_MAX_DIGITS = 20
# Policies: full or empty cards first.
BINPACK, SPREAD = "binpack", "spread"


Annotations = Mapping[str, str]
# The indexes of a node's cards, by name.
Indexes = Mapping[str, int]
C = TypeVar("C")


class Usage(NamedTuple):
    """The used part of one card."""

    pods: int = 0
    memory: int = 0
    cores: int = 0
    # MIG instances, as annotations write them after the card's name, sorted.
    parts: tuple[str, ...] = ()

    def plus(self, share: Share) -> Usage:
        pods, memory, cores, parts = self
        if share.part:
            parts = tuple(sorted((*parts, share.part)))
            return Usage(pods + 1, memory + share.part_memory, cores + share.cores, parts)
        return Usage(pods + 1, memory + share.memory, cores + share.cores, parts)


class Share(NamedTuple):
    """The part of one card that a container uses; the card is an index."""

    card: int
    memory: int
    cores: int
    # The MIG instance, and its memory.
    part: str = ""
    part_memory: int = 0


# Shapes, requests and facets are hashable values of types that only the device kind knows.
# The shape of a node's cards, and the usage of each card.
State = tuple[Any, tuple[Usage, ...]]
# The request of a pod, its facet, and the cards that it cannot get.
Question = tuple[Any, Any, frozenset[int]]


class Choice(NamedTuple):
    """The shares of a pod by container, and the usage of the cards with them."""

    shares: tuple[tuple[Share, ...], ...]
    usage: tuple[Usage, ...]
    score: float

    def all_shares(self) -> list[Share]:
        return [share for container in self.shares for share in container]


@dataclass(frozen=True, slots=True)
class NodeCards:
    """The cards of one kind that a node has, and their usage."""

    # Equal for nodes with equal cards; without the names of the cards.
    shape: Any
    names: tuple[str, ...]
    # Without pods that are being deleted, and with them.
    usage: tuple[Usage, ...]
    all_usage: tuple[Usage, ...]

    def plus(self, choice: Choice) -> NodeCards:
        """The cards with a further pod on them."""
        shares = choice.all_shares()
        usage = with_shares(self.usage, shares)
        is_same = self.all_usage is self.usage
        all_usage = usage if is_same else with_shares(self.all_usage, shares)
        return NodeCards(self.shape, self.names, usage, all_usage)


class DeviceKind(ABC):
    """A kind of shared device: reads nodes and pods, chooses cards, and writes annotations."""

    # The name of the kind in Volcano, the name of its lock, and the reason of refusals.
    name: str
    lock: str
    reason: str
    # Whether nodes are scored, and whether the choice depends on more than the class.
    has_scores = False
    has_facets = False
    # Whether the shares of an undone placement stay in use until the session ends.
    keeps_undone = False

    def is_possible(self, request: Any, facet: Any) -> bool:
        """Whether an idle card could serve the request."""
        return True

    @abstractmethod
    def request_of(self, class_: TaskClass) -> Hashable | None:
        """What the pods of a class request; None: nothing of this kind."""

    def facet_of(self, task: Task) -> Hashable:
        """What the choice of cards depends on, apart from the class."""
        return None

    @abstractmethod
    def cards_of(self, entry: NodeEntry) -> tuple[Any, tuple[str, ...]] | None:
        """The shape and the names of a node's cards; None: it has none, or its data is invalid."""

    @abstractmethod
    def shares_of(self, task: Task, shape: Any, indexes: Indexes) -> Iterable[Share]:
        """The shares of a pod on a node, from its annotations."""

    def read(self, entry: NodeEntry) -> NodeCards | None:
        """The cards of a node with the usage of its pods; None: as for ``cards_of``."""
        found = self.cards_of(entry)
        if found is None:
            return None
        shape, names = found
        indexes = indexes_of(names)
        staying, leaving = list[Share](), list[Share]()
        for task in entry.tasks.values():
            shares = leaving if task.status is RELEASING else staying
            shares.extend(self.shares_of(task, shape, indexes))
        usage = with_shares((Usage(),) * len(names), staying)
        return NodeCards(shape, names, usage, with_shares(usage, leaving) if leaving else usage)

    def blocked(self, facet: Any, cards: NodeCards, entry: NodeEntry) -> frozenset[int]:
        """The indexes of the cards that a task cannot get, even if they are free."""
        return NO_CARD

    @abstractmethod
    def choose(self, state: State, question: Question) -> Choice | None:
        """The shares that a pod would get; None: it does not fit."""

    @abstractmethod
    def annotations(self, task: Task, cards: NodeCards, choice: Choice, now_ns: int) -> Annotations:
        """The annotations for a pod that is being placed."""


NO_CARD: frozenset[int] = frozenset()


def indexes_of(names: Sequence[str]) -> Indexes:
    return {name: index for index, name in enumerate(names)}


def named_cards(named: Sequence[tuple[str, C]]) -> tuple[tuple[C, ...], tuple[str, ...]] | None:
    """Cards and names; None: there are no cards, too many, or two with the same name."""
    cards = dict(named)
    if not named or len(cards) != len(named) or len(named) > MAX_CARDS:
        return None
    return tuple(cards.values()), tuple(cards)


def with_shares(usage: tuple[Usage, ...], shares: Iterable[Share]) -> tuple[Usage, ...]:
    found = list(usage)
    for share in shares:
        found[share.card] = found[share.card].plus(share)
    return tuple(found)


def fullness(used: Usage, memory: int) -> float:
    """The used part of a card's memory, in percent."""
    return 100 * (float(used.memory) / float(memory)) if memory else 0.0


def parse_uint32(text: str) -> int | None:
    """Parses a number of at most 32 bits like Go's ``ParseUint``; None: the text is invalid."""
    if not text.isascii() or not text.isdigit() or len(text) > _MAX_DIGITS:
        return None
    number = int(text)
    return number if number < _UINT32 else None


def parse_uint32s(text: str) -> list[int] | None:
    """Parses numbers separated by commas; None: one of them is invalid."""
    numbers = [parse_uint32(part) for part in text.split(",")] if text else []
    known = [number for number in numbers if number is not None]
    return known if len(known) == len(numbers) else None
