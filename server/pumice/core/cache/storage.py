"""Volumes and claims, the tasks that use them, and the reservations of volumes."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.core.cache.reservations import Reservations
from pumice.core.cache.store import ObjectStore, ObjectStores
from pumice.core.cache.tasks import Task
from pumice.core.model.integers import change_member
from pumice.core.model.pod import Pod, PodVolume
from pumice.core.model.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

# The objects whose changes concern reservations and the tasks that use claims.
StorageObject = PersistentVolume | PersistentVolumeClaim | StorageClass


@dataclass(frozen=True, slots=True)
class VolumeReservation:
    """What a decision gives to a claim: a volume, or the node for which one is to be provisioned."""

    claim_key: str
    claim_uid: str = ""
    volume_name: str = ""
    node: str = ""

    @property
    def key(self) -> str:
        """The name of the volume, or the key of the claim, which contains a slash."""
        return self.volume_name or self.claim_key


class VolumeUsers:
    """Tasks by the claims that they name; a change of a claim may change their task class."""

    def __init__(self, claims: ObjectStore[PersistentVolumeClaim]) -> None:
        self._claims = claims
        self._by_claim: dict[str, dict[str, Task]] = {}
        # Keys of claims and names of volumes that have changed.
        self._changed: set[str] = set()

    def change(self, task: Task, sign: int) -> None:
        """Adds a task (1), or removes it (-1)."""
        for volume in task.pod.spec.volumes:
            key = f"{task.pod.namespace}/{volume.claim_name}"
            change_member(self._by_claim, key, task.uid, task, sign)

    def updated(self, item: StorageObject) -> None:
        """Notes an object that has changed or is gone."""
        match item:
            case PersistentVolume():
                self._changed.update((item.name, item.claim_key))
            case PersistentVolumeClaim():
                self._changed.add(item.key)
            case StorageClass():
                self._changed.update(self._by_claim)

    def take_outdated(self) -> list[Task]:
        """The tasks whose claims, volumes or storage classes have changed since the last call."""
        if not self._changed:
            return []
        changed, self._changed = self._changed, set()
        tasks: dict[str, Task] = {}
        for key, users in self._by_claim.items():
            claim = self._claims.get(key)
            volume = claim.volume_name if claim is not None else ""
            if key in changed or (volume and volume in changed):
                tasks.update(users)
        return [tasks[uid] for uid in sorted(tasks)]


class StorageCache:
    """Volumes, claims and drivers of the cluster, the tasks that use them, and reservations."""

    def __init__(self, stores: ObjectStores) -> None:
        self.volumes = stores.make(PersistentVolume, "name")
        self.claims = stores.make(PersistentVolumeClaim, "namespace", "name")
        self.classes = stores.make(StorageClass, "name")
        self.csi_nodes = stores.make(CsiNode, "name")
        self.csi_drivers = stores.make(CsiDriver, "name")
        self.capacities = stores.make(CsiStorageCapacity, "namespace", "name")
        self.attachments = stores.make(VolumeAttachment, "name")
        self.reservations: Reservations[VolumeReservation] = Reservations(shared=False)
        self.users = VolumeUsers(self.claims)

    def claims_of(self, pod: Pod) -> list[tuple[PodVolume, PersistentVolumeClaim | None]]:
        """The volumes of a pod with their claims; None for a claim that does not exist."""
        return [
            (volume, self.claims.get(f"{pod.namespace}/{volume.claim_name}"))
            for volume in pod.spec.volumes
        ]

    def driver_of(self, claim_key: str) -> str:
        """The CSI driver of a claim's volume, or of its storage class; empty: it is not known."""
        claim = self.claims.get(claim_key)
        if claim is None:
            return ""
        volume = self.volumes.get(claim.volume_name) if claim.volume_name else None
        if volume is not None:
            return volume.csi_driver
        storage_class = self.classes.get(claim.storage_class_name or "")
        if storage_class is None:
            return ""
        return storage_class.csi_driver_name or storage_class.provisioner

    def updated(self, item: StorageObject) -> None:
        """Notes an object that has changed or is gone."""
        # A reservation has the name of a volume, or the key of a claim.
        shown = item.key if isinstance(item, PersistentVolumeClaim) else item.name
        self.reservations.updated("" if isinstance(item, StorageClass) else shown)
        self.users.updated(item)
