"""Volume binding: finds volumes for the claims of a pod, or nodes where volumes can be provisioned."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.storage import VolumeReservation
from pumice.core.cache.tasks import Task
from pumice.core.decisions import VolumeChoice
from pumice.core.model.fit import Mask, Refusal
from pumice.core.model.selectors import NodeSelectorTerm
from pumice.core.model.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumePhase,
)
from pumice.core.plugins.predicates.filters import TaskFilter
from pumice.core.plugins.predicates.volume_filters import not_owner
from pumice.core.session.session import Session

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_Choice = tuple[PersistentVolumeClaim, NDArray[np.intp]]


@dataclass(slots=True)
class _Plan:
    """The volumes that the claims of a task would get on each node; masks are by row."""

    node_conflict: Mask
    no_volume: Mask
    nothing_to_bind: Mask
    no_space: Mask
    # The unbound claims in the order of the choice, each with the number of its volume by row; -1: a
    # volume has to be provisioned.
    choices: list[_Choice] = field(default_factory=list)
    # The numbers of volumes by name.
    numbers: dict[str, int] = field(default_factory=dict)


class VolumeBinding(TaskFilter):
    """Plans volume bindings for all nodes at once; a plan contains no reserved volumes."""

    name = "VolumeBinding"

    def __init__(self, session: Session) -> None:
        self._session = session
        self._reservations = session.cache.storage.reservations
        self._supply = VolumeSupply(session)
        self._last: tuple[str, int, _Plan] | None = None

    # Before nodes are filtered.

    def why_not_anywhere(self, task: Task) -> str | None:
        for volume, claim in self._session.cache.storage.claims_of(task.pod):
            if claim is None:
                if volume.ephemeral:
                    waiting = "waiting for ephemeral volume controller to create the"
                    return f'{waiting} persistentvolumeclaim "{volume.claim_name}"'
                return f'persistentvolumeclaim "{volume.claim_name}" not found'
            if claim.phase is VolumePhase.LOST:
                lost = f'bound to non-existent persistentvolume "{claim.volume_name}"'
                return f'persistentvolumeclaim "{claim.name}" {lost}'
            if claim.terminating:
                return f'persistentvolumeclaim "{claim.name}" is being deleted'
            if volume.ephemeral and claim.owner_uid != task.pod.uid:
                return not_owner(claim, task)
        if any(not (is_bound(c) or self._supply.waits(c)) for c in self._claims(task)):
            return UNBOUND_IMMEDIATE
        return None

    def _claims(self, task: Task) -> list[PersistentVolumeClaim]:
        known = self._session.cache.storage.claims_of(task.pod)
        return [claim for _, claim in known if claim is not None]

    # Over all nodes.

    def refusals(self, task: Task) -> list[Refusal]:
        plan = self._plan(task)
        of_bound = {NODE_CONFLICT: plan.node_conflict, NO_VOLUME: plan.no_volume}
        of_unbound = {NOTHING_TO_BIND: plan.nothing_to_bind, NO_SPACE: plan.no_space}
        # The nodes without a reason are under the empty text.
        of_bound[""] = ~(plan.node_conflict | plan.no_volume)
        of_unbound[""] = ~(plan.nothing_to_bind | plan.no_space)
        refusals = []
        for (first, one), (second, two) in product(of_bound.items(), of_unbound.items()):
            rows = one & two
            if (first or second) and rows.any():
                # Kubernetes reports a missing volume last.
                order = (second, first) if first == NO_VOLUME else (first, second)
                reason = ", ".join(filter(None, order))
                refusals.append(Refusal(reason, rows, unresolvable=True))
        return refusals

    def _plan(self, task: Task) -> _Plan:
        known = self._last
        version = self._reservations.version
        if known is not None and known[:2] == (task.uid, version):
            return known[2]
        none = np.zeros(len(self._session.table), dtype=np.bool_)
        plan = _Plan(none, none.copy(), none.copy(), none.copy())
        claims = self._claims(task)
        self._check_bound([c for c in claims if is_bound(c)], plan)
        self._find_unbound([c for c in claims if not is_bound(c)], plan)
        self._last = (task.uid, version, plan)
        return plan

    def _check_bound(self, claims: list[PersistentVolumeClaim], plan: _Plan) -> None:
        """Refuses nodes because of the first bound claim whose volume they cannot use."""
        rows = np.ones(len(self._session.table), dtype=np.bool_)
        for claim in claims:
            volume = self._session.cache.storage.volumes.get(claim.volume_name)
            if volume is None:
                plan.no_volume |= rows
                return
            reached = self._supply.reached_by(volume)
            if reached is not None:
                plan.node_conflict |= rows & ~reached
                rows &= reached

    def _find_unbound(self, claims: list[PersistentVolumeClaim], plan: _Plan) -> None:
        """Chooses volumes for unbound claims; a claim with a selected node gets a new volume there."""
        table = self._session.table
        rows = np.ones(len(table), dtype=np.bool_)
        provision = np.full(len(table), -1, dtype=np.intp)
        without_node = []
        for claim in claims:
            reservation = self._reservations.get(claim.key)
            node = claim.selected_node if reservation is None else reservation.node
            if not node:
                without_node.append(claim)
                continue
            plan.choices.append((claim, provision))
            selected = np.zeros(len(table), dtype=np.bool_)
            row = table.row_of(node)
            if row is not None:
                selected[row] = True
            plan.nothing_to_bind |= rows & ~selected
            rows &= selected
        for claim in sorted(without_node, key=lambda c: c.request_bytes):
            volumes = self._supply.match(claim, rows, plan.choices, plan.numbers)
            plan.choices.append((claim, volumes))
        for claim, volumes in plan.choices:
            unfit, full = self._supply.why_not_provisioned(claim, rows & (volumes < 0))
            plan.nothing_to_bind |= unfit
            plan.no_space |= full
            rows &= ~(unfit | full)

    # Reservations.

    def reserve(self, task: Task, row: int) -> str | None:
        plan = self._plan(task)
        if plan.nothing_to_bind[row] or plan.no_space[row]:
            return NOTHING_TO_BIND
        if not plan.choices:
            return None
        names = list(plan.numbers)
        # An empty name: a volume has to be provisioned.
        chosen = [(c, names[v[row]] if v[row] >= 0 else "") for c, v in plan.choices]
        node = self._session.table.names[row]
        reservations = [
            VolumeReservation(claim.key, claim.uid, name)
            if name
            else VolumeReservation(claim.key, node=node)
            for claim, name in chosen
        ]
        self._reservations.reserve(task.uid, {each.key: each for each in reservations})
        choices = tuple(VolumeChoice(claim.name, name) for claim, name in chosen)
        self._session.outbox.attach_volumes(task, choices)
        return None

    def unreserve(self, task: Task) -> None:
        if self._reservations.is_open(task.uid):
            self._reservations.unreserve(task.uid)
            self._session.outbox.attach_volumes(task, ())


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.volume_name) and claim.bind_completed


class VolumeSupply:
    """The free volumes, and the nodes where volumes can be provisioned, in one session."""

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
            # As in Kubernetes, only labels are compared; a term that has only fields matches every node.
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
        rows: Mask,
        earlier: list[_Choice],
        numbers: dict[str, int],
    ) -> NDArray[np.intp]:
        """By row, the number of the volume that the claim would get; -1: none.

        The claim does not get a volume that an earlier claim of the pod would get on the node.
        """
        chosen = np.full(len(rows), -1, dtype=np.intp)
        reserved: list[PersistentVolume] = []
        free: list[PersistentVolume] = []
        for volume in self._by_class.get(claim.storage_class_name or "", ()):
            owner = self._owner(volume)
            if not _suits(volume, claim):
                continue
            if owner is not None:
                if owner[0] == claim.key and owner[1] in ("", claim.uid):
                    reserved.append(volume)
            elif _is_free_for(volume, claim):
                free.append(volume)
        remaining = rows.copy()
        # A claim can only get the volume that is reserved for it, if there is one.
        for volume in reserved[:1] or free:
            number = numbers.setdefault(volume.name, len(numbers))
            reached = self.reached_by(volume)
            usable = remaining if reached is None else remaining & reached
            for _, volumes in earlier:
                usable = usable & (volumes != number)
            chosen[usable] = number
            remaining = remaining & ~usable
            if not remaining.any():
                break
        return chosen

    def _owner(self, volume: PersistentVolume) -> tuple[str, str] | None:
        """Key and uid of the claim for which the volume is reserved; None: there is none."""
        reservation = self._session.cache.storage.reservations.get(volume.name)
        if reservation is not None:
            return reservation.claim_key, reservation.claim_uid
        return (volume.claim_key, volume.claim_uid) if volume.claim_key else None

    def why_not_provisioned(self, claim: PersistentVolumeClaim, rows: Mask) -> tuple[Mask, Mask]:
        """The given nodes where no volume can be provisioned, and those with too little storage."""
        nowhere = np.zeros(len(rows), dtype=np.bool_)
        storage_class = self._class_of(claim)
        if storage_class is None or storage_class.provisioner in ("", _NO_PROVISIONER):
            return rows, nowhere
        unfit = nowhere
        if storage_class.allowed_topologies:
            allowed = self._session.labels.matches_any(storage_class.allowed_topologies)
            unfit = rows & ~allowed
        room = self._room(claim, storage_class)
        full = nowhere if room is None else rows & ~unfit & ~room
        return unfit, full

    def _room(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Mask | None:
        """Nodes with enough storage capacity for the claim; None: the driver publishes no capacity."""
        cache = self._session.cache
        driver = cache.storage.csi_drivers.get(storage_class.provisioner)
        if driver is None or not driver.publishes_capacity or not claim.request_bytes:
            return None
        room = np.zeros(len(self._session.table), dtype=np.bool_)
        for capacity in cache.storage.capacities:
            # If a maximum volume size is published, it counts instead of the free capacity.
            largest = capacity.maximum_volume_bytes
            largest = largest if largest >= 0 else capacity.capacity_bytes
            is_of_class = capacity.storage_class_name == storage_class.name
            if (
                is_of_class
                and largest >= claim.request_bytes
                and capacity.node_selector is not None
            ):
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
