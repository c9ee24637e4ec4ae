"""Cards that pods share, as values: the cards of a node, their usage, and the shares of a pod."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.status import RELEASING

# A larger number in an annotation or capacity is a mistake.
MOST_CARDS = 1024
_UINT32 = 2**32
_MOST_DIGITS = 20
# Policies: full or empty cards first.
BINPACK, SPREAD = "binpack", "spread"


Annotations = Mapping[str, str]


class Usage(NamedTuple):
    """What is in use of one card."""

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
    """What a container takes of one card, by the card's index."""

    card: int
    memory: int
    cores: int
    # The MIG instance, and the memory of the card that it takes.
    part: str = ""
    part_memory: int = 0


# Shapes, requests and facets are hashable values of types that only the device kind knows.
# The shape of a node's cards, and the usage of each card.
State = tuple[Any, tuple[Usage, ...]]
# The request of a pod, its facet, and the cards that it cannot get.
Question = tuple[Any, Any, frozenset[int]]


class Taken(NamedTuple):
    """The shares of a pod by container, and the usage of the cards with them."""

    shares: tuple[tuple[Share, ...], ...]
    usage: tuple[Usage, ...]
    score: float
    # With several kinds of devices: the shares of each kind.
    of_kinds: tuple[Taken | None, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Tenant:
    """A pod on a card: the values that decide which other pods may share the card."""

    group: str
    rules: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeCards:
    """The cards of a node, and their usage."""

    # Equal for nodes with equal cards; it does not contain their names.
    shape: Any
    names: tuple[str, ...]
    # Without pods that are being deleted, and with them.
    usage: tuple[Usage, ...]
    all_usage: tuple[Usage, ...]
    # By card.
    tenants: tuple[tuple[Tenant, ...], ...] = ()
    # With several kinds of devices: the node's cards of each kind.
    of_kinds: tuple[NodeCards | None, ...] = ()


# The cards of a node whose devices are ignored: pods are placed there as if they shared none.
IGNORED = NodeCards("ignored", (), (), ())


class DeviceKind(ABC):
    """A kind of shared device: reads nodes and pods, chooses cards, and writes annotations."""

    # The name of the device in Volcano, the name of its lock, and the reason of refusals.
    name: str
    lock: str
    reason: str
    # Whether nodes are scored, and whether the choice depends on more than the class.
    has_scores = False
    has_facets = False

    def asked(self, request: Any) -> DeviceKind:
        """The kind that a request is for; of several, the first."""
        return self

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
    def read(self, entry: NodeEntry) -> NodeCards | None:
        """The cards of a node with the usage of its pods; None: it has none, or they cannot be read."""

    def blocked(self, facet: Any, cards: NodeCards) -> frozenset[int]:
        """The indexes of the cards that a task cannot get, even if they are free."""
        return frozenset()

    @abstractmethod
    def take(self, state: State, question: Question) -> Taken | None:
        """The shares that a pod would get; None: it does not fit."""

    @abstractmethod
    def annotations(self, task: Task, cards: NodeCards, taken: Taken, now_ns: int) -> Annotations:
        """The annotations for a pod that is being placed."""


def cards_with_use(
    entry: NodeEntry,
    shape: Hashable,
    names: tuple[str, ...],
    shares_of: Callable[[Task], Iterable[Share]],
) -> NodeCards:
    """The cards of a node with the shares of its pods."""
    staying, leaving = list[Share](), list[Share]()
    for task in entry.tasks.values():
        (leaving if task.status is RELEASING else staying).extend(shares_of(task))
    usage = with_shares((Usage(),) * len(names), staying)
    return NodeCards(shape, names, usage, with_shares(usage, leaving) if leaving else usage)


def with_shares(usage: tuple[Usage, ...], shares: Iterable[Share]) -> tuple[Usage, ...]:
    found = list(usage)
    for share in shares:
        found[share.card] = found[share.card].plus(share)
    return tuple(found)


def fullness(used: Usage, memory: int) -> float:
    """The memory of a card that is in use, from 0 to 100."""
    return 100 * (float(used.memory) / float(memory)) if memory else 0.0


def plain_int(text: str) -> int | None:
    """A number as Go's ``ParseUint`` reads it, of at most 32 bits; None for anything else."""
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        return None
    number = int(text)
    return number if number < _UINT32 else None


def plain_ints(text: str) -> list[int] | None:
    """Numbers separated by commas; None where one of them is not a number."""
    numbers = [plain_int(part) for part in text.split(",")] if text else []
    known = [number for number in numbers if number is not None]
    return known if len(known) == len(numbers) else None


class SeveralKinds(DeviceKind):
    """Several kinds as one. Requests, facets and shapes are tuples with a value of each kind."""

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
