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
from pumice.server.wire.conversion import (
    AMOUNTS,
    NON_EMPTY,
    TEXTS,
    TIME,
    Conversion,
    Field,
    bounded,
    by_name,
    named,
    optional,
    repeated,
)
from pumice.server.wire.fields import FieldError
from pumice.server.wire.selectors import NODE_SELECTOR, TAINT, TOLERATION
from pumice.v1 import devices_pb2

_ALL = devices_pb2.DEVICE_ALLOCATION_MODE_ALL
_EXACT_COUNT = devices_pb2.DEVICE_ALLOCATION_MODE_EXACT_COUNT
_CREATION_TIME = named("creation_time", TIME)
_NODE_TERMS = named("node_selector", optional(NODE_SELECTOR))

# Claims.

_SUB_REQUEST = Conversion(
    DeviceSubRequest,
    devices_pb2.DeviceSubRequest,
    selectors=TEXTS,
    takes_all=Field(
        lambda _path, mode: mode == _ALL,
        lambda takes_all: _ALL if takes_all else _EXACT_COUNT,
        name="allocation_mode",
    ),
    count=optional(bounded(1), absent=1),
    tolerations=repeated(TOLERATION),
    capacity=named("capacity_milli", AMOUNTS),
)
REQUEST = Conversion(
    DeviceRequest,
    devices_pb2.DeviceRequest,
    name=NON_EMPTY,
    exactly=optional(_SUB_REQUEST),
    first_available=repeated(_SUB_REQUEST),
)
_ALLOCATED_DEVICE = Conversion(
    AllocatedDevice,
    devices_pb2.AllocatedDevice,
    tolerations=repeated(TOLERATION),
    binding_conditions=TEXTS,
    binding_failure_conditions=TEXTS,
    consumed_capacity=named("consumed_capacity_milli", AMOUNTS),
)
ALLOCATION = Conversion(
    DeviceAllocation,
    devices_pb2.DeviceAllocation,
    devices=repeated(_ALLOCATED_DEVICE),
    node_terms=_NODE_TERMS,
    allocation_time_ns=named("allocation_time", TIME),
)
RESOURCE_CLAIM = Conversion(
    ResourceClaim,
    devices_pb2.ResourceClaim,
    creation_time_ns=_CREATION_TIME,
    requests=repeated(REQUEST),
    constraints=repeated(
        Conversion(DeviceConstraint, devices_pb2.DeviceConstraint, requests=TEXTS)
    ),
    allocation=optional(ALLOCATION),
    reserved_for=repeated(Conversion(ClaimConsumer, devices_pb2.ClaimConsumer)),
)

# Slices and classes.


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


_CAPACITY_POLICY = Conversion(
    CapacityPolicy,
    devices_pb2.CapacityPolicy,
    default=named("default_milli", optional()),
    valid_values=named("valid_values_milli", TEXTS),
    minimum=named("min_milli", optional()),
    maximum=named("max_milli", optional()),
    step=named("step_milli", optional()),
)
_CAPACITY = Conversion(
    DeviceCapacity,
    devices_pb2.DeviceCapacity,
    value=named("value_milli"),
    policy=named("request_policy", optional(_CAPACITY_POLICY)),
)
_COUNTERS = Conversion(
    CounterSet, devices_pb2.CounterSet, counters=named("counters_milli", AMOUNTS)
)
_TAINT = Conversion(
    DeviceTaint,
    devices_pb2.DeviceTaint,
    taint=TAINT,
    added_time_ns=named("added_time", TIME),
)
_DEVICE = Conversion(
    Device,
    devices_pb2.Device,
    name=NON_EMPTY,
    attributes=by_name(Field(_read_attribute, _write_attribute)),
    capacity=by_name(_CAPACITY),
    consumes=named("consumes_counters", repeated(_COUNTERS)),
    node_terms=_NODE_TERMS,
    taints=repeated(_TAINT),
    binding_conditions=TEXTS,
    binding_failure_conditions=TEXTS,
    allows_sharing=named("allow_multiple_allocations"),
)
RESOURCE_SLICE = Conversion(
    ResourceSlice,
    devices_pb2.ResourceSlice,
    pool=named("pool.name"),
    generation=named("pool.generation"),
    slice_count=named("pool.resource_slice_count"),
    node_terms=_NODE_TERMS,
    per_device=named("per_device_node_selection"),
    devices=repeated(_DEVICE),
    counters=named("shared_counters", repeated(_COUNTERS)),
)
DEVICE_CLASS = Conversion(
    DeviceClass, devices_pb2.DeviceClass, selectors=TEXTS, creation_time_ns=_CREATION_TIME
)
