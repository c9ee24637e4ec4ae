"""Devices of the cluster and claims for them, and what decisions have given to claims."""

from __future__ import annotations

from pumice.core.cache.device_catalog import DeviceCatalog
from pumice.core.cache.extended_resources import ExtendedResources
from pumice.core.cache.reservations import Reservations
from pumice.core.cache.store import ObjectStores
from pumice.core.cache.tasks import Task
from pumice.core.model.devices import DeviceAllocation, DeviceClass, ResourceClaim, ResourceSlice
from pumice.core.model.memo import Versioned


class DeviceCache:
    """Claims, slices and classes of devices."""

    def __init__(self, stores: ObjectStores) -> None:
        self.claims = stores.make(ResourceClaim, "namespace", "name")
        self.slices = stores.make(ResourceSlice, "name")
        self.classes = stores.make(DeviceClass, "name")
        self.extended = ExtendedResources(self.classes)
        # Devices that decisions give to claims, by the key of the claim.
        self.ledger: Reservations[DeviceAllocation] = Reservations(shared=True)
        # Tasks that use claims, by uid.
        self.users: dict[str, Task] = {}
        # The devices that slices publish.
        slices = self.slices
        self.catalog = Versioned(lambda: slices.version, lambda: DeviceCatalog(slices)).get

    def updated(self, claim: ResourceClaim, *, gone: bool) -> None:
        """A reservation ends when the claim shows its devices, or is gone."""
        self.ledger.updated(claim.key if gone or claim.allocation is not None else "")

    def claims_of(self, task: Task) -> list[ResourceClaim]:
        """The claims of a task that exist, each once."""
        names = dict.fromkeys(wanted.claim_name for wanted in task.pod.spec.resource_claims)
        found = (self.claims.get(f"{task.pod.namespace}/{name}") for name in names)
        return [claim for claim in found if claim is not None]
