"""Devices of the cluster and claims for them, and what decisions have given to claims."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from pumice.core.cache.device_catalog import DeviceCatalog
from pumice.core.cache.store import ObjectStores
from pumice.core.cache.tasks import Task
from pumice.core.model.devices import DeviceAllocation, DeviceClass, ResourceClaim, ResourceSlice

# Extended resources that stand for devices of a class, which their names end with.
_IMPLICIT = "deviceclass.resource.kubernetes.io/"
# The key of a claim, the pod that it was allocated for, and the devices.
AssumedAllocation = tuple[str, str, DeviceAllocation]


class DeviceLedger:
    """Devices given to claims by decisions, until the claim shows them.

    What a session gives is undone when the session ends without a decision about the pod. Else it
    holds until the claim is allocated in the cluster, the decision fails, or the pod is gone.
    """

    def __init__(self) -> None:
        # By claim: the devices, and the pods that were decided on with them.
        self._given: dict[str, tuple[DeviceAllocation, dict[str, None]]] = {}
        self._open: dict[str, None] = {}
        # Grows with every change.
        self.version = 0

    def allocation_of(self, claim_key: str) -> DeviceAllocation | None:
        known = self._given.get(claim_key)
        return None if known is None else known[0]

    def allocations(self) -> Iterable[DeviceAllocation]:
        return [allocation for allocation, _ in self._given.values()]

    def take(self, pod_uid: str, allocations: Mapping[str, DeviceAllocation]) -> None:
        """Gives devices to claims of a pod; a claim that has some already keeps them."""
        for claim, allocation in allocations.items():
            self._given.setdefault(claim, (allocation, {}))[1][pod_uid] = None
        self._open[pod_uid] = None
        self.version += 1

    def give_back(self, pod_uid: str) -> None:
        """What no other pod uses is free again."""
        for claim in [c for c, (_, pods) in self._given.items() if pod_uid in pods]:
            pods = self._given[claim][1]
            del pods[pod_uid]
            if not pods:
                del self._given[claim]
        self._open.pop(pod_uid, None)
        self.version += 1

    def is_open(self, pod_uid: str) -> bool:
        return pod_uid in self._open

    def close(self, decided: Container[str]) -> None:
        """The session is over: only what was given to pods that were decided on is kept."""
        for pod_uid in list(self._open):
            if pod_uid not in decided:
                self.give_back(pod_uid)
        self._open.clear()

    def failed(self, pod_uid: str) -> None:
        """The decision about the pod failed, or the pod is gone."""
        if self._given:
            self.give_back(pod_uid)

    def updated(self, claim: ResourceClaim, *, gone: bool = False) -> None:
        """The claim shows its own devices, or is gone."""
        if gone or claim.allocation is not None:
            self._given.pop(claim.key, None)
        self.version += 1

    def memory(self) -> tuple[AssumedAllocation, ...]:
        return tuple(
            (claim, pod, allocation)
            for claim, (allocation, pods) in self._given.items()
            for pod in pods
        )

    def remember(self, given: Iterable[AssumedAllocation]) -> None:
        self._given = {}
        for claim, pod, allocation in given:
            self._given.setdefault(claim, (allocation, {}))[1][pod] = None
        self.version += 1


class DeviceCache:
    """Claims, slices and classes of devices."""

    def __init__(self, stores: ObjectStores) -> None:
        self.claims = stores.make(ResourceClaim, "namespace", "name")
        self.slices = stores.make(ResourceSlice, "name")
        self.classes = stores.make(DeviceClass, "name")
        self.ledger = DeviceLedger()
        # Tasks that use claims, by uid.
        self.users: dict[str, Task] = {}
        self._catalog: tuple[int, DeviceCatalog] | None = None

    def class_behind(self, resource: str) -> str:
        """The device class whose devices an extended resource stands for; empty: none."""
        named = resource.removeprefix(_IMPLICIT) if resource.startswith(_IMPLICIT) else ""
        if named in self.classes:
            return named
        return next((c.name for c in self.classes if c.extended_resource_name == resource), "")

    def claims_of(self, task: Task) -> list[ResourceClaim]:
        """The claims of a task that exist, each once."""
        names = dict.fromkeys(wanted.claim_name for wanted in task.pod.spec.resource_claims)
        found = (self.claims.get(f"{task.pod.namespace}/{name}") for name in names)
        return [claim for claim in found if claim is not None]

    def catalog(self) -> DeviceCatalog:
        """The devices that slices publish; kept until a slice changes."""
        if self._catalog is None or self._catalog[0] != self.slices.version:
            self._catalog = (self.slices.version, DeviceCatalog(self.slices))
        return self._catalog[1]
