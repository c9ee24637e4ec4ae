"""Writes reservations of volumes before a pod is bound, and undoes them if it is not bound.

An existing volume is reserved by its claimRef. For a volume that must be provisioned, the claim
names the selected node.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import msgspec

from pumice.adapters.kubernetes.reserved_objects import (
    JSON,
    ReservationError,
    ReservedObjects,
    retry_conflicts,
)
from pumice.adapters.kubernetes.resources import CLAIMS, NODES, VOLUMES
from pumice.adapters.kubernetes.session import METADATA_ONLY, ApiSession, Fence

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_BOUND: Final = "Bound"


class _Requirement(msgspec.Struct):
    """One requirement on a label or a field of a node."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Term(msgspec.Struct, rename="camel"):
    """A term, which is satisfied if all its requirements are."""

    match_expressions: list[_Requirement] | None = None
    match_fields: list[_Requirement] | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _ClaimRef(msgspec.Struct):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Required(msgspec.Struct, rename="camel"):
    node_selector_terms: list[_Term] | None = None


class _Affinity(msgspec.Struct):
    required: _Required | None = None


class _Spec(msgspec.Struct, rename="camel"):
    claim_ref: _ClaimRef | None = None
    volume_name: str = ""
    node_affinity: _Affinity | None = None


class _Status(msgspec.Struct):
    phase: str = ""


class _Object(msgspec.Struct):
    """The parts of a volume, a claim or a node that matter here."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    def annotation(self, name: str) -> str:
        return (self.metadata.annotations or {}).get(name, "")


_DECODE: Final = msgspec.json.Decoder(_Object).decode


class Undone(Enum):
    """The result of undoing a reservation."""

    DONE = "done"
    # There was nothing to undo.
    ABSENT = "absent"
    # The claim is bound, so the reservation has become a binding.
    TAKEN = "taken"


@dataclass(frozen=True, slots=True)
class Reservation:
    """A volume for a claim. Without a volume name, it is provisioned for the node."""

    namespace: str
    claim: str
    claim_uid: str
    volume: str
    node: str

    @property
    def claim_path(self) -> str:
        return CLAIMS.path(self.namespace, self.claim)


class ReservationWriter:
    """Writes and undoes reservations."""

    def __init__(self, api: ApiSession, fence: Fence, seconds: float) -> None:
        self._objects = ReservedObjects(api, fence, seconds)

    async def write(self, reservation: Reservation) -> None:
        """Raises ReservationError if the volume is not available, or KubernetesError."""
        if reservation.volume:
            await self._reserve_volume(reservation)
        else:
            await self._select_node(reservation)

    async def undo(self, reservation: Reservation) -> Undone:
        """Undoes a reservation. Raises KubernetesError."""
        undo = self._free_volume if reservation.volume else self._unselect_node
        return await retry_conflicts(lambda: undo(reservation))

    async def check_affinity(self, volume: str, node: str) -> None:
        """Raises ReservationError if the volume cannot be used on the node."""
        found = await self._read(VOLUMES.path(name=volume))
        if found is None:
            raise ReservationError(f"volume {volume} does not exist")
        affinity = found.spec.node_affinity
        if affinity is None or affinity.required is None:
            return
        held = await self._read(NODES.path(name=node), METADATA_ONLY)
        if held is None:
            raise ReservationError(f"node {node} does not exist")
        terms = affinity.required.node_selector_terms or []
        if not _is_satisfied(terms, node, held.metadata.labels or {}):
            raise ReservationError(f"the node affinity of volume {volume} excludes node {node}")

    # Existing volumes.

    async def _reserve_volume(self, reservation: Reservation) -> None:
        volume = await self._read(VOLUMES.path(name=reservation.volume))
        if volume is None:
            raise ReservationError(f"volume {reservation.volume} does not exist")
        ref = volume.spec.claim_ref
        if ref is not None and ref.uid == reservation.claim_uid:
            return
        metadata: dict[str, Any] = {"resourceVersion": volume.metadata.resource_version}
        if ref is None:
            # The annotation distinguishes our reservation from that of an administrator.
            metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
        elif ref.uid or (ref.namespace, ref.name) != (reservation.namespace, reservation.claim):
            text = f"volume {reservation.volume} is reserved for claim {ref.namespace}/{ref.name}"
            raise ReservationError(text)
        claim_ref = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": reservation.namespace,
            "name": reservation.claim,
            "uid": reservation.claim_uid,
        }
        patch = {"metadata": metadata, "spec": {"claimRef": claim_ref}}
        await self._objects.patch(VOLUMES.path(name=reservation.volume), patch)

    async def _free_volume(self, reservation: Reservation) -> Undone:
        path = VOLUMES.path(name=reservation.volume)
        volume = await self._read(path)
        ref = volume.spec.claim_ref if volume is not None else None
        if volume is None or ref is None or ref.uid != reservation.claim_uid:
            return Undone.ABSENT
        claim = await self._read(reservation.claim_path)
        is_present = claim is not None and claim.metadata.uid == reservation.claim_uid
        is_bound = claim is not None and bool(claim.spec.volume_name)
        if is_present and (is_bound or volume.status.phase == _BOUND):
            return Undone.TAKEN
        patch: dict[str, Any] = {"metadata": {"resourceVersion": volume.metadata.resource_version}}
        if volume.annotation(BOUND_BY_CONTROLLER):
            patch["metadata"]["annotations"] = {BOUND_BY_CONTROLLER: None}
            patch["spec"] = {"claimRef": None}
        else:
            patch["spec"] = {"claimRef": {"uid": None}}
        await self._objects.patch(path, patch)
        return Undone.DONE

    # Volumes that must be provisioned.

    async def _select_node(self, reservation: Reservation) -> None:
        claim = await self._read(reservation.claim_path)
        if claim is None or claim.metadata.uid != reservation.claim_uid:
            raise ReservationError(f"claim {reservation.claim} does not exist")
        if claim.annotation(SELECTED_NODE) != reservation.node and not claim.spec.volume_name:
            await self._annotate(reservation, claim, reservation.node)

    async def _unselect_node(self, reservation: Reservation) -> Undone:
        claim = await self._read(reservation.claim_path)
        if claim is None or claim.metadata.uid != reservation.claim_uid:
            return Undone.ABSENT
        if claim.spec.volume_name:
            return Undone.TAKEN
        if claim.annotation(SELECTED_NODE) != reservation.node:
            return Undone.ABSENT
        await self._annotate(reservation, claim, None)
        return Undone.DONE

    async def _annotate(self, reservation: Reservation, claim: _Object, node: str | None) -> None:
        metadata = {
            "uid": claim.metadata.uid,
            "resourceVersion": claim.metadata.resource_version,
            "annotations": {SELECTED_NODE: node},
        }
        await self._objects.patch(reservation.claim_path, {"metadata": metadata})

    async def _read(self, path: str, accept: str = JSON) -> _Object | None:
        return await self._objects.read(path, _DECODE, lambda item: item.metadata.uid, accept)


def _is_satisfied(terms: Sequence[_Term], name: str, labels: Mapping[str, str]) -> bool:
    """Whether any term is satisfied. A term without requirements never is."""
    return any(_term_is_satisfied(term, name, labels) for term in terms)


def _term_is_satisfied(term: _Term, name: str, labels: Mapping[str, str]) -> bool:
    expressions, fields = term.match_expressions or [], term.match_fields or []
    if not expressions and not fields:
        return False
    return all(_matches(r, labels) for r in expressions) and all(
        _matches(r, {"metadata.name": name}) for r in fields
    )


def _matches(requirement: _Requirement, labels: Mapping[str, str]) -> bool:
    held, values = labels.get(requirement.key), requirement.values or []
    match requirement.operator:
        case "In":
            return held in values
        case "NotIn":
            return held not in values
        case "Exists":
            return held is not None
        case "DoesNotExist":
            return held is None
        case "Gt" | "Lt":
            return _compares(requirement.operator, held, values)
        case _:
            return False


def _compares(operator: str, value: str | None, values: Sequence[str]) -> bool:
    try:
        found, bound = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return found > bound if operator == "Gt" else found < bound
