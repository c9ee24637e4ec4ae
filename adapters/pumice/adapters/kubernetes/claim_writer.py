"""Writes devices and consumers to ResourceClaims, and removes them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pumice.adapters.kubernetes.reserved_objects import (
    JSON,
    ReservationError,
    ReservedObjects,
    retry_conflicts,
)
from pumice.adapters.kubernetes.resources import DEVICE_CLASSES, RESOURCE_CLAIMS
from pumice.adapters.kubernetes.session import ApiSession, Fence
from pumice.v1.decision_pb2 import Bind, ResourceClaimChoice
from pumice.v1.devices_pb2 import AllocatedDevice, DeviceAllocation
from pumice.v1.selector_pb2 import (
    TOLERATION_OPERATOR_EXISTS,
    NodeSelector,
    Operator,
    Requirement,
    TaintEffect,
    Toleration,
)

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_THOUSAND: Final = 1000
_DECODE: Final = msgspec.json.Decoder(dict[str, Any]).decode
_OPERATORS: Final = {
    "OPERATOR_IN": "In",
    "OPERATOR_NOT_IN": "NotIn",
    "OPERATOR_EXISTS": "Exists",
    "OPERATOR_DOES_NOT_EXIST": "DoesNotExist",
    "OPERATOR_GREATER_THAN": "Gt",
    "OPERATOR_LESS_THAN": "Lt",
}
_EFFECTS: Final = {
    "TAINT_EFFECT_NO_SCHEDULE": "NoSchedule",
    "TAINT_EFFECT_PREFER_NO_SCHEDULE": "PreferNoSchedule",
    "TAINT_EFFECT_NO_EXECUTE": "NoExecute",
}

Claim = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Consumer:
    """A pod that uses claims."""

    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, order: Bind) -> "Consumer":
        return cls(order.namespace, order.name, order.uid)

    def is_in(self, claim: Claim) -> bool:
        return any(held.get("uid") == self.uid for held in _reserved_for(claim))


class ClaimWriter:
    """Writes the status of claims."""

    def __init__(self, api: ApiSession, fence: Fence, seconds: float) -> None:
        self._objects = ReservedObjects(api, fence, seconds)

    async def write(self, pod: Consumer, choice: ResourceClaimChoice) -> str:
        """Allocates the claim if that was decided, and reserves it for the pod.

        Returns the conditions of devices that the bind must wait for; empty: none. Raises
        ReservationError if the claim cannot be used, or KubernetesError.
        """
        return await retry_conflicts(lambda: self._write(pod, choice))

    async def _write(self, pod: Consumer, choice: ResourceClaimChoice) -> str:
        claim = await self._read(RESOURCE_CLAIMS.path(pod.namespace, choice.claim))
        if claim is None or claim["metadata"].get("uid") != choice.claim_uid:
            raise ReservationError(f"claim {choice.claim} does not exist")
        if claim["metadata"].get("deletionTimestamp"):
            raise ReservationError(f"claim {choice.claim} is being deleted")
        held = claim.get("status", {}).get("allocation")
        status: dict[str, Any] = {}
        if held is None and not choice.HasField("allocation"):
            raise ReservationError(f"claim {choice.claim} is no longer allocated")
        if held is None:
            claim = await self._protected(pod, choice, claim)
            held = status["allocation"] = await self._allocation(claim, choice.allocation)
        elif choice.HasField("allocation") and devices_of(held) != chosen_devices(
            choice.allocation
        ):
            raise ReservationError(f"claim {choice.claim} has other devices")
        if not pod.is_in(claim):
            own = {"resource": "pods", "name": pod.name, "uid": pod.uid}
            status["reservedFor"] = [*_reserved_for(claim), own]
        waits = awaited_conditions(held, claim.get("status", {}).get("devices") or [])
        if status:
            await self._patch_status(pod.namespace, choice.claim, claim, status)
        return waits

    async def undo(self, pod: Consumer, claim_name: str, claim_uid: str) -> None:
        """Removes the pod from the claim. The last consumer also removes the devices.

        Raises KubernetesError.
        """
        await retry_conflicts(lambda: self._undo(pod, claim_name, claim_uid))

    async def _undo(self, pod: Consumer, claim_name: str, claim_uid: str) -> None:
        claim = await self._read(RESOURCE_CLAIMS.path(pod.namespace, claim_name))
        if claim is None or claim["metadata"].get("uid") != claim_uid or not pod.is_in(claim):
            return
        others = [held for held in _reserved_for(claim) if held.get("uid") != pod.uid]
        status: dict[str, Any] = {"reservedFor": others or None}
        if not others:
            status["allocation"] = None
            if claim.get("status", {}).get("devices"):
                # Only allocated devices may have a status.
                status["devices"] = None
        await self._patch_status(pod.namespace, claim_name, claim, status)

    # Parts of a claim.

    async def _protected(self, pod: Consumer, choice: ResourceClaimChoice, claim: Claim) -> Claim:
        """The claim with the finalizer that every allocated claim has."""
        metadata = claim["metadata"]
        finalizers = metadata.get("finalizers") or []
        if FINALIZER in finalizers:
            return claim
        patch = {
            "metadata": {
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "finalizers": [*finalizers, FINALIZER],
            }
        }
        path = RESOURCE_CLAIMS.path(pod.namespace, choice.claim)
        body = await self._objects.patch(path, patch, JSON)
        return _DECODE(body)

    async def _allocation(self, claim: Claim, chosen: DeviceAllocation) -> dict[str, Any]:
        """The allocation in the form of Kubernetes, with the configuration that drivers read."""
        results = [_result(device) for device in chosen.devices]
        devices: dict[str, Any] = {"results": results}
        config = [*await self._class_config(claim), *_claim_config(claim)]
        if config:
            devices["config"] = config
        allocation: dict[str, Any] = {"devices": devices}
        if chosen.HasField("node_selector"):
            allocation["nodeSelector"] = _node_selector(chosen.node_selector)
        if any(device.binding_conditions for device in chosen.devices):
            allocation["allocationTimestamp"] = chosen.allocation_time.ToJsonString()
        return allocation

    async def _class_config(self, claim: Claim) -> list[dict[str, Any]]:
        classes: dict[str, list[str]] = {}
        for request in claim.get("spec", {}).get("devices", {}).get("requests") or []:
            for name, parts in _classes(request):
                classes.setdefault(name, []).append(parts)
        found = []
        for name, requests in sorted(classes.items()):
            held = await self._read(DEVICE_CLASSES.path(name=name))
            for config in (held or {}).get("spec", {}).get("config") or []:
                found.append({**config, "source": "FromClass", "requests": requests})
        return found

    # Calls.

    async def _read(self, path: str) -> Claim | None:
        return await self._objects.read(path, _DECODE, _uid_of, JSON)

    async def _patch_status(
        self, namespace: str, name: str, claim: Claim, status: Mapping[str, Any]
    ) -> None:
        metadata = claim["metadata"]
        version = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        path = RESOURCE_CLAIMS.path(namespace, name, "status")
        await self._objects.patch(path, {"metadata": version, "status": status})


def _uid_of(claim: Claim) -> str:
    metadata = claim.get("metadata")
    return str(metadata.get("uid") or "") if isinstance(metadata, dict) else ""


def awaited_conditions(allocation: Mapping[str, Any], devices: list[Mapping[str, Any]]) -> str:
    """The conditions that a bind must wait for. Raises ReservationError if a device failed."""
    known = {
        _id_of(device): {
            str(one.get("type")): one.get("status") == "True"
            for one in device.get("conditions") or []
        }
        for device in devices
    }
    for result in (allocation.get("devices") or {}).get("results") or []:
        said, name = known.get(_id_of(result), {}), "/".join(_id_of(result)[:3])
        failed = [one for one in result.get("bindingFailureConditions") or [] if said.get(one)]
        if failed:
            raise ReservationError(f"device {name} cannot be used: {', '.join(failed)}")
        missing = [one for one in result.get("bindingConditions") or [] if not said.get(one)]
        if missing:
            return f"device {name} is being prepared: waiting for {', '.join(missing)}"
    return ""


def _id_of(device: Mapping[str, Any]) -> tuple[str, str, str, str]:
    driver, pool, name = (str(device.get(part, "")) for part in ("driver", "pool", "device"))
    return driver, pool, name, str(device.get("shareID") or "")


def _reserved_for(claim: Claim) -> list[dict[str, Any]]:
    return claim.get("status", {}).get("reservedFor") or []


def devices_of(allocation: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    results = (allocation.get("devices") or {}).get("results") or []
    parts = ("request", "driver", "pool", "device")
    found = [[str(held.get(part, "")) for part in parts] for held in results]
    return sorted((request, driver, pool, device) for request, driver, pool, device in found)


def chosen_devices(allocation: DeviceAllocation) -> list[tuple[str, str, str, str]]:
    return sorted((d.request, d.driver, d.pool, d.device) for d in allocation.devices)


def _classes(request: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """The classes of a request, each with the name of the request in results."""
    name = str(request.get("name", ""))
    exactly = request.get("exactly")
    if exactly:
        yield str(exactly.get("deviceClassName", "")), name
    for alternative in request.get("firstAvailable") or []:
        own = str(alternative.get("name", ""))
        yield str(alternative.get("deviceClassName", "")), f"{name}/{own}"


def _claim_config(claim: Claim) -> list[dict[str, Any]]:
    held = claim.get("spec", {}).get("devices", {}).get("config") or []
    return [{**config, "source": "FromClaim"} for config in held]


def _result(device: AllocatedDevice) -> dict[str, Any]:
    result: dict[str, Any] = {
        "request": device.request,
        "driver": device.driver,
        "pool": device.pool,
        "device": device.device,
    }
    if device.admin_access:
        result["adminAccess"] = True
    if device.tolerations:
        result["tolerations"] = [_toleration(held) for held in device.tolerations]
    if device.binding_conditions:
        result["bindingConditions"] = list(device.binding_conditions)
    if device.binding_failure_conditions:
        result["bindingFailureConditions"] = list(device.binding_failure_conditions)
    if device.share_id:
        result["shareID"] = device.share_id
    if device.consumed_capacity_milli:
        # A name without a domain belongs to the driver.
        result["consumedCapacity"] = {
            name.removeprefix(f"{device.driver}/"): _quantity(amount)
            for name, amount in sorted(device.consumed_capacity_milli.items())
        }
    return result


def _quantity(milli: int) -> str:
    return f"{milli}m" if milli % _THOUSAND else str(milli // _THOUSAND)


def _toleration(toleration: Toleration) -> dict[str, Any]:
    exists = toleration.operator == TOLERATION_OPERATOR_EXISTS
    found: dict[str, Any] = {"operator": "Exists" if exists else "Equal"}
    if toleration.key:
        found["key"] = toleration.key
    if toleration.value and not exists:
        found["value"] = toleration.value
    effect = _EFFECTS.get(TaintEffect.Name(toleration.effect))
    if effect is not None:
        found["effect"] = effect
    return found


def _node_selector(selector: NodeSelector) -> dict[str, Any]:
    terms = []
    for term in selector.terms:
        parts = {
            "matchExpressions": [_requirement(held) for held in term.label_requirements],
            "matchFields": [_requirement(held) for held in term.field_requirements],
        }
        terms.append({name: held for name, held in parts.items() if held})
    return {"nodeSelectorTerms": terms}


def _requirement(requirement: Requirement) -> dict[str, Any]:
    found: dict[str, Any] = {
        "key": requirement.key,
        "operator": _OPERATORS[Operator.Name(requirement.operator)],
    }
    if requirement.values:
        found["values"] = list(requirement.values)
    return found
