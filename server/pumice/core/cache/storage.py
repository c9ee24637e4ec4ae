"""Volumes and claims, the tasks that use them, and the reservations of volumes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pumice.core.cache.reservations import Reservations
from pumice.core.cache.store import ObjectStores
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

    def __init__(self) -> None:
        self._by_claim: dict[str, dict[str, Task]] = {}
        self._claim_of_volume: dict[str, str] = {}
        self._outdated: dict[str, None] = {}

    def change(self, task: Task, sign: int) -> None:
        """Adds a task (1), or removes it (-1)."""
        for volume in task.pod.spec.volumes:
            key = f"{task.pod.namespace}/{volume.claim_name}"
            change_member(self._by_claim, key, task.uid, task, sign)

    def updated(self, item: StorageObject, *, gone: bool) -> None:
        """Marks the tasks that use an object which has changed or is gone."""
        match item:
            case PersistentVolume():
                for key in (item.claim_key, self._claim_of_volume.get(item.name, "")):
                    self._outdated[key] = None
                if gone:
                    self._claim_of_volume.pop(item.name, None)
            case PersistentVolumeClaim():
                self._outdated[item.key] = None
                if not gone and item.volume_name:
                    self._claim_of_volume[item.volume_name] = item.key
                elif self._claim_of_volume.get(item.volume_name) == item.key:
                    del self._claim_of_volume[item.volume_name]
            case StorageClass():
                self._outdated.update(dict.fromkeys(self._by_claim))

    def take_outdated(self) -> Iterator[Task]:
        """The tasks whose claims, volumes or storage classes have changed since the last call."""
        if not self._outdated:
            return
        claims, self._outdated = self._outdated, {}
        tasks = {uid: task for key in claims for uid, task in self._by_claim.get(key, {}).items()}
        for uid in sorted(tasks):
            yield tasks[uid]


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
        self.ledger: Reservations[VolumeReservation] = Reservations(shared=False)
        self.users = VolumeUsers()

    def claims_of(self, pod: Pod) -> list[tuple[PodVolume, PersistentVolumeClaim | None]]:
        """The volumes of a pod with their claims; None for a claim that does not exist."""
        return [
            (volume, self.claims.get(f"{pod.namespace}/{volume.claim_name}"))
            for volume in pod.spec.volumes
        ]

    def updated(self, item: StorageObject, *, gone: bool) -> None:
        # A reservation has the name of a volume, or the key of a claim.
        shown = item.key if isinstance(item, PersistentVolumeClaim) else item.name
        self.ledger.updated("" if isinstance(item, StorageClass) else shown)
        self.users.updated(item, gone=gone)
