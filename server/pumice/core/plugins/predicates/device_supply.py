"""What is left of the devices that a node reaches, during a search."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from pumice.core.cache.device_capacity import consumed_capacity
from pumice.core.cache.device_catalog import CounterId, DeviceCatalog, DeviceId, PooledDevice
from pumice.core.model.devices import DeviceSubRequest


@dataclass(frozen=True, slots=True)
class DevicesInUse:
    """Devices that claims have as a whole, and what they have of devices that are shared."""

    whole: frozenset[DeviceId] = frozenset()
    # An empty name: the device is shared, and nothing of its capacities is taken.
    parts: tuple[tuple[DeviceId, str, int], ...] = ()

    def __or__(self, other: DevicesInUse) -> DevicesInUse:
        return DevicesInUse(self.whole | other.whole, self.parts + other.parts)

    def __sub__(self, other: DevicesInUse) -> DevicesInUse:
        left = Counter(self.parts) - Counter(other.parts)
        return DevicesInUse(self.whole - other.whole, tuple(left.elements()))


class DeviceSupply:
    """The devices of one search: those in use, and those that were taken."""

    def __init__(
        self, catalog: DeviceCatalog, devices: Iterable[PooledDevice], used: DevicesInUse
    ) -> None:
        self._used = used.whole
        self._taken: set[DeviceId] = set()
        # Of shared devices: how many have a part, and what is taken of their capacities.
        self._sharers = Counter[DeviceId]()
        self._parts: defaultdict[DeviceId, Counter[str]] = defaultdict(Counter)
        for id_, name, amount in used.parts:
            self._sharers[id_] = 1
            self._parts[id_][name] += amount
        self._left = self._count_left(catalog, devices)

    def _count_left(
        self, catalog: DeviceCatalog, devices: Iterable[PooledDevice]
    ) -> dict[CounterId, int]:
        """What is left of shared counters that devices of this node take."""
        wanted = {counter for device in devices for counter, _ in device.consumes}
        left = {counter: catalog.counters.get(counter, 0) for counter in wanted}
        for id_ in [*self._used, *self._sharers] if wanted else ():
            used = catalog.by_id.get(id_)
            for counter, amount in used.consumes if used is not None else ():
                if counter in left:
                    left[counter] -= amount
        return left

    def has(self, wanted: DeviceSubRequest, device: PooledDevice) -> bool:
        """Whether the request can have the device, or a part of it, now."""
        if not wanted.admin_access and not self._is_free(device):
            return False
        return self.has_capacity(wanted, device)

    def _is_free(self, device: PooledDevice) -> bool:
        if device.id in self._used or device.id in self._taken:
            return False
        # Those who share a device take its counters once.
        return bool(self._sharers[device.id]) or all(
            self._left.get(counter, 0) >= amount for counter, amount in device.consumes
        )

    def has_capacity(self, wanted: DeviceSubRequest, device: PooledDevice) -> bool:
        amounts = consumed_capacity(wanted, device.device, device.id[0])
        if amounts is None:
            return False
        parts, capacity = self._parts[device.id], device.device.capacity
        return all(parts[name] + a <= capacity[name].value for name, a in amounts.items())

    def change(self, wanted: DeviceSubRequest, device: PooledDevice, sign: int) -> None:
        """Takes a device (1), or puts it back (-1)."""
        if device.device.allows_sharing:
            self._change_parts(wanted, device, sign)
        elif not wanted.admin_access:
            change = self._taken.add if sign > 0 else self._taken.discard
            change(device.id)
            self._change_counters(device, -sign)

    def _change_parts(self, wanted: DeviceSubRequest, device: PooledDevice, sign: int) -> None:
        before = self._sharers[device.id]
        self._sharers[device.id] += sign
        # The first one takes the counters, and the last one puts them back.
        if not before or not before + sign:
            self._change_counters(device, -sign)
        for name, amount in (consumed_capacity(wanted, device.device, device.id[0]) or {}).items():
            self._parts[device.id][name] += sign * amount

    def _change_counters(self, device: PooledDevice, sign: int) -> None:
        for counter, amount in device.consumes:
            self._left[counter] += sign * amount
