"""Extended resources that stand for devices of a class, and the claims that pods get for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

from pumice.core.cache.store import ObjectStore
from pumice.core.model.devices import (
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    RequestMapping,
    ResourceClaim,
)
from pumice.core.model.memo import Versioned
from pumice.core.model.pod import ContainerResources, Pod

# Every class also has the extended resource with this prefix and the name of the class.
IMPLICIT = "deviceclass.resource.kubernetes.io/"
_THOUSAND = 1000
# Kubernetes cuts generated names so that five characters can be added.
_LONGEST_BASE, _SUFFIX = 248, 5

# A claim for the extended resources of a pod, and which container gets which devices.
ExtendedClaim = tuple[ResourceClaim, tuple[RequestMapping, ...]]


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
    """Of several classes that name one resource, the newest has it."""
    ordered = sorted(classes, key=lambda c: (-c.creation_time_ns, c.name))
    found = {c.extended_resource_name: c.name for c in reversed(ordered)}
    found.pop("", None)
    return found


def claim_name(pod: Pod) -> str:
    """One pod has one such claim: after a restart it is found again by its name."""
    base = f"{pod.name}-extended-resources-"[:_LONGEST_BASE]
    return base + sha256(pod.uid.encode()).hexdigest()[:_SUFFIX]


class _Wanted:
    """Requests of a pod's containers for one extended resource, as Kubernetes makes them.

    Init containers that end use the devices of later containers, and share what they need beyond.
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
            if count := amounts.get(self._resource, 0) // _THOUSAND:
                yield number, container, count

    def _name(self, number: int) -> str:
        held = self._containers[number]
        names = sorted(name for name, _ in (*held.limits, *held.requests))
        return f"container-{number}-request-{names.index(self._resource)}"

    def _map(self, number: int, request: str) -> None:
        name = self._containers[number].name
        self.mappings.append(RequestMapping(name, self._resource, request))
