"""vGPU: shares of memory and cores of cards that a node registers in an annotation."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.model.node import Node
from pumice.core.plugins.deviceshare.cards import (
    THOUSAND,
    NodeCards,
    Share,
    Taken,
    Tenant,
    Usage,
    plain_int,
    stays,
)
from pumice.core.plugins.deviceshare.registers import Card, Register, read_register
from pumice.core.plugins.deviceshare.wishes import Wishes, groups_of, wishes_of

NUMBER = "volcano.sh/vgpu-number"
MEMORY = "volcano.sh/vgpu-memory"
CORES = "volcano.sh/vgpu-cores"
_NODE = "volcano.sh/vgpu-node"
_TIME = "volcano.sh/vgpu-time"
IDS = "volcano.sh/vgpu-ids-new"
_TO_ALLOCATE = "volcano.sh/devices-to-allocate"
_BIND_TIME = "volcano.sh/bind-time"
_BIND_PHASE = "volcano.sh/bind-phase"
_TYPE = "NVIDIA"
_SEVERAL = 2
_SECOND_NS = 1_000_000_000
# The whole card, in hundredths.
WHOLE = 100
BINPACK, SPREAD = "binpack", "spread"


class ContainerRequest(NamedTuple):
    """What one container asks for, of each of so many cards."""

    number: int
    # None: a percentage of the card's memory.
    memory: int | None
    percentage: int
    cores: int


Requests = tuple[ContainerRequest, ...]
Rules = Sequence[Mapping[str, str]]


class VGpu:
    """Shares of cards by memory and cores; a policy says which cards are preferred."""

    name = "hamivgpu"
    lock = "hamivgpu"
    reason = "hami-vgpuDeviceSharing error"

    def __init__(self, policy: str, rules: Rules) -> None:
        self._policy = policy
        self._rules = rules
        # By node: the object, and what it registers.
        self._registers: dict[str, tuple[Node, Register | None]] = {}

    def request_of(self, class_: TaskClass) -> Requests | None:
        found = tuple(
            request
            for container in class_.spec.containers
            if not container.init
            and (request := _request(dict(container.limits), dict(container.requests))) is not None
        )
        # A container that asks for no card gets none.
        return found if any(request.number for request in found) else None

    def facet_of(self, task: Task) -> Wishes | None:
        return wishes_of(task, self._rules)

    def read(self, entry: NodeEntry) -> NodeCards | None:
        node = entry.node
        if node is None:
            return None
        known = self._registers.get(entry.name)
        if known is None or known[0] is not node:
            known = self._registers[entry.name] = (node, _register_of(node))
        register = known[1]
        if register is None:
            return None
        usage = [Usage()] * len(register.names)
        tenants: list[list[Tenant]] = [[] for _ in usage]
        places = register.places
        leaving = []
        for task in entry.tasks.values():
            ids = task.annotations.get(IDS)
            if ids:
                if stays(task):
                    _charge(usage, places, ids)
                else:
                    leaving.append(ids)
                self._add_tenant(tenants, task, places, ids)
        later = tuple(usage)
        for ids in leaving:
            _charge(usage, places, ids)
        return NodeCards(
            register.cards,
            register.names,
            later,
            tuple(usage) if leaving else later,
            tuple(_ordered(on_card) for on_card in tenants),
        )

    def with_shares(self, cards: NodeCards, task: Task, taken: Taken) -> NodeCards:
        """The cards with one more pod on them."""
        shares = [share for container in taken.shares for share in container]
        usage = _with_all(cards.usage, shares)
        same = cards.all_usage is cards.usage
        all_usage = usage if same else _with_all(cards.all_usage, shares)
        tenant, tenants = Tenant(*groups_of(task, self._rules)), cards.tenants
        if tenant.group or tenant.rules:
            found = list(tenants)
            for share in shares:
                own = tenant if share.memory or share.cores else Tenant("", tenant.rules)
                found[share.card] = _ordered([*found[share.card], own])
            tenants = tuple(found)
        return NodeCards(cards.shape, cards.names, usage, all_usage, tenants)

    def _add_tenant(
        self, tenants: list[list[Tenant]], task: Task, places: Mapping[str, int], ids: str
    ) -> None:
        tenant = Tenant(*groups_of(task, self._rules))
        if not tenant.group and not tenant.rules:
            return
        for name, memory, cores in shares_in(ids):
            index = places.get(name)
            if index is not None:
                tenants[index].append(tenant if memory or cores else Tenant("", tenant.rules))

    def blocked(self, facet: Hashable, cards: NodeCards) -> frozenset[int]:
        if facet is None:
            return frozenset()
        assert isinstance(facet, Wishes)
        return frozenset(
            index
            for index, name in enumerate(cards.names)
            if not facet.allows_name(name) or not facet.joins(cards.tenants[index])
        )

    def take(
        self,
        shape: Hashable,
        usage: tuple[Usage, ...],
        request: Hashable,
        facet: Hashable,
        blocked: frozenset[int],
    ) -> Taken | None:
        assert isinstance(shape, tuple)
        assert isinstance(request, tuple)
        cards: tuple[Card, ...] = shape
        wishes = facet if isinstance(facet, Wishes) else None
        if wishes is not None and wishes.mode not in (None, cards[-1].mode):
            return None
        after, shares, score = list(usage), [], 0.0
        for asked in request:
            if asked.number > len(cards):
                return None
            chosen: list[Share] = []
            for index in self._order(after) if asked.number else ():
                share = None
                if index not in blocked and (wishes is None or wishes.allows_type(cards[index])):
                    share = _fitting(cards[index], after[index], asked, index)
                if share is None:
                    continue
                after[index] = _with(after[index], share)
                chosen.append(share)
                score += self._score(cards[index], after[index])
                if len(chosen) == asked.number:
                    break
            if len(chosen) < asked.number:
                return None
            shares.append(tuple(chosen))
        return Taken(tuple(shares), tuple(after), score)

    def _order(self, usage: Sequence[Usage]) -> Iterable[int]:
        """The cards in the order in which they are tried."""
        if self._policy == BINPACK:
            return sorted(range(len(usage)), key=lambda i: (-usage[i].memory, i))
        if self._policy == SPREAD:
            return sorted(range(len(usage)), key=lambda i: (usage[i].pods, i))
        return range(len(usage) - 1, -1, -1)

    def _score(self, card: Card, used: Usage) -> float:
        # With spread, Volcano looks for an unused card after it has put the pod there: none is.
        if self._policy != BINPACK or not card.memory:
            return 0.0
        return 100 * (float(used.memory) / float(card.memory))

    def annotations(
        self, node: str, cards: NodeCards, taken: Taken, now_ns: int
    ) -> Mapping[str, str]:
        ids = ";".join(
            "".join(f"{cards.names[s.card]},{_TYPE},{s.memory},{s.cores}:" for s in container)
            for container in taken.shares
        )
        seconds = str(now_ns // _SECOND_NS)
        return {
            _NODE: node,
            _TIME: seconds,
            IDS: ids,
            _TO_ALLOCATE: ids,
            _BIND_PHASE: "allocating",
            _BIND_TIME: seconds,
        }


def _register_of(node: Node) -> Register | None:
    """The cards of a node; None where it offers none, or they cannot be read."""
    offered = dict(node.allocatable)
    if not all(offered.get(name) for name in (NUMBER, CORES, MEMORY)):
        return None
    return read_register(node.annotations.get("volcano.sh/node-vgpu-register", ""))


def _ordered(tenants: list[Tenant]) -> tuple[Tenant, ...]:
    if len(tenants) < _SEVERAL:
        return tuple(tenants)
    return tuple(sorted(set(tenants), key=_tenant_key))


def _tenant_key(tenant: Tenant) -> tuple[str, tuple[int, ...]]:
    return (tenant.group, tenant.rules)


def _request(limits: Mapping[str, int], requests: Mapping[str, int]) -> ContainerRequest | None:
    """The request of a container; None without limits of card number or memory."""
    if NUMBER in limits:
        count = _exact(limits[NUMBER])
    elif MEMORY in limits:
        count = 1
    else:
        return None
    memory = _exact(limits.get(MEMORY, requests.get(MEMORY, 0)))
    cores = _exact(limits.get(CORES, requests.get(CORES, 0)))
    return ContainerRequest(count, memory or None, WHOLE, cores)


def _exact(thousandths: int) -> int:
    """A whole number; a fraction counts as nothing, as where Go reads no integer."""
    return 0 if thousandths % THOUSAND else thousandths // THOUSAND


def _fitting(card: Card, used: Usage, asked: ContainerRequest, index: int) -> Share | None:
    """The share of a card that a container would get; None: it does not fit."""
    memory = asked.memory
    if memory is None:
        memory = int(float(card.memory) * float(asked.percentage) / 100.0)
    if used.pods >= card.most_pods or card.memory - used.memory < memory:
        return None
    if used.cores + asked.cores > WHOLE or (asked.cores == WHOLE and used.pods):
        return None
    if (used.cores == WHOLE and not asked.cores) or _TYPE not in card.type:
        return None
    return Share(index, memory, asked.cores)


def _with(used: Usage, share: Share) -> Usage:
    return Usage(used.pods + 1, used.memory + share.memory, used.cores + share.cores)


def _with_all(usage: tuple[Usage, ...], shares: Sequence[Share]) -> tuple[Usage, ...]:
    found = list(usage)
    for share in shares:
        found[share.card] = _with(found[share.card], share)
    return tuple(found)


def _charge(usage: list[Usage], places: Mapping[str, int], ids: str) -> None:
    for name, memory, cores in shares_in(ids):
        index = places.get(name)
        if index is not None:
            used = usage[index]
            usage[index] = Usage(used.pods + 1, used.memory + memory, used.cores + cores)


@lru_cache(maxsize=16_384)
def shares_in(ids: str) -> tuple[tuple[str, int, int], ...]:
    """Card, memory and cores of each share that an annotation lists; what is unreadable counts not."""
    found = []
    for part in ids.replace(";", ":").split(":"):
        fields = part.split(",")
        if len(fields) >= _SHARE_FIELDS:
            memory, cores = plain_int(fields[2]), plain_int(fields[3])
            if memory is not None and cores is not None:
                found.append((fields[0].partition("[")[0], memory, cores))
    return tuple(found)


_SHARE_FIELDS = 4
