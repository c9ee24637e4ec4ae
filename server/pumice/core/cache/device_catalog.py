"""The devices that slices publish, by the nodes that reach them, and what requests take of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from pumice.core.cel import CelError, MapValue, Quantity, Semver, compiled
from pumice.core.model.devices import (
    AttributeValue,
    CapacityPolicy,
    Device,
    DeviceCapacity,
    DeviceSubRequest,
    ResourceSlice,
    Version,
)
from pumice.core.model.quantities import THOUSAND, whole_units
from pumice.core.model.selectors import NodeSelectorTerm

DeviceId = tuple[str, str, str]
CounterId = tuple[str, str, str, str]
_EMPTY = MapValue({})


@dataclass(frozen=True, slots=True, eq=False)
class PooledDevice:
    """A device with its driver, its pool and the nodes that reach it."""

    id: DeviceId
    device: Device
    # One of these three says which nodes reach the device.
    node_name: str
    node_terms: tuple[NodeSelectorTerm, ...] | None
    all_nodes: bool
    # The amounts that it takes of counters, which the devices of the pool share.
    consumes: tuple[tuple[CounterId, int], ...]
    variables: Mapping[str, object]


class DeviceCatalog:
    """The devices of the newest generation of every pool that is complete."""

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self.by_node: dict[str, list[PooledDevice]] = {}
        # Devices that several nodes reach.
        self.shared: list[PooledDevice] = []
        self.counters: dict[CounterId, int] = {}
        self.by_id: dict[DeviceId, PooledDevice] = {}
        self._verdicts: dict[tuple[str, DeviceId], bool | str] = {}
        for members in _newest(slices):
            self._add_pool(members)

    def _add_pool(self, members: list[ResourceSlice]) -> None:
        names = [device.name for part in members for device in part.devices]
        # A name that occurs twice identifies no device.
        if len(members) != members[0].slice_count or len(set(names)) != len(names):
            return
        for part in members:
            for counters in part.counters:
                for name, amount in counters.counters:
                    self.counters[part.driver, part.pool, counters.name, name] = amount
            for device in part.devices:
                self._add(_pooled(part, device))

    def _add(self, device: PooledDevice) -> None:
        self.by_id[device.id] = device
        if device.node_name:
            self.by_node.setdefault(device.node_name, []).append(device)
        elif device.all_nodes or device.node_terms is not None:
            self.shared.append(device)

    def matches(self, expression: str, device: PooledDevice) -> bool | str:
        """Whether an expression holds for a device; a text says why it cannot be evaluated."""
        key = (expression, device.id)
        known = self._verdicts.get(key)
        if known is None:
            known = self._verdicts[key] = _evaluated(expression, device.variables)
        return known


def _evaluated(expression: str, variables: Mapping[str, object]) -> bool | str:
    found = compiled(expression)
    if isinstance(found, str):
        return found
    try:
        return found.holds(variables)
    except CelError as error:
        return str(error)


def _newest(slices: Iterable[ResourceSlice]) -> list[list[ResourceSlice]]:
    """The slices of the newest generation of each pool, pools and slices by name."""
    pools: dict[tuple[str, str], list[ResourceSlice]] = {}
    for part in slices:
        pools.setdefault((part.driver, part.pool), []).append(part)
    result = []
    for _, members in sorted(pools.items()):
        newest = max(part.generation for part in members)
        latest = [part for part in members if part.generation == newest]
        result.append(sorted(latest, key=lambda part: part.name))
    return result


def _pooled(part: ResourceSlice, device: Device) -> PooledDevice:
    where: ResourceSlice | Device = device if part.per_device else part
    return PooledDevice(
        (part.driver, part.pool, device.name),
        device,
        where.node_name,
        where.node_terms,
        where.all_nodes,
        tuple(
            ((part.driver, part.pool, counters.name, name), amount)
            for counters in device.consumes
            for name, amount in counters.counters
        ),
        {"device": _variable(part.driver, device)},
    )


def _variable(driver: str, device: Device) -> MapValue:
    """The variable ``device`` of selectors."""
    amounts = {
        name: Quantity(Fraction(capacity.value, THOUSAND))
        for name, capacity in device.capacity.items()
    }
    attributes = {name: _value(value) for name, value in device.attributes.items()}
    return MapValue(
        {
            "driver": driver,
            "attributes": _by_domain(attributes),
            "capacity": _by_domain(amounts),
            "allowMultipleAllocations": device.allows_sharing,
        }
    )


def _value(value: AttributeValue) -> object:
    if not isinstance(value, Version):
        return value
    try:
        return Semver.parse(value.text)
    except CelError:
        return value.text


def _by_domain(values: Mapping[str, object]) -> MapValue:
    """Values of qualified names by domain and name; an unknown domain is empty."""
    domains: dict[object, dict[object, object]] = {}
    for name, value in values.items():
        domain, _, own = name.rpartition("/")
        domains.setdefault(domain, {})[own] = value
    found = {domain: MapValue(held) for domain, held in domains.items()}
    return MapValue(found, default=_EMPTY)


def consumed_capacity(
    wanted: DeviceSubRequest, device: Device, driver: str
) -> Mapping[str, int] | None:
    """The amount of every capacity that the request takes; None: the device cannot serve it.

    Of a capacity that is not requested, the request takes the default, or all of it.
    """
    asked = {name if "/" in name else f"{driver}/{name}": value for name, value in wanted.capacity}
    if not asked.keys() <= device.capacity.keys() or any(amount < 0 for amount in asked.values()):
        return None
    found = {}
    for name, capacity in device.capacity.items():
        amount = _amount(asked.get(name), capacity)
        if capacity.policy is not None and not _is_valid(amount, capacity.policy):
            return None
        found[name] = amount
    return found


def _amount(asked: int | None, capacity: DeviceCapacity) -> int:
    policy = capacity.policy
    if asked is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return asked
    if policy.minimum is not None:
        return _in_range(asked, policy.minimum, policy.step)
    # The smallest valid value that is large enough.
    return next((value for value in policy.valid_values if asked <= value), asked)


def _in_range(asked: int, minimum: int, step: int | None) -> int:
    if asked < minimum:
        return minimum
    if not step:
        return asked
    # Kubernetes counts steps in whole units.
    low, width = whole_units(minimum), whole_units(step)
    return (low - (low - whole_units(asked)) // width * width) * THOUSAND


def _is_valid(amount: int, policy: CapacityPolicy) -> bool:
    if policy.default is not None and amount == policy.default:
        return True
    if policy.minimum is not None or policy.maximum is not None or policy.step is not None:
        if policy.maximum is not None and amount > policy.maximum:
            return False
        low = whole_units(policy.minimum or 0)
        return not policy.step or (whole_units(amount) - low) % whole_units(policy.step) == 0
    return not policy.valid_values or amount in policy.valid_values
