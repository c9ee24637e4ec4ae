"""Searches for devices for claims on one node, like Kubernetes' structured allocator."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from pumice.core.cache.device_catalog import (
    CounterId,
    DeviceCatalog,
    DeviceId,
    PooledDevice,
    consumed_capacity,
)
from pumice.core.model.devices import (
    AllocatedDevice,
    DeviceAllocation,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSubRequest,
    ResourceClaim,
)
from pumice.core.model.selectors import NodeSelectorTerm, Operator, Requirement

CANNOT_ALLOCATE = "cannot allocate all claims"
TOO_MANY_STEPS = "the search for devices takes too many steps"
# Maximum number of devices of one claim, as in Kubernetes.
MAX_DEVICES = 32
# Maximum number of alternatives of one request, as in Kubernetes; scores depend on it.
MAX_ALTERNATIVES = 8
# Maximum number of devices that the search for one pod on one node tries.
MAX_STEPS = 20_000

_NO_CAPACITY: Mapping[str, int] = {}

Classes = Callable[[str], DeviceClass | None]


class UndecidedError(Exception):
    """The search cannot decide whether devices can be allocated; the text says why."""


@dataclass(slots=True)
class _Item:
    """A request of a claim, with its alternative, its number of devices and its devices so far."""

    claim: ResourceClaim
    request: DeviceRequest
    alternatives: Sequence[DeviceSubRequest]
    chosen: int = -1
    count: int = 0
    devices: list[PooledDevice] = field(default_factory=list)

    @property
    def sub_request(self) -> DeviceSubRequest:
        return self.alternatives[self.chosen]

    @property
    def name(self) -> str:
        exact = self.request.exactly is not None
        return self.request.name if exact else f"{self.request.name}/{self.sub_request.name}"


@dataclass(frozen=True, slots=True)
class Found:
    """The devices of each claim, and the score of the chosen alternatives."""

    allocations: tuple[tuple[str, DeviceAllocation], ...]
    score: int


class Allocator:
    """One search: for claims that are not allocated, among the devices that a node reaches."""

    def __init__(
        self,
        catalog: DeviceCatalog,
        classes: Classes,
        devices: Sequence[PooledDevice],
        used: DevicesInUse,
        node: str,
    ) -> None:
        self._catalog, self._classes = catalog, classes
        self._devices, self._node = devices, node
        self._supply = DeviceSupply(catalog, devices, used)
        self._steps = 0

    def find(self, claims: Sequence[ResourceClaim], now_ns: int) -> Found | None:
        """The devices of all claims; None: there are too few. Raises UndecidedError."""
        items = [
            _Item(claim, request, [request.exactly] if request.exactly else request.first_available)
            for claim in claims
            for request in claim.requests
        ]
        if not self._solve(items, 0):
            return None
        allocations = tuple(
            (claim.key, self._allocation([i for i in items if i.claim is claim], now_ns))
            for claim in claims
        )
        score = sum(MAX_ALTERNATIVES - i.chosen for i in items if i.request.exactly is None)
        return Found(allocations, score)

    def _solve(self, items: list[_Item], index: int) -> bool:
        """Chooses devices for the request with this index, and for all requests after it."""
        if index == len(items):
            return True
        item = items[index]
        for number, request in enumerate(item.alternatives):
            item.chosen, item.count = number, request.count
            matching = list(self._matching(request))
            if request.takes_all:
                matching = [d for d in matching if self._supply.has_capacity(request, d)]
                # A request for all devices needs at least one.
                item.count = max(len(matching), 1)
            if self._choose(items, index, matching, 0):
                return True
        item.chosen = -1
        return False

    def _choose(
        self, items: list[_Item], index: int, matching: list[PooledDevice], start: int
    ) -> bool:
        """Allocates the missing devices of a request, by backtracking over the matching devices."""
        item = items[index]
        missing = item.count - len(item.devices)
        if not missing:
            return self._solve(items, index + 1)
        for number in range(start, len(matching) - missing + 1):
            if self._allocate(items, item, matching[number]):
                if self._choose(items, index, matching, number + 1):
                    return True
                self._deallocate(item, matching[number])
        return False

    def _matching(self, request: DeviceSubRequest) -> Iterator[PooledDevice]:
        """The devices that the class and the request select, with those in use."""
        class_ = self._classes(request.device_class_name)
        selectors = (*(class_.selectors if class_ is not None else ()), *request.selectors)
        for device in self._devices:
            for selector in selectors:
                result = self._catalog.matches(selector, device)
                if isinstance(result, str):
                    raise UndecidedError(f"selector {selector!r} cannot be evaluated: {result}")
                if not result:
                    break
            else:
                if _is_tolerated(request, device):
                    yield device

    def _allocate(self, items: list[_Item], item: _Item, device: PooledDevice) -> bool:
        """Adds a device to a request; false: it is in use, or violates a constraint of the claim."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise UndecidedError(TOO_MANY_STEPS)
        of_claim = [other for other in items if other.claim is item.claim]
        if sum(len(other.devices) for other in of_claim) >= MAX_DEVICES or device in item.devices:
            return False
        if not self._supply.has(item.sub_request, device):
            return False
        item.devices.append(device)
        if not all(_holds(constraint, of_claim) for constraint in item.claim.constraints):
            item.devices.pop()
            return False
        self._supply.change(item.sub_request, device, 1)
        return True

    def _deallocate(self, item: _Item, device: PooledDevice) -> None:
        item.devices.remove(device)
        self._supply.change(item.sub_request, device, -1)

    def _allocation(self, items: list[_Item], now_ns: int) -> DeviceAllocation:
        devices = [device for item in items for device in item.devices]
        return DeviceAllocation(
            tuple(_allocated(item, device) for item in items for device in item.devices),
            _node_terms(devices, self._node),
            now_ns,
        )


def _allocated(item: _Item, device: PooledDevice) -> AllocatedDevice:
    request = item.sub_request
    share_id, amounts = "", _NO_CAPACITY
    if device.device.allows_sharing:
        share_id = _share_id(item.claim.uid, item.name, *device.id)
        amounts = consumed_capacity(request, device.device, device.id[0]) or _NO_CAPACITY
    return AllocatedDevice(
        item.name,
        *device.id,
        admin_access=request.admin_access,
        tolerations=request.tolerations,
        binding_conditions=device.device.binding_conditions,
        binding_failure_conditions=device.device.binding_failure_conditions,
        share_id=share_id,
        consumed_capacity=tuple(sorted(amounts.items())),
    )


def _share_id(*parts: str) -> str:
    """A UUID for a share of a device; a request of a claim has at most one share of a device."""
    text = sha256("/".join(parts).encode()).hexdigest()
    return f"{text[:8]}-{text[8:12]}-8{text[13:16]}-8{text[17:20]}-{text[20:32]}"


def _is_tolerated(request: DeviceSubRequest, device: PooledDevice) -> bool:
    return all(
        any(toleration.tolerates(entry.taint) for toleration in request.tolerations)
        for entry in device.device.taints
        if entry.taint.repels
    )


def _holds(constraint: DeviceConstraint, items: Sequence[_Item]) -> bool:
    """Whether a constraint holds for the devices that its requests have so far."""
    covered = [
        device
        for item in items
        if not constraint.requests
        or item.request.name in constraint.requests
        or (item.devices and item.name in constraint.requests)
        for device in item.devices
    ]
    name = constraint.match_attribute or constraint.distinct_attribute
    if not all(name in device.device.attributes for device in covered):
        return False
    # True and 1 are different values.
    values = {(type(v), v) for v in (device.device.attributes[name] for device in covered)}
    if constraint.match_attribute:
        return len(values) <= 1
    return len(values) == len(covered)


def _node_terms(devices: Sequence[PooledDevice], node: str) -> tuple[NodeSelectorTerm, ...] | None:
    """The nodes where a claim with these devices can be used; None: all nodes."""
    if any(device.node_name or device.device.binds_to_node for device in devices):
        name = Requirement("metadata.name", Operator.IN, (node,))
        return (NodeSelectorTerm((), (name,)),)
    labels: dict[Requirement, None] = {}
    fields: dict[Requirement, None] = {}
    for device in devices:
        # A slice has one term.
        for term in device.node_terms or ():
            labels |= dict.fromkeys(term.label_requirements)
            fields |= dict.fromkeys(term.field_requirements)
    if not labels and not fields:
        return None
    return (NodeSelectorTerm(tuple(labels), tuple(fields)),)


@dataclass(frozen=True, slots=True)
class DevicesInUse:
    """The devices that are allocated as a whole, and the allocated shares of other devices."""

    whole: frozenset[DeviceId] = frozenset()
    # Device, capacity and amount; a share that consumes no capacity has an empty name.
    parts: tuple[tuple[DeviceId, str, int], ...] = ()

    def __or__(self, other: DevicesInUse) -> DevicesInUse:
        return DevicesInUse(self.whole | other.whole, self.parts + other.parts)

    def __sub__(self, other: DevicesInUse) -> DevicesInUse:
        parts = Counter(self.parts) - Counter(other.parts)
        return DevicesInUse(self.whole - other.whole, tuple(parts.elements()))


class DeviceSupply:
    """The devices in use, and those that the search has allocated."""

    def __init__(
        self, catalog: DeviceCatalog, devices: Iterable[PooledDevice], used: DevicesInUse
    ) -> None:
        self._used = used.whole
        self._allocated: set[DeviceId] = set()
        # For shared devices: the number of shares, and the consumed amount of each capacity.
        self._shares = Counter[DeviceId]()
        self._consumed: defaultdict[DeviceId, Counter[str]] = defaultdict(Counter)
        for id_, name, amount in used.parts:
            self._shares[id_] = 1
            self._consumed[id_][name] += amount
        self._counters = self._available_counters(catalog, devices)

    def _available_counters(
        self, catalog: DeviceCatalog, devices: Iterable[PooledDevice]
    ) -> dict[CounterId, int]:
        """The available amounts of the counters that devices of this node consume."""
        counters = {counter for device in devices for counter, _ in device.consumes}
        available = {counter: catalog.counters.get(counter, 0) for counter in counters}
        for id_ in [*self._used, *self._shares] if counters else ():
            used = catalog.by_id.get(id_)
            for counter, amount in used.consumes if used is not None else ():
                if counter in available:
                    available[counter] -= amount
        return available

    def has(self, request: DeviceSubRequest, device: PooledDevice) -> bool:
        """Whether the device, or a share of it, can be allocated to the request now."""
        if not request.admin_access and not self._is_free(device):
            return False
        return self.has_capacity(request, device)

    def _is_free(self, device: PooledDevice) -> bool:
        if device.id in self._used or device.id in self._allocated:
            return False
        # The shares of a device consume its counters once.
        return bool(self._shares[device.id]) or all(
            self._counters.get(counter, 0) >= amount for counter, amount in device.consumes
        )

    def has_capacity(self, request: DeviceSubRequest, device: PooledDevice) -> bool:
        amounts = consumed_capacity(request, device.device, device.id[0])
        if amounts is None:
            return False
        consumed, capacity = self._consumed[device.id], device.device.capacity
        return all(consumed[name] + a <= capacity[name].value for name, a in amounts.items())

    def change(self, request: DeviceSubRequest, device: PooledDevice, sign: int) -> None:
        """Allocates a device (1), or deallocates it (-1)."""
        if device.device.allows_sharing:
            self._change_share(request, device, sign)
        elif not request.admin_access:
            change = self._allocated.add if sign > 0 else self._allocated.discard
            change(device.id)
            self._consume_counters(device, sign)

    def _change_share(self, request: DeviceSubRequest, device: PooledDevice, sign: int) -> None:
        before = self._shares[device.id]
        self._shares[device.id] += sign
        # The first share consumes the counters, and the last one releases them.
        if not before or not before + sign:
            self._consume_counters(device, sign)
        amounts = consumed_capacity(request, device.device, device.id[0]) or _NO_CAPACITY
        for name, amount in amounts.items():
            self._consumed[device.id][name] += sign * amount

    def _consume_counters(self, device: PooledDevice, sign: int) -> None:
        for counter, amount in device.consumes:
            self._counters[counter] -= sign * amount
