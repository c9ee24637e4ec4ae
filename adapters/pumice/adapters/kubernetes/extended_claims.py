"""Creates ResourceClaims for extended resources of pods, as the Kubernetes scheduler does."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pumice.adapters.kubernetes.claim_writer import (
    FINALIZER,
    Claim,
    Consumer,
    chosen_devices,
    devices_of,
)
from pumice.adapters.kubernetes.errors import NOT_FOUND, ApiError
from pumice.adapters.kubernetes.reserved_objects import (
    JSON,
    ReservationError,
    ReservedObjects,
    retry_conflicts,
)
from pumice.adapters.kubernetes.resources import PODS, RESOURCE_CLAIMS
from pumice.adapters.kubernetes.session import ApiSession, Fence
from pumice.v1.decision_pb2 import ResourceClaimChoice
from pumice.v1.devices_pb2 import DeviceRequest

ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
_STATUS: Final = "extendedResourceClaimStatus"
_DECODE: Final = msgspec.json.Decoder(dict[str, Any]).decode


class ExtendedClaimWriter:
    """Creates and deletes the claims, and writes their names to the status of their pods."""

    def __init__(self, api: ApiSession, fence: Fence, seconds: float) -> None:
        self._objects = ReservedObjects(api, fence, seconds)

    async def make(self, pod: Consumer, choice: ResourceClaimChoice) -> str:
        """The uid of the claim, which is created unless an equal one exists.

        Raises ReservationError if the claim cannot be used, or KubernetesError.
        """
        return await retry_conflicts(lambda: self._make(pod, choice))

    async def _make(self, pod: Consumer, choice: ResourceClaimChoice) -> str:
        claim = await self._read(RESOURCE_CLAIMS.path(pod.namespace, choice.claim))
        if claim is not None:
            if not _is_owned(claim, pod):
                raise ReservationError(f"claim {choice.claim} belongs to another owner")
            if claim["metadata"].get("deletionTimestamp"):
                raise ReservationError(f"claim {choice.claim} is being deleted")
            if _is_equal(claim, choice):
                return str(claim["metadata"]["uid"])
            await self._delete(pod, claim)
        body = await self._objects.create(
            RESOURCE_CLAIMS.path(pod.namespace), _claim(pod, choice), JSON
        )
        return str(_DECODE(body)["metadata"]["uid"])

    async def write_name(self, pod: Consumer, choice: ResourceClaimChoice) -> None:
        """Writes the mapping of containers to device requests to the status of the pod."""
        mappings = [
            {"containerName": m.container, "resourceName": m.resource, "requestName": m.request}
            for m in choice.mappings
        ]
        status = {"resourceClaimName": choice.claim, "requestMappings": mappings}
        body = await self._patch_pod(pod, status)
        if not _DECODE(body).get("status", {}).get(_STATUS):
            raise ReservationError(
                f"the API server does not store status.{_STATUS} of pods: its feature gate"
                " DRAExtendedResource is off"
            )

    async def undo(self, pod: Consumer, claim_name: str) -> None:
        """Deletes the claim and its name in the status of the pod. Raises KubernetesError."""
        await retry_conflicts(lambda: self._undo(pod, claim_name))

    async def _undo(self, pod: Consumer, claim_name: str) -> None:
        claim = await self._read(RESOURCE_CLAIMS.path(pod.namespace, claim_name))
        if claim is not None and _is_owned(claim, pod):
            await self._delete(pod, claim)
        found = await self._read(PODS.path(pod.namespace, pod.name))
        if found is None or found["metadata"]["uid"] != pod.uid:
            return
        named = found.get("status", {}).get(_STATUS) or {}
        if named.get("resourceClaimName") == claim_name:
            await self._patch_pod(pod, None)

    # Calls.

    async def _delete(self, pod: Consumer, claim: Claim) -> None:
        metadata = claim["metadata"]
        path = RESOURCE_CLAIMS.path(pod.namespace, metadata["name"])
        left = [name for name in metadata.get("finalizers") or [] if name != FINALIZER]
        if len(left) != len(metadata.get("finalizers") or []):
            version = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
            await self._objects.patch(path, {"metadata": {**version, "finalizers": left or None}})
        try:
            await self._objects.delete(path, metadata["uid"])
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise

    async def _patch_pod(self, pod: Consumer, status: Mapping[str, Any] | None) -> bytes:
        path = PODS.path(pod.namespace, pod.name, "status")
        patch = {"metadata": {"uid": pod.uid}, "status": {_STATUS: status}}
        return await self._objects.patch(path, patch, JSON)

    async def _read(self, path: str) -> Claim | None:
        return await self._objects.read(path, _DECODE, _uid_of, JSON)


def _uid_of(item: Claim) -> str:
    metadata = item.get("metadata")
    return str(metadata.get("uid") or "") if isinstance(metadata, dict) else ""


def _is_owned(claim: Claim, pod: Consumer) -> bool:
    metadata = claim["metadata"]
    return (metadata.get("annotations") or {}).get(ANNOTATION) == "true" and any(
        owner.get("controller") and owner.get("uid") == pod.uid
        for owner in metadata.get("ownerReferences") or []
    )


def _is_equal(claim: Claim, choice: ResourceClaimChoice) -> bool:
    """Whether the claim has the decided requests, and no other devices."""
    requests = claim.get("spec", {}).get("devices", {}).get("requests") or []
    held = [(r.get("name"), *_asked(r.get("exactly") or {})) for r in requests]
    wanted = [(r.name, r.exactly.device_class_name, r.exactly.count or 1) for r in choice.requests]
    allocation = claim.get("status", {}).get("allocation")
    given = allocation is None or devices_of(allocation) == chosen_devices(choice.allocation)
    return held == wanted and given


def _asked(exactly: Mapping[str, Any]) -> tuple[Any, Any]:
    return exactly.get("deviceClassName"), exactly.get("count", 1)


def _claim(pod: Consumer, choice: ResourceClaimChoice) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
    return {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": "ResourceClaim",
        "metadata": {
            "name": choice.claim,
            "namespace": pod.namespace,
            "annotations": {ANNOTATION: "true"},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"devices": {"requests": [_request(held) for held in choice.requests]}},
    }


def _request(request: DeviceRequest) -> dict[str, Any]:
    exactly = {
        "deviceClassName": request.exactly.device_class_name,
        "allocationMode": "ExactCount",
        "count": request.exactly.count,
    }
    return {"name": request.name, "exactly": exactly}
