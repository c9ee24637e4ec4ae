"""Claims for devices, reservations of devices, and extended resources that stand for devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

from pumice.core.cache.classes import ClassRegistry
from pumice.core.cache.device_catalog import DeviceCatalog, PooledDevice, consumed_capacity
from pumice.core.cache.labels import NodeLabels
from pumice.core.cache.nodes import NodeTable
from pumice.core.cache.reservations import Reservations
from pumice.core.cache.store import ObjectStore, ObjectStores
from pumice.core.cache.tasks import Task
from pumice.core.cache.validation import MAX_CLUSTER_RESOURCES
from pumice.core.model.devices import (
    DeviceAllocation,
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    RequestMapping,
    ResourceClaim,
    ResourceSlice,
)
from pumice.core.model.memo import Versioned
from pumice.core.model.pod import ContainerResources, Pod
from pumice.core.model.quantities import THOUSAND

# Every class also has the extended resource with this prefix and the name of the class.
IMPLICIT = "deviceclass.resource.kubernetes.io/"
# Kubernetes cuts generated names so that five characters can be added.
_LONGEST_BASE, _SUFFIX = 248, 5
# A claim for the extended resources of a pod, and which container gets which devices.
ExtendedClaim = tuple[ResourceClaim, tuple[RequestMapping, ...]]
# The number of pods that can share a device if none of them takes any of its capacity.
_MANY = 10_000


class DeviceCache:
    """Claims, slices and classes of devices."""

    def __init__(self, stores: ObjectStores) -> None:
        self.claims = stores.make(ResourceClaim, "namespace", "name")
        self.slices = stores.make(ResourceSlice, "name")
        self.classes = stores.make(DeviceClass, "name")
        self.extended = ExtendedResources(self.classes)
        # Devices that decisions give to claims, by the key of the claim.
        self.reservations: Reservations[DeviceAllocation] = Reservations(shared=True)
        # Tasks that use claims, by uid.
        self.users: dict[str, Task] = {}
        # The devices that slices publish.
        slices = self.slices
        self.catalog = Versioned(lambda: slices.version, lambda: DeviceCatalog(slices)).get

    def updated(self, claim: ResourceClaim, *, gone: bool) -> None:
        """Ends the reservation of a claim that shows its devices, or is gone."""
        self.reservations.updated(claim.key if gone or claim.allocation is not None else "")

    def claims_of(self, task: Task) -> list[ResourceClaim]:
        """The claims of a task that exist, each once."""
        names = dict.fromkeys(wanted.claim_name for wanted in task.pod.spec.resource_claims)
        found = (self.claims.get(f"{task.pod.namespace}/{name}") for name in names)
        return [claim for claim in found if claim is not None]


class ExtendedResources:
    """Device classes by the extended resources that stand for them."""

    def __init__(self, classes: ObjectStore[DeviceClass]) -> None:
        self._classes = classes
        # Classes by the extended resource that they name.
        self.named = Versioned(lambda: classes.version, lambda: _by_resource(classes)).get

    def class_behind(self, resource: str) -> str:
        """The device class whose devices an extended resource stands for; empty: none."""
        implicit = resource.removeprefix(IMPLICIT) if resource.startswith(IMPLICIT) else ""
        return implicit if implicit in self._classes else self.named().get(resource, "")

    def of(self, requests: Iterable[tuple[str, int]]) -> list[str]:
        """The requested resources that stand for devices."""
        if not len(self._classes):
            return []
        return [name for name, amount in requests if amount and self.class_behind(name)]

    def claim_for(self, pod: Pod, resources: Sequence[str]) -> ExtendedClaim:
        """A claim for the devices that some extended resources stand for; it may not exist yet."""
        requests: dict[str, DeviceRequest] = {}
        mappings: list[RequestMapping] = []
        for resource in sorted(resources):
            wanted = _Wanted(pod.spec.containers, resource)
            class_ = self.class_behind(resource)
            for name, count in wanted.counts.items():
                exactly = DeviceSubRequest(device_class_name=class_, count=count)
                requests[name] = DeviceRequest(name, exactly)
            mappings += wanted.mappings
        ordered = tuple(requests[name] for name in sorted(requests))
        return ResourceClaim(
            pod.uid, pod.namespace, claim_name(pod), owner_uid=pod.uid, requests=ordered
        ), tuple(mappings)


def _by_resource(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Classes by the resource that they name; of several the newest."""
    ordered = sorted(classes, key=lambda c: (-c.creation_time_ns, c.name))
    found = {c.extended_resource_name: c.name for c in reversed(ordered)}
    found.pop("", None)
    return found


def claim_name(pod: Pod) -> str:
    """The name of a pod's claim for extended resources; a restarted core finds the claim by it."""
    base = f"{pod.name}-extended-resources-"[:_LONGEST_BASE]
    return base + sha256(pod.uid.encode()).hexdigest()[:_SUFFIX]


class _Wanted:
    """Requests of a pod's containers for one extended resource, as Kubernetes makes them.

    Init containers that end use the devices of later containers. If they need more devices, they
    share one further request.
    """

    def __init__(self, containers: Sequence[ContainerResources], resource: str) -> None:
        self._resource = resource
        # Init containers have the lower numbers.
        self._containers = sorted(containers, key=lambda container: not container.init)
        self.counts: dict[str, int] = {}
        self.mappings: list[RequestMapping] = []
        lasting = {i: n for i, c, n in self._asking() if not c.init or c.sidecar}
        for number, count in lasting.items():
            self.counts[self._name(number)] = count
            self._map(number, self._name(number))
        self._add_ending(lasting)

    def _add_ending(self, lasting: dict[int, int]) -> None:
        extra: dict[int, int] = {}
        for number, _, count in self._asking():
            if number in lasting:
                continue
            missing = count
            for later, reusable in lasting.items():
                if later > number and missing > 0:
                    self._map(number, self._name(later))
                    missing -= reusable
            if missing > 0:
                extra[number] = missing
        if extra:
            most = max(extra, key=lambda number: extra[number])
            self.counts[self._name(most)] = extra[most]
            for number in extra:
                self._map(number, self._name(most))

    def _asking(self) -> Iterator[tuple[int, ContainerResources, int]]:
        for number, container in enumerate(self._containers):
            amounts = dict((*container.limits, *container.requests))
            if count := amounts.get(self._resource, 0) // THOUSAND:
                yield number, container, count

    def _name(self, number: int) -> str:
        held = self._containers[number]
        names = sorted(name for name, _ in (*held.limits, *held.requests))
        return f"container-{number}-request-{names.index(self._resource)}"

    def _map(self, number: int, request: str) -> None:
        name = self._containers[number].name
        self.mappings.append(RequestMapping(name, self._resource, request))


class DeviceOffers:
    """Counts the devices of each class that nodes reach.

    The count is an upper bound: a device counts on every node that reaches it, even while a claim
    has it. The search at the placement of a pod finds out which devices are free.
    """

    def __init__(
        self, devices: DeviceCache, table: NodeTable, labels: NodeLabels, classes: ClassRegistry
    ) -> None:
        self._devices, self._table, self._labels = devices, table, labels
        self._classes = classes
        self._version: tuple[int, ...] = ()
        self._offering: dict[str, dict[str, int]] = {}

    def update(self) -> None:
        """Tells the node table what nodes offer now; the table is settled."""
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
                amount = THOUSAND * _pods_with(device)
                for name in self._nodes_of(device):
                    amounts = found.setdefault(name, {})
                    amounts[resource] = amounts.get(resource, 0) + amount
        for name in dict.fromkeys((*self._offering, *found)):
            table.set_devices(name, tuple(sorted(found.get(name, {}).items())))
        self._offering = found

    def _resources(self) -> list[str]:
        """The extended resources that classes name, and the implicit ones that pods ask for."""
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
    """How many pods can share the device, if each takes the default of its capacities."""
    if any(mark.taint.repels for mark in device.device.taints):
        return 0
    if not device.device.allows_sharing:
        return 1
    amounts = consumed_capacity(DeviceSubRequest(), device.device, device.id[0])
    if amounts is None:
        return 0
    capacity = device.device.capacity
    shares = (capacity[name].value // amount for name, amount in amounts.items() if amount)
    return min(shares, default=_MANY)
