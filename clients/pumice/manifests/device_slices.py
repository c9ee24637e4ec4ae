"""ResourceSlices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pumice.manifests.amounts import milli_amounts
from pumice.manifests.devices import qualified
from pumice.manifests.errors import FieldError
from pumice.manifests.quantities import Quantity
from pumice.manifests.selectors import EFFECTS, NodeSelectorShape, node_selector
from pumice.manifests.shapes import Int64, Metadata, Shape, one_of
from pumice.manifests.times import fill_time
from pumice.v1 import devices_pb2, selector_pb2


class AttributeShape(Shape, frozen=True):
    """The value of an attribute."""

    int_value: Int64 | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")


class RangeShape(Shape, frozen=True):
    """The range of a capacity request."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityPolicyShape(Shape, frozen=True):
    """The request policy of a capacity."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: RangeShape | None = None


class CapacityShape(Shape, frozen=True):
    """A capacity of a device."""

    value: Quantity = "0"
    request_policy: CapacityPolicyShape | None = None


class CounterShape(Shape, frozen=True):
    """A counter shared by several devices."""

    value: Quantity = "0"


class ConsumptionShape(Shape, frozen=True):
    """The consumption of shared counters by a device."""

    counter_set: str = ""
    counters: dict[str, CounterShape] = msgspec.field(default_factory=dict)


class CounterSetShape(Shape, frozen=True):
    """A set of shared counters."""

    name: str = ""
    counters: dict[str, CounterShape] = msgspec.field(default_factory=dict)


class DeviceTaintShape(Shape, frozen=True):
    """A taint of a device."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str = ""


class BasicDeviceShape(Shape, frozen=True):
    """Attributes and capacities of a device."""

    attributes: dict[str, AttributeShape] = msgspec.field(default_factory=dict)
    capacity: dict[str, CapacityShape] = msgspec.field(default_factory=dict)
    consumes_counters: tuple[ConsumptionShape, ...] = ()
    node_name: str = ""
    node_selector: NodeSelectorShape | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaintShape, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class DeviceShape(BasicDeviceShape, frozen=True):
    """A device; in the first beta of the API the attributes are in `basic`."""

    name: str = ""
    basic: BasicDeviceShape | None = None


class PoolShape(Shape, frozen=True):
    """The pool of a slice."""

    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class SliceSpecShape(Shape, frozen=True):
    """The specification of a ResourceSlice."""

    driver: str = ""
    pool: PoolShape = PoolShape()
    node_name: str = ""
    node_selector: NodeSelectorShape | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[DeviceShape, ...] = ()
    shared_counters: tuple[CounterSetShape, ...] = ()


class SliceShape(Shape, frozen=True):
    """A ResourceSlice."""

    metadata: Metadata = Metadata()
    spec: SliceSpecShape = SliceSpecShape()


DECODER: Final = msgspec.json.Decoder(SliceShape)


def fill_resource_slice(target: devices_pb2.ResourceSlice, shape: SliceShape) -> None:
    spec = shape.spec
    target.name = shape.metadata.need_name()
    target.uid = shape.metadata.cluster_uid_of("ResourceSlice")
    target.driver = spec.driver
    target.pool.name = spec.pool.name
    target.pool.generation = spec.pool.generation
    target.pool.resource_slice_count = spec.pool.resource_slice_count
    target.node_name = spec.node_name
    if spec.node_selector is not None:
        target.node_selector.CopyFrom(node_selector(spec.node_selector, "spec.nodeSelector"))
    target.all_nodes = spec.all_nodes
    target.per_device_node_selection = spec.per_device_node_selection
    for index, device in enumerate(spec.devices):
        _fill_device(target.devices.add(), device, spec.driver, f"spec.devices[{index}]")
    for index, counters in enumerate(spec.shared_counters):
        target.shared_counters.add(
            name=counters.name,
            counters_milli=_counters(counters.counters, f"spec.sharedCounters[{index}]"),
        )


def _fill_device(device: devices_pb2.Device, shape: DeviceShape, driver: str, field: str) -> None:
    basic: BasicDeviceShape = shape if shape.basic is None else shape.basic
    device.name = shape.name
    for name, attribute in basic.attributes.items():
        _fill_attribute(
            device.attributes[qualified(name, driver)], attribute, f"{field}.attributes[{name}]"
        )
    for name, capacity in basic.capacity.items():
        _fill_capacity(
            device.capacity[qualified(name, driver)], capacity, f"{field}.capacity[{name}]"
        )
    for index, consumption in enumerate(basic.consumes_counters):
        device.consumes_counters.add(
            name=consumption.counter_set,
            counters_milli=_counters(consumption.counters, f"{field}.consumesCounters[{index}]"),
        )
    device.node_name = basic.node_name
    if basic.node_selector is not None:
        device.node_selector.CopyFrom(node_selector(basic.node_selector, f"{field}.nodeSelector"))
    device.all_nodes = basic.all_nodes
    for index, taint in enumerate(basic.taints):
        _add_taint(device, taint, f"{field}.taints[{index}]")
    device.binds_to_node = basic.binds_to_node
    device.binding_conditions.extend(basic.binding_conditions)
    device.binding_failure_conditions.extend(basic.binding_failure_conditions)
    device.allow_multiple_allocations = basic.allow_multiple_allocations


def _fill_attribute(target: devices_pb2.DeviceAttribute, shape: AttributeShape, field: str) -> None:
    if shape.int_value is not None:
        target.int_value = shape.int_value
    elif shape.bool_value is not None:
        target.bool_value = shape.bool_value
    elif shape.string_value is not None:
        target.string_value = shape.string_value
    elif shape.version_value is not None:
        target.version_value = shape.version_value
    else:
        raise FieldError(field, "has no value", "one of int, bool, string, version")


def _fill_capacity(target: devices_pb2.DeviceCapacity, shape: CapacityShape, field: str) -> None:
    target.value_milli = _milli(shape.value, "value", field)
    policy = shape.request_policy
    if policy is None:
        return
    target.request_policy.SetInParent()
    where = f"{field}.requestPolicy"
    if policy.default is not None:
        target.request_policy.default_milli = _milli(policy.default, "default", where)
    target.request_policy.valid_values_milli.extend(
        _milli(one, "validValues", where) for one in policy.valid_values
    )
    if policy.valid_range is not None:
        for name in ("min", "max", "step"):
            bound: Quantity | None = getattr(policy.valid_range, name)
            if bound is not None:
                amount = _milli(bound, name, f"{where}.validRange")
                setattr(target.request_policy, f"{name}_milli", amount)


def _milli(quantity: Quantity, name: str, field: str) -> int:
    return milli_amounts({name: quantity}, field)[name]


def _counters(shapes: Mapping[str, CounterShape], field: str) -> dict[str, int]:
    return milli_amounts({name: one.value for name, one in shapes.items()}, f"{field}.counters")


def _add_taint(device: devices_pb2.Device, shape: DeviceTaintShape, field: str) -> None:
    # A taint with effect None is informational.
    if shape.effect == "None":
        return
    effect = one_of(EFFECTS, shape.effect, f"{field}.effect")
    taint = selector_pb2.Taint(key=shape.key, value=shape.value, effect=effect)
    added = device.taints.add(taint=taint)
    fill_time(added.added_time, shape.time_added, f"{field}.timeAdded")
