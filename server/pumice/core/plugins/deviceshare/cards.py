"""Cards that pods share, as values: what a node has, what is in use, and what a pod takes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.status import TaskStatus

_RELEASING = TaskStatus.RELEASING
THOUSAND = 1000


class Usage(NamedTuple):
    """What is in use of one card."""

    pods: int = 0
    memory: int = 0
    cores: int = 0


class Share(NamedTuple):
    """What a container takes of one card, by the card's index."""

    card: int
    memory: int
    cores: int


class Taken(NamedTuple):
    """The shares of a pod, container by container, with what is in use then."""

    shares: tuple[tuple[Share, ...], ...]
    usage: tuple[Usage, ...]
    score: float


@dataclass(frozen=True, slots=True)
class Tenant:
    """A pod on a card, as far as it matters for who may join it."""

    group: str
    rules: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeCards:
    """The cards of a node, and what is in use of them."""

    # A value of the device kind; nodes with equal cards share it. Names are not part of it.
    shape: Hashable
    names: tuple[str, ...]
    # Without pods that are being deleted, and with them.
    usage: tuple[Usage, ...]
    all_usage: tuple[Usage, ...]
    # By card.
    tenants: tuple[tuple[Tenant, ...], ...] = ()


# Cards of a node that are not known yet: pods go there as if they shared none.
IGNORED = NodeCards("ignored", (), (), ())


class DeviceKind(Protocol):
    """A way of sharing cards: how nodes, pods and annotations are read, and what fits."""

    # The name of the device in Volcano, and of its lock on a node.
    name: str
    lock: str
    reason: str

    def request_of(self, class_: TaskClass) -> Hashable | None:
        """What the pods of a class ask for; None: nothing of this kind."""

    def facet_of(self, task: Task) -> Hashable:
        """What it depends on beside the class which cards a task may get."""

    def read(self, entry: NodeEntry) -> NodeCards | None:
        """The cards of a node with what its pods use; None: it has none that can be read."""

    def blocked(self, facet: Hashable, cards: NodeCards) -> frozenset[int]:
        """The cards that are out of the question for a task, by index, whatever is free."""

    def take(
        self,
        shape: Hashable,
        usage: tuple[Usage, ...],
        request: Hashable,
        facet: Hashable,
        blocked: frozenset[int],
    ) -> Taken | None:
        """What a pod would get; None: it does not fit."""

    def annotations(
        self, node: str, cards: NodeCards, taken: Taken, now_ns: int
    ) -> Mapping[str, str]:
        """How the choice is written to the pod."""


def stays(task: Task) -> bool:
    """Whether a task on a node is not being deleted."""
    return task.status is not _RELEASING


def whole_units(thousandths: int) -> int:
    """An amount of an extended resource as Kubernetes' ``Value``: rounded up."""
    return -(-thousandths // THOUSAND)


def plain_int(text: str) -> int | None:
    """A number as Go's ``ParseUint`` reads it, of at most 32 bits; None for anything else."""
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        return None
    number = int(text)
    return number if number < _UINT32 else None


_UINT32 = 2**32
_MOST_DIGITS = 20
