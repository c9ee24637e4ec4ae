"""Users of claims, and volumes that decisions have reserved and the cluster does not show yet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from pumice.core.cache.store import ObjectStores
from pumice.core.cache.tasks import Task
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

# The objects whose changes concern reservations and users of claims.
StorageObject = PersistentVolume | PersistentVolumeClaim | StorageClass


@dataclass(frozen=True, slots=True)
class ReservedVolume:
    """A volume that a decision gives to a claim."""

    name: str
    claim_key: str
    claim_uid: str


class Ledger(ABC):
    """What sessions reserve for pods.

    It is reserved until the session ends. If the pod was bound, it stays reserved until the cluster
    shows it, or the decision fails, or the pod is gone.
    """

    def __init__(self) -> None:
        # Pods of the running session that took something.
        self._open: dict[str, None] = {}
        # Grows with every change.
        self.version = 0

    @abstractmethod
    def unreserve(self, pod_uid: str) -> None:
        """Frees what is reserved for a pod."""

    def is_open(self, pod_uid: str) -> bool:
        return pod_uid in self._open

    def close(self, decided: Container[str]) -> None:
        """The session is over: only reservations of pods that were decided on are kept."""
        for pod_uid in list(self._open):
            if pod_uid not in decided:
                self.unreserve(pod_uid)
        self._open.clear()


class VolumeLedger(Ledger):
    """Volumes given to claims, and nodes chosen for claims that shall get a new volume."""

    def __init__(self) -> None:
        super().__init__()
        self._volumes: dict[str, tuple[ReservedVolume, str]] = {}
        self._nodes: dict[str, tuple[str, str]] = {}

    def reserved(self, volume_name: str) -> ReservedVolume | None:
        known = self._volumes.get(volume_name)
        return None if known is None else known[0]

    def node_for(self, claim_key: str) -> str:
        """The node at which the claim's volume shall be made; empty: not decided."""
        known = self._nodes.get(claim_key)
        return "" if known is None else known[0]

    def reserve(
        self, pod_uid: str, volumes: Iterable[ReservedVolume], claims: Iterable[str], node: str
    ) -> None:
        """Reserves volumes and nodes for a pod; a reservation of another pod is kept."""
        for volume in volumes:
            self._volumes.setdefault(volume.name, (volume, pod_uid))
        for claim in claims:
            self._nodes.setdefault(claim, (node, pod_uid))
        self._open[pod_uid] = None
        self.version += 1

    def unreserve(self, pod_uid: str) -> None:
        self._volumes = {k: v for k, v in self._volumes.items() if v[1] != pod_uid}
        self._nodes = {k: v for k, v in self._nodes.items() if v[1] != pod_uid}
        self._open.pop(pod_uid, None)
        self.version += 1

    def failed(self, pod_uid: str) -> None:
        """The decision about the pod failed, or the pod is gone."""
        if self._volumes or self._nodes:
            self.unreserve(pod_uid)

    def memory(
        self,
    ) -> tuple[tuple[tuple[ReservedVolume, str], ...], tuple[tuple[str, str, str], ...]]:
        """Volumes with their pods; claims with their nodes and pods."""
        claims = tuple((claim, node, pod) for claim, (node, pod) in self._nodes.items())
        return tuple(self._volumes.values()), claims

    def remember(
        self,
        volumes: Iterable[tuple[ReservedVolume, str]],
        claims: Iterable[tuple[str, str, str]],
    ) -> None:
        self._volumes = {volume.name: (volume, pod) for volume, pod in volumes}
        self._nodes = {claim: (node, pod) for claim, node, pod in claims}
        self.version += 1

    def updated(self, item: StorageObject) -> None:
        """An update from the cluster ends a reservation."""
        match item:
            case PersistentVolume():
                self._volumes.pop(item.name, None)
            case PersistentVolumeClaim():
                self._nodes.pop(item.key, None)
            case StorageClass():
                pass
        self.version += 1


class VolumeUsers:
    """Tasks by the claims they name: how many volumes they attach depends on these."""

    def __init__(self) -> None:
        self._by_claim: dict[str, dict[str, Task]] = {}
        self._claim_of_volume: dict[str, str] = {}
        self._outdated: dict[str, None] = {}

    def add(self, task: Task) -> None:
        for key in _claims(task):
            self._by_claim.setdefault(key, {})[task.uid] = task

    def remove(self, task: Task) -> None:
        for key in _claims(task):
            users = self._by_claim.get(key, {})
            users.pop(task.uid, None)
            if not users:
                self._by_claim.pop(key, None)

    def updated(self, item: StorageObject, *, gone: bool) -> None:
        """The users of an object that has changed, or is gone, are looked at again."""
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


def _claims(task: Task) -> list[str]:
    pod = task.pod
    return [f"{pod.namespace}/{volume.claim_name}" for volume in pod.spec.volumes]


class StorageCache:
    """Volumes, claims and drivers of the cluster, their users, and what decisions have reserved."""

    def __init__(self, stores: ObjectStores) -> None:
        self.volumes = stores.make(PersistentVolume, "name")
        self.claims = stores.make(PersistentVolumeClaim, "namespace", "name")
        self.classes = stores.make(StorageClass, "name")
        self.csi_nodes = stores.make(CsiNode, "name")
        self.csi_drivers = stores.make(CsiDriver, "name")
        self.capacities = stores.make(CsiStorageCapacity, "namespace", "name")
        self.attachments = stores.make(VolumeAttachment, "name")
        self.ledger = VolumeLedger()
        self.users = VolumeUsers()

    def claims_of(self, pod: Pod) -> list[tuple[PodVolume, PersistentVolumeClaim | None]]:
        """The volumes of a pod with their claims, as far as these exist."""
        return [
            (volume, self.claims.get(f"{pod.namespace}/{volume.claim_name}"))
            for volume in pod.spec.volumes
        ]

    def updated(self, item: StorageObject, *, gone: bool) -> None:
        self.ledger.updated(item)
        self.users.updated(item, gone=gone)
