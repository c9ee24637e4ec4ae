"""Dynamic resource allocation: ResourceClaims and DeviceClasses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from pumice.manifests.amounts import milli_amounts
from pumice.manifests.quantities import Quantity
from pumice.manifests.selectors import (
    NodeSelectorShape,
    TolerationShape,
    node_selector,
    tolerations,
)
from pumice.manifests.shapes import Int64, Metadata, Shape, one_of
from pumice.manifests.times import fill_time
from pumice.v1 import devices_pb2

_MODES: Final = {
    "": devices_pb2.DEVICE_ALLOCATION_MODE_UNSPECIFIED,
    "ExactCount": devices_pb2.DEVICE_ALLOCATION_MODE_EXACT_COUNT,
    "All": devices_pb2.DEVICE_ALLOCATION_MODE_ALL,
}


class CelShape(Shape, frozen=True):
    """A CEL expression over a device."""

    expression: str = ""


class DeviceSelectorShape(Shape, frozen=True):
    """A condition on a device."""

    cel: CelShape | None = None


class CapacityRequestsShape(Shape, frozen=True):
    """Requested capacities of a device."""

    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)


class DeviceSubRequestShape(Shape, frozen=True):
    """A request for devices of a class."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelectorShape, ...] = ()
    allocation_mode: str = ""
    count: Int64 | None = None
    admin_access: bool = False
    tolerations: tuple[TolerationShape, ...] = ()
    capacity: CapacityRequestsShape = CapacityRequestsShape()


class DeviceRequestShape(DeviceSubRequestShape, frozen=True):
    """A request; in the first beta of the API the fields are not in `exactly`."""

    exactly: DeviceSubRequestShape | None = None
    first_available: tuple[DeviceSubRequestShape, ...] = ()


class DeviceConstraintShape(Shape, frozen=True):
    """A constraint on the devices of several requests."""

    requests: tuple[str, ...] = ()
    match_attribute: str = ""
    distinct_attribute: str = ""


class DeviceClaimShape(Shape, frozen=True):
    """The requested devices of a claim."""

    requests: tuple[DeviceRequestShape, ...] = ()
    constraints: tuple[DeviceConstraintShape, ...] = ()


class ClaimSpecShape(Shape, frozen=True):
    """The specification of a ResourceClaim."""

    devices: DeviceClaimShape = DeviceClaimShape()


class AllocatedDeviceShape(Shape, frozen=True):
    """An allocated device of a claim."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False
    tolerations: tuple[TolerationShape, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str = msgspec.field(default="", name="shareID")
    consumed_capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)


class AllocatedDevicesShape(Shape, frozen=True):
    """The allocated devices of a claim."""

    results: tuple[AllocatedDeviceShape, ...] = ()


class AllocationShape(Shape, frozen=True):
    """The allocation of a claim, with the nodes that can use it."""

    devices: AllocatedDevicesShape = AllocatedDevicesShape()
    node_selector: NodeSelectorShape | None = None
    allocation_timestamp: str = ""


class ConsumerShape(Shape, frozen=True):
    """A consumer of a claim."""

    resource: str = ""
    name: str = ""
    uid: str = ""


class ClaimStatusShape(Shape, frozen=True):
    """The status of a ResourceClaim."""

    allocation: AllocationShape | None = None
    reserved_for: tuple[ConsumerShape, ...] = ()


class ClaimShape(Shape, frozen=True):
    """A ResourceClaim."""

    metadata: Metadata = Metadata()
    spec: ClaimSpecShape = ClaimSpecShape()
    status: ClaimStatusShape = ClaimStatusShape()


class ClassSpecShape(Shape, frozen=True):
    """The specification of a DeviceClass."""

    selectors: tuple[DeviceSelectorShape, ...] = ()
    extended_resource_name: str = ""


class ClassShape(Shape, frozen=True):
    """A DeviceClass."""

    metadata: Metadata = Metadata()
    spec: ClassSpecShape = ClassSpecShape()


CLAIM_DECODER: Final = msgspec.json.Decoder(ClaimShape)
CLASS_DECODER: Final = msgspec.json.Decoder(ClassShape)


def fill_resource_claim(claim: devices_pb2.ResourceClaim, shape: ClaimShape) -> None:
    metadata, devices = shape.metadata, shape.spec.devices
    claim.name = metadata.need_name()
    claim.namespace = metadata.namespace_or_default
    claim.uid = metadata.uid_of("ResourceClaim")
    metadata.fill_creation_time(claim.creation_time)
    claim.owner_uid = metadata.controller_uid
    claim.terminating = bool(metadata.deletion_timestamp)
    for index, request in enumerate(devices.requests):
        _fill_request(claim.requests.add(), request, f"spec.devices.requests[{index}]")
    for constraint in devices.constraints:
        claim.constraints.add(
            requests=constraint.requests,
            match_attribute=constraint.match_attribute,
            distinct_attribute=constraint.distinct_attribute,
        )
    if shape.status.allocation is not None:
        _fill_allocation(claim.allocation, shape.status.allocation, "status.allocation")
    for consumer in shape.status.reserved_for:
        claim.reserved_for.add(resource=consumer.resource, name=consumer.name, uid=consumer.uid)


def _fill_request(
    request: devices_pb2.DeviceRequest, shape: DeviceRequestShape, field: str
) -> None:
    request.name = shape.name
    if shape.exactly is not None:
        _fill_sub_request(request.exactly, shape.exactly, f"{field}.exactly")
    elif not shape.first_available:
        _fill_sub_request(request.exactly, shape, field)
        # In the first beta this is the name of the request, not of an alternative.
        request.exactly.name = ""
    for index, alternative in enumerate(shape.first_available):
        _fill_sub_request(
            request.first_available.add(), alternative, f"{field}.firstAvailable[{index}]"
        )


def _fill_sub_request(
    target: devices_pb2.DeviceSubRequest, shape: DeviceSubRequestShape, field: str
) -> None:
    target.SetInParent()
    target.name = shape.name
    target.device_class_name = shape.device_class_name
    target.selectors.extend(expressions(shape.selectors))
    target.allocation_mode = one_of(_MODES, shape.allocation_mode, f"{field}.allocationMode")
    if shape.count is not None:
        target.count = shape.count
    target.admin_access = shape.admin_access
    target.tolerations.extend(tolerations(shape.tolerations, f"{field}.tolerations"))
    target.capacity_milli.update(
        milli_amounts(shape.capacity.requests, f"{field}.capacity.requests")
    )


def expressions(selectors: Iterable[DeviceSelectorShape]) -> list[str]:
    return [selector.cel.expression for selector in selectors if selector.cel is not None]


def _fill_allocation(
    allocation: devices_pb2.DeviceAllocation, shape: AllocationShape, field: str
) -> None:
    allocation.SetInParent()
    for index, device in enumerate(shape.devices.results):
        where = f"{field}.devices.results[{index}]"
        allocation.devices.add(
            request=device.request,
            driver=device.driver,
            pool=device.pool,
            device=device.device,
            admin_access=device.admin_access,
            tolerations=tolerations(device.tolerations, f"{where}.tolerations"),
            binding_conditions=device.binding_conditions,
            binding_failure_conditions=device.binding_failure_conditions,
            share_id=device.share_id,
            consumed_capacity_milli={
                qualified(name, device.driver): amount
                for name, amount in milli_amounts(
                    device.consumed_capacity, f"{where}.consumedCapacity"
                ).items()
            },
        )
    if shape.node_selector is not None:
        allocation.node_selector.SetInParent()
        allocation.node_selector.MergeFrom(
            node_selector(shape.node_selector, f"{field}.nodeSelector")
        )
    fill_time(
        allocation.allocation_time, shape.allocation_timestamp, f"{field}.allocationTimestamp"
    )


def qualified(name: str, driver: str) -> str:
    """The full name of an attribute or capacity; the default domain is that of the driver."""
    return name if "/" in name else f"{driver}/{name}"


def fill_device_class(target: devices_pb2.DeviceClass, shape: ClassShape) -> None:
    target.name = shape.metadata.need_name()
    target.uid = shape.metadata.cluster_uid_of("DeviceClass")
    target.selectors.extend(expressions(shape.spec.selectors))
    target.extended_resource_name = shape.spec.extended_resource_name
    shape.metadata.fill_creation_time(target.creation_time)
