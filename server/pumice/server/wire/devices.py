"""Converts device claims, slices and classes."""

from __future__ import annotations

from pumice.core.model.devices import (
    AllocatedDevice,
    AttributeValue,
    CapacityPolicy,
    ClaimConsumer,
    CounterSet,
    Device,
    DeviceAllocation,
    DeviceCapacity,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSubRequest,
    DeviceTaint,
    ResourceClaim,
    ResourceSlice,
    Version,
)
from pumice.server.wire.fields import (
    FieldError,
    amounts,
    at_least,
    check_named,
    check_namespaced,
    non_empty,
)
from pumice.server.wire.selectors import (
    read_node_terms,
    read_taint,
    read_toleration,
    write_node_selector,
    write_taint,
    write_toleration,
)
from pumice.server.wire.times import read_time, write_time
from pumice.v1 import devices_pb2

_ALL = devices_pb2.DEVICE_ALLOCATION_MODE_ALL


def _read_sub_request(path: str, message: devices_pb2.DeviceSubRequest) -> DeviceSubRequest:
    return DeviceSubRequest(
        message.name,
        message.device_class_name,
        tuple(message.selectors),
        message.allocation_mode == _ALL,
        at_least(f"{path}.count", message.count, 1) if message.HasField("count") else 1,
        message.admin_access,
        tuple(
            read_toleration(f"{path}.tolerations[{i}]", m)
            for i, m in enumerate(message.tolerations)
        ),
        amounts(f"{path}.capacity_milli", message.capacity_milli),
    )


def _write_sub_request(request: DeviceSubRequest) -> devices_pb2.DeviceSubRequest:
    exact = devices_pb2.DEVICE_ALLOCATION_MODE_EXACT_COUNT
    return devices_pb2.DeviceSubRequest(
        name=request.name,
        device_class_name=request.device_class_name,
        selectors=request.selectors,
        allocation_mode=_ALL if request.takes_all else exact,
        count=request.count,
        admin_access=request.admin_access,
        tolerations=map(write_toleration, request.tolerations),
        capacity_milli=dict(request.capacity),
    )


def write_request(request: DeviceRequest) -> devices_pb2.DeviceRequest:
    exactly = request.exactly
    return devices_pb2.DeviceRequest(
        name=request.name,
        exactly=None if exactly is None else _write_sub_request(exactly),
        first_available=map(_write_sub_request, request.first_available),
    )


def read_request(path: str, message: devices_pb2.DeviceRequest) -> DeviceRequest:
    exactly = None
    if message.HasField("exactly"):
        exactly = _read_sub_request(f"{path}.exactly", message.exactly)
    return DeviceRequest(
        non_empty(f"{path}.name", message.name),
        exactly,
        tuple(
            _read_sub_request(f"{path}.first_available[{i}]", m)
            for i, m in enumerate(message.first_available)
        ),
    )


def read_allocation(path: str, message: devices_pb2.DeviceAllocation) -> DeviceAllocation:
    return DeviceAllocation(
        tuple(
            AllocatedDevice(
                m.request,
                m.driver,
                m.pool,
                m.device,
                m.admin_access,
                tuple(
                    read_toleration(f"{path}.devices[{i}].tolerations[{j}]", t)
                    for j, t in enumerate(m.tolerations)
                ),
                tuple(m.binding_conditions),
                tuple(m.binding_failure_conditions),
                m.share_id,
                amounts(f"{path}.devices[{i}].consumed_capacity_milli", m.consumed_capacity_milli),
            )
            for i, m in enumerate(message.devices)
        ),
        read_node_terms(f"{path}.node_selector.terms", message.node_selector.terms)
        if message.HasField("node_selector")
        else None,
        read_time(f"{path}.allocation_time", message.allocation_time),
    )


def write_allocation(allocation: DeviceAllocation) -> devices_pb2.DeviceAllocation:
    return devices_pb2.DeviceAllocation(
        devices=[
            devices_pb2.AllocatedDevice(
                request=d.request,
                driver=d.driver,
                pool=d.pool,
                device=d.device,
                admin_access=d.admin_access,
                tolerations=map(write_toleration, d.tolerations),
                binding_conditions=d.binding_conditions,
                binding_failure_conditions=d.binding_failure_conditions,
                share_id=d.share_id,
                consumed_capacity_milli=dict(d.consumed_capacity),
            )
            for d in allocation.devices
        ],
        node_selector=write_node_selector(allocation.node_terms),
        allocation_time=write_time(allocation.allocation_time_ns),
    )


def read_resource_claim(message: devices_pb2.ResourceClaim) -> ResourceClaim:
    check_namespaced(message.uid, message.namespace, message.name)
    return ResourceClaim(
        message.uid,
        message.namespace,
        message.name,
        read_time("creation_time", message.creation_time),
        message.owner_uid,
        message.terminating,
        tuple(read_request(f"requests[{i}]", m) for i, m in enumerate(message.requests)),
        tuple(
            DeviceConstraint(tuple(m.requests), m.match_attribute, m.distinct_attribute)
            for m in message.constraints
        ),
        read_allocation("allocation", message.allocation)
        if message.HasField("allocation")
        else None,
        tuple(ClaimConsumer(m.resource, m.name, m.uid) for m in message.reserved_for),
    )


def write_resource_claim(claim: ResourceClaim) -> devices_pb2.ResourceClaim:
    return devices_pb2.ResourceClaim(
        uid=claim.uid,
        namespace=claim.namespace,
        name=claim.name,
        creation_time=write_time(claim.creation_time_ns),
        owner_uid=claim.owner_uid,
        terminating=claim.terminating,
        requests=map(write_request, claim.requests),
        constraints=[
            devices_pb2.DeviceConstraint(
                requests=c.requests,
                match_attribute=c.match_attribute,
                distinct_attribute=c.distinct_attribute,
            )
            for c in claim.constraints
        ],
        allocation=None if claim.allocation is None else write_allocation(claim.allocation),
        reserved_for=[
            devices_pb2.ClaimConsumer(resource=c.resource, name=c.name, uid=c.uid)
            for c in claim.reserved_for
        ],
    )


def _read_attribute(path: str, message: devices_pb2.DeviceAttribute) -> AttributeValue:
    match message.WhichOneof("value"):
        case "int_value":
            return message.int_value
        case "bool_value":
            return message.bool_value
        case "string_value":
            return message.string_value
        case "version_value":
            return Version(message.version_value)
        case _:
            raise FieldError(path, "has no value")


def _write_attribute(value: AttributeValue) -> devices_pb2.DeviceAttribute:
    match value:
        case bool():
            return devices_pb2.DeviceAttribute(bool_value=value)
        case int():
            return devices_pb2.DeviceAttribute(int_value=value)
        case str():
            return devices_pb2.DeviceAttribute(string_value=value)
        case Version():
            return devices_pb2.DeviceAttribute(version_value=value.text)


def _read_capacity(message: devices_pb2.DeviceCapacity) -> DeviceCapacity:
    if not message.HasField("request_policy"):
        return DeviceCapacity(message.value_milli)
    held = message.request_policy
    has = held.HasField
    policy = CapacityPolicy(
        held.default_milli if has("default_milli") else None,
        tuple(held.valid_values_milli),
        held.min_milli if has("min_milli") else None,
        held.max_milli if has("max_milli") else None,
        held.step_milli if has("step_milli") else None,
    )
    return DeviceCapacity(message.value_milli, policy)


def _write_capacity(capacity: DeviceCapacity) -> devices_pb2.DeviceCapacity:
    policy = capacity.policy
    return devices_pb2.DeviceCapacity(
        value_milli=capacity.value,
        request_policy=None
        if policy is None
        else devices_pb2.CapacityPolicy(
            default_milli=policy.default,
            valid_values_milli=policy.valid_values,
            min_milli=policy.minimum,
            max_milli=policy.maximum,
            step_milli=policy.step,
        ),
    )


def _read_counters(path: str, message: devices_pb2.CounterSet) -> CounterSet:
    return CounterSet(message.name, amounts(f"{path}.counters_milli", message.counters_milli))


def _write_counters(counters: CounterSet) -> devices_pb2.CounterSet:
    return devices_pb2.CounterSet(name=counters.name, counters_milli=dict(counters.counters))


def _read_device(path: str, message: devices_pb2.Device) -> Device:
    return Device(
        non_empty(f"{path}.name", message.name),
        {
            name: _read_attribute(f"{path}.attributes[{name}]", message.attributes[name])
            for name in sorted(message.attributes)
        },
        {name: _read_capacity(message.capacity[name]) for name in sorted(message.capacity)},
        tuple(
            _read_counters(f"{path}.consumes_counters[{i}]", m)
            for i, m in enumerate(message.consumes_counters)
        ),
        message.node_name,
        read_node_terms(f"{path}.node_selector.terms", message.node_selector.terms)
        if message.HasField("node_selector")
        else None,
        message.all_nodes,
        tuple(
            DeviceTaint(
                read_taint(f"{path}.taints[{i}]", m.taint),
                read_time(f"{path}.taints[{i}].added_time", m.added_time),
            )
            for i, m in enumerate(message.taints)
        ),
        message.binds_to_node,
        tuple(message.binding_conditions),
        tuple(message.binding_failure_conditions),
        message.allow_multiple_allocations,
    )


def _write_device(device: Device) -> devices_pb2.Device:
    return devices_pb2.Device(
        name=device.name,
        attributes={name: _write_attribute(value) for name, value in device.attributes.items()},
        capacity={name: _write_capacity(value) for name, value in device.capacity.items()},
        consumes_counters=map(_write_counters, device.consumes),
        node_name=device.node_name,
        node_selector=write_node_selector(device.node_terms),
        all_nodes=device.all_nodes,
        taints=[
            devices_pb2.DeviceTaint(
                taint=write_taint(t.taint), added_time=write_time(t.added_time_ns)
            )
            for t in device.taints
        ],
        binds_to_node=device.binds_to_node,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        allow_multiple_allocations=device.allows_sharing,
    )


def read_resource_slice(message: devices_pb2.ResourceSlice) -> ResourceSlice:
    check_named(message.uid, message.name)
    return ResourceSlice(
        message.uid,
        message.name,
        message.driver,
        message.pool.name,
        message.pool.generation,
        message.pool.resource_slice_count,
        message.node_name,
        read_node_terms("node_selector.terms", message.node_selector.terms)
        if message.HasField("node_selector")
        else None,
        message.all_nodes,
        message.per_device_node_selection,
        tuple(_read_device(f"devices[{i}]", m) for i, m in enumerate(message.devices)),
        tuple(
            _read_counters(f"shared_counters[{i}]", m)
            for i, m in enumerate(message.shared_counters)
        ),
    )


def write_resource_slice(resource_slice: ResourceSlice) -> devices_pb2.ResourceSlice:
    return devices_pb2.ResourceSlice(
        uid=resource_slice.uid,
        name=resource_slice.name,
        driver=resource_slice.driver,
        pool=devices_pb2.DevicePool(
            name=resource_slice.pool,
            generation=resource_slice.generation,
            resource_slice_count=resource_slice.slice_count,
        ),
        node_name=resource_slice.node_name,
        node_selector=write_node_selector(resource_slice.node_terms),
        all_nodes=resource_slice.all_nodes,
        per_device_node_selection=resource_slice.per_device,
        devices=map(_write_device, resource_slice.devices),
        shared_counters=map(_write_counters, resource_slice.counters),
    )


def read_device_class(message: devices_pb2.DeviceClass) -> DeviceClass:
    check_named(message.uid, message.name)
    return DeviceClass(
        message.uid,
        message.name,
        tuple(message.selectors),
        message.extended_resource_name,
        read_time("creation_time", message.creation_time),
    )


def write_device_class(device_class: DeviceClass) -> devices_pb2.DeviceClass:
    return devices_pb2.DeviceClass(
        uid=device_class.uid,
        name=device_class.name,
        selectors=device_class.selectors,
        extended_resource_name=device_class.extended_resource_name,
        creation_time=write_time(device_class.creation_time_ns),
    )
