"""Devices of the cluster and claims for them, and what decisions have given to claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pumice.core.cache.device_catalog import DeviceCatalog
from pumice.core.cache.extended_resources import ExtendedResources
from pumice.core.cache.storage import Ledger
from pumice.core.cache.store import ObjectStores
from pumice.core.cache.tasks import Task
from pumice.core.model.devices import DeviceAllocation, DeviceClass, ResourceClaim, ResourceSlice
from pumice.core.model.memo import Versioned

# The key of a claim, the pod that it was allocated for, and the devices.
AssumedAllocation = tuple[str, str, DeviceAllocation]


class DeviceLedger(Ledger):
    """Devices given to claims by decisions, until the claim shows them."""

    def __init__(self) -> None:
        super().__init__()
        # By claim: the devices, and the pods that were decided on with them.
        self._given: dict[str, tuple[DeviceAllocation, dict[str, None]]] = {}

    def allocation_of(self, claim_key: str) -> DeviceAllocation | None:
        known = self._given.get(claim_key)
        return None if known is None else known[0]

    def allocations(self) -> Iterable[DeviceAllocation]:
        return [allocation for allocation, _ in self._given.values()]

    def reserve(self, pod_uid: str, allocations: Mapping[str, DeviceAllocation]) -> None:
        """Gives devices to claims of a pod; a claim that has some already keeps them."""
        for claim, allocation in allocations.items():
            self._given.setdefault(claim, (allocation, {}))[1][pod_uid] = None
        self._open[pod_uid] = None
        self.version += 1

    def unreserve(self, pod_uid: str) -> None:
        """What no other pod uses is free again."""
        for claim in [c for c, (_, pods) in self._given.items() if pod_uid in pods]:
            pods = self._given[claim][1]
            del pods[pod_uid]
            if not pods:
                del self._given[claim]
        self._open.pop(pod_uid, None)
        self.version += 1

    def failed(self, pod_uid: str) -> None:
        """The decision about the pod failed, or the pod is gone."""
        if self._given:
            self.unreserve(pod_uid)

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
        self.extended = ExtendedResources(self.classes)
        self.ledger = DeviceLedger()
        # Tasks that use claims, by uid.
        self.users: dict[str, Task] = {}
        # The devices that slices publish.
        slices = self.slices
        self.catalog = Versioned(lambda: slices.version, lambda: DeviceCatalog(slices)).get

    def claims_of(self, task: Task) -> list[ResourceClaim]:
        """The claims of a task that exist, each once."""
        names = dict.fromkeys(wanted.claim_name for wanted in task.pod.spec.resource_claims)
        found = (self.claims.get(f"{task.pod.namespace}/{name}") for name in names)
        return [claim for claim in found if claim is not None]
