"""How much nodes offer of extended resources that stand for devices."""

from __future__ import annotations

from collections.abc import Iterable

from pumice.core.cache.classes import ClassRegistry
from pumice.core.cache.device_capacity import consumed_capacity
from pumice.core.cache.device_catalog import PooledDevice
from pumice.core.cache.devices import DeviceCache
from pumice.core.cache.extended_resources import IMPLICIT
from pumice.core.cache.labels import NodeLabels
from pumice.core.cache.nodes import NodeTable
from pumice.core.cache.validation import MAX_CLUSTER_RESOURCES
from pumice.core.model.devices import DeviceSubRequest
from pumice.core.model.selectors import TaintEffect

_REPELLING = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)
_THOUSAND = 1000
# Pods that can share a device of which none takes anything.
_MANY = 10_000


class DeviceOffers:
    """Counts the devices of each class that nodes reach.

    The count is an upper bound: a device that several nodes reach counts on each of them, and
    claims may hold some. Which devices are free is found when a pod is placed.
    """

    def __init__(
        self, devices: DeviceCache, table: NodeTable, labels: NodeLabels, classes: ClassRegistry
    ) -> None:
        self._devices, self._table, self._labels = devices, table, labels
        self._classes = classes
        self._version: tuple[int, ...] = ()
        self._offering: dict[str, dict[str, int]] = {}

    def update(self) -> None:
        """Tells the table what nodes offer now; its rows are in order."""
        if not len(self._devices.classes) and not self._offering:
            return
        table, devices = self._table, self._devices
        labels = table.labels_version if devices.catalog().shared else 0
        stores = (devices.classes.version, devices.slices.version)
        version = (*stores, self._classes.made, table.layout, labels)
        if version == self._version:
            return
        self._version = version
        found: dict[str, dict[str, int]] = {}
        for resource in self._resources():
            for device in self._devices_behind(resource):
                amount = _THOUSAND * _pods_with(device)
                for name in self._nodes_of(device):
                    amounts = found.setdefault(name, {})
                    amounts[resource] = amounts.get(resource, 0) + amount
        for name in dict.fromkeys((*self._offering, *found)):
            table.set_extra(name, devices=tuple(sorted(found.get(name, {}).items())))
        self._offering = found

    def _resources(self) -> list[str]:
        """Those that classes name, and of the others those that pods ask for."""
        extended = self._devices.extended
        asked = {
            name
            for class_ in self._classes
            for name, _ in class_.spec.requests
            if name.startswith(IMPLICIT) and extended.class_behind(name)
        }
        offered = self._table.offering_nodes
        names = sorted(asked.union(extended.named()), key=lambda name: (name not in offered, name))
        known = sum(1 for name in names if name in offered)
        return names[: max(known + MAX_CLUSTER_RESOURCES - len(offered), known)]

    def _devices_behind(self, resource: str) -> Iterable[PooledDevice]:
        devices, catalog = self._devices, self._devices.catalog()
        class_ = devices.classes.get(devices.extended.class_behind(resource))
        assert class_ is not None
        for device in catalog.by_id.values():
            if all(catalog.matches(selector, device) is True for selector in class_.selectors):
                yield device

    def _nodes_of(self, device: PooledDevice) -> Iterable[str]:
        if device.node_name:
            return (device.node_name,)
        names = self._table.names
        if device.node_terms is None:
            return names if device.all_nodes else ()
        reached = self._labels.matches_any(device.node_terms)
        return [name for name, reaches in zip(names, reached.tolist(), strict=True) if reaches]


def _pods_with(device: PooledDevice) -> int:
    """How many pods can have the device at the same time, each without saying how much of it."""
    if any(mark.taint.effect in _REPELLING for mark in device.device.taints):
        return 0
    if not device.device.allows_sharing:
        return 1
    amounts = consumed_capacity(DeviceSubRequest(), device.device, device.id[0])
    if amounts is None:
        return 0
    capacity = device.device.capacity
    shares = (capacity[name].value // amount for name, amount in amounts.items() if amount)
    return min(shares, default=_MANY)
