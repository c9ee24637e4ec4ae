"""Available volumes for claims, and where new ones can be provisioned."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pumice.core.model.fit import Mask
from pumice.core.model.selectors import NodeSelectorTerm
from pumice.core.model.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumePhase,
)
from pumice.core.session.session import Session

_NO_PROVISIONER = "kubernetes.io/no-provisioner"

_Choice = tuple[PersistentVolumeClaim, NDArray[np.intp]]


class VolumeSupply:
    """Lookups over volumes and storage classes in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._reached: dict[str, Mask | None] = {}

    def waits(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim is unbound and waits for its first consumer."""
        storage_class = self._class_of(claim)
        return (
            not claim.volume_name
            and storage_class is not None
            and storage_class.wait_for_first_consumer
        )

    def _class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        return self._session.cache.storage.classes.get(claim.storage_class_name or "")

    def reached_by(self, volume: PersistentVolume) -> Mask | None:
        """The nodes from which the volume can be used; None: all."""
        if volume.node_terms is None:
            return None
        if volume.name not in self._reached:
            # Only labels count: Kubernetes compares with a node that has nothing else.
            mask = np.zeros(len(self._session.table), dtype=np.bool_)
            for term in volume.node_terms:
                if term.label_requirements:
                    labels = NodeSelectorTerm(term.label_requirements)
                    mask |= self._session.labels.matches_term(labels)
                elif term.field_requirements:
                    mask[:] = True
            self._reached[volume.name] = mask
        return self._reached[volume.name]

    @cached_property
    def _by_class(self) -> dict[str, list[PersistentVolume]]:
        """The volumes of each class, the smallest first, then by name."""
        by_class: dict[str, list[PersistentVolume]] = {}
        volumes = self._session.cache.storage.volumes
        for volume in sorted(volumes, key=lambda v: (v.capacity_bytes, v.name)):
            by_class.setdefault(volume.storage_class_name, []).append(volume)
        return by_class

    def match(
        self,
        claim: PersistentVolumeClaim,
        asked: Mask,
        earlier: list[_Choice],
        numbers: dict[str, int],
    ) -> NDArray[np.intp]:
        """By row, the number of the volume that the claim would get; -1: none.

        What an earlier claim of the pod gets on a node is not there for it.
        """
        chosen = np.full(len(asked), -1, dtype=np.intp)
        mine: list[PersistentVolume] = []
        free: list[PersistentVolume] = []
        for volume in self._by_class.get(claim.storage_class_name or "", ()):
            owner = self._owner(volume)
            if not _suits(volume, claim):
                continue
            if owner is not None:
                if owner[0] == claim.key and owner[1] in ("", claim.uid):
                    mine.append(volume)
            elif _is_free_for(volume, claim):
                free.append(volume)
        left = asked.copy()
        # A volume that was set aside for the claim is the only one it can get.
        for volume in mine[:1] or free:
            number = numbers.setdefault(volume.name, len(numbers))
            reached = self.reached_by(volume)
            here = left if reached is None else left & reached
            for _, rows in earlier:
                here = here & (rows != number)
            chosen[here] = number
            left = left & ~here
            if not left.any():
                break
        return chosen

    def _owner(self, volume: PersistentVolume) -> tuple[str, str] | None:
        taken = self._session.cache.storage.ledger.get(volume.name)
        if taken is not None:
            return taken.claim_key, taken.claim_uid
        return (volume.claim_key, volume.claim_uid) if volume.claim_key else None

    def why_not_made(self, claim: PersistentVolumeClaim, asked: Mask) -> tuple[Mask, Mask]:
        """Where on the given nodes no volume can be provisioned, and where storage is short."""
        nowhere = np.zeros(len(asked), dtype=np.bool_)
        storage_class = self._class_of(claim)
        if storage_class is None or storage_class.provisioner in ("", _NO_PROVISIONER):
            return asked, nowhere
        unfit = nowhere
        if storage_class.allowed_topologies:
            allowed = self._session.labels.matches_any(storage_class.allowed_topologies)
            unfit = asked & ~allowed
        room = self._room(claim, storage_class)
        full = nowhere if room is None else asked & ~unfit & ~room
        return unfit, full

    def _room(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Mask | None:
        """Nodes with enough storage capacity for the claim; None: the driver publishes none."""
        cache = self._session.cache
        driver = cache.storage.csi_drivers.get(storage_class.provisioner)
        if driver is None or not driver.publishes_capacity or not claim.request_bytes:
            return None
        room = np.zeros(len(self._session.table), dtype=np.bool_)
        for capacity in cache.storage.capacities:
            # A largest size of volumes, where one is published, counts instead of what is free.
            largest = capacity.maximum_volume_bytes
            largest = largest if largest >= 0 else capacity.capacity_bytes
            is_of_class = capacity.storage_class_name == storage_class.name
            if not is_of_class or largest < claim.request_bytes:
                continue
            if capacity.node_selector is not None:
                reached = np.ones(len(room), dtype=np.bool_)
                for requirement in capacity.node_selector.requirements:
                    reached &= self._session.labels.matches(requirement)
                room |= reached
        return room


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (
        volume.capacity_bytes >= claim.request_bytes
        and volume.block_mode == claim.block_mode
        and volume.attributes_class_name == claim.attributes_class_name
        and not volume.terminating
    )


def _is_free_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (
        volume.phase is VolumePhase.AVAILABLE
        and (claim.selector is None or claim.selector.matches(volume.labels))
        and all(mode in volume.access_modes for mode in claim.access_modes)
    )
