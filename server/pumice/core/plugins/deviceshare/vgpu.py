"""vGPU: shares of memory and cores of cards that a node registers in an annotation."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.tasks import Task, TaskClass
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
from pumice.core.plugins.deviceshare.registers import Card, read_register
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
_SECOND_NS = 1_000_000_000
# The whole card, in hundredths.
WHOLE = 100
BINPACK, SPREAD = "binpack", "spread"


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What one container asks for, of each of so many cards."""

    count: int
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

    def request_of(self, class_: TaskClass) -> Requests | None:
        found = tuple(
            request
            for container in class_.spec.containers
            if not container.init
            and (request := _request(dict(container.limits), dict(container.requests))) is not None
        )
        # A container that asks for no card gets none.
        return found if any(request.count for request in found) else None

    def facet_of(self, task: Task) -> Wishes | None:
        return wishes_of(task, self._rules)

    def read(self, entry: NodeEntry) -> NodeCards | None:
        node = entry.node
        if node is None or not all(dict(node.allocatable).get(n) for n in (NUMBER, CORES, MEMORY)):
            return None
        register = read_register(node.annotations.get("volcano.sh/node-vgpu-register", ""))
        if register is None:
            return None
        usage = [Usage()] * len(register.names)
        all_usage = list(usage)
        tenants: list[list[Tenant]] = [[] for _ in usage]
        places = {name: index for index, name in enumerate(register.names)}
        for task in entry.tasks.values():
            ids = task.annotations.get(IDS)
            if ids:
                _charge(all_usage, places, ids)
                if stays(task):
                    _charge(usage, places, ids)
                self._add_tenant(tenants, task, places, ids)
        return NodeCards(
            register.cards,
            register.names,
            tuple(usage),
            tuple(all_usage),
            tuple(tuple(sorted(set(on_card), key=_tenant_key)) for on_card in tenants),
        )

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
            if asked.count > len(cards):
                return None
            chosen: list[Share] = []
            for index in self._order(after) if asked.count else ():
                share = None
                if index not in blocked and (wishes is None or wishes.allows_type(cards[index])):
                    share = _fitting(cards[index], after[index], asked, index)
                if share is None:
                    continue
                after[index] = _with(after[index], share)
                chosen.append(share)
                score += self._score(cards[index], after[index])
                if len(chosen) == asked.count:
                    break
            if len(chosen) < asked.count:
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
    return used._replace(
        pods=used.pods + 1, memory=used.memory + share.memory, cores=used.cores + share.cores
    )


def _charge(usage: list[Usage], places: Mapping[str, int], ids: str) -> None:
    for name, memory, cores in shares_in(ids):
        index = places.get(name)
        if index is not None:
            usage[index] = _with(usage[index], Share(index, memory, cores))


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
