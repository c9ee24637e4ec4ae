"""Dynamic resource allocation: claims for devices, devices, and device classes.

Amounts are in thousandths of their units; attributes and capacities have qualified names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pumice.core.model.selectors import NodeSelectorTerm, Taint, Toleration


@dataclass(frozen=True, slots=True)
class DeviceSubRequest:
    """A request for devices of one class: an exact request, or an alternative of a request."""

    name: str = ""
    device_class_name: str = ""
    # CEL expressions; all must hold.
    selectors: tuple[str, ...] = ()
    # Every device that matches, instead of a count.
    takes_all: bool = False
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One request of a claim; without ``exactly``, alternatives are tried in order."""

    name: str
    exactly: DeviceSubRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceConstraint:
    """An attribute in which the devices of some requests must agree, or differ; no requests: all."""

    requests: tuple[str, ...] = ()
    match_attribute: str = ""
    distinct_attribute: str = ""


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """One device given to one request."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str = ""
    consumed_capacity: tuple[tuple[str, int], ...] = ()

    @property
    def id(self) -> tuple[str, str, str]:
        return (self.driver, self.pool, self.device)


@dataclass(frozen=True, slots=True)
class DeviceAllocation:
    """The devices given to a claim."""

    devices: tuple[AllocatedDevice, ...] = ()
    # Where the claim can be used; None: everywhere.
    node_terms: tuple[NodeSelectorTerm, ...] | None = None
    allocation_time_ns: int = 0


@dataclass(frozen=True, slots=True)
class ClaimConsumer:
    """An object that uses a claim, mostly a pod."""

    resource: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """A claim for devices."""

    uid: str
    namespace: str
    name: str
    creation_time_ns: int = 0
    owner_uid: str = ""
    terminating: bool = False
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    # None: not allocated.
    allocation: DeviceAllocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Version:
    """An attribute that is a semantic version."""

    text: str


AttributeValue = int | bool | str | Version


@dataclass(frozen=True, slots=True)
class CapacityPolicy:
    """How much of a capacity a request may take."""

    default: int | None = None
    valid_values: tuple[int, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """A capacity of a device."""

    value: int
    policy: CapacityPolicy | None = None


@dataclass(frozen=True, slots=True)
class CounterSet:
    """Counters that several devices share, or what a device takes of them."""

    name: str
    counters: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """A taint of a device."""

    taint: Taint
    added_time_ns: int = 0


@dataclass(frozen=True, slots=True)
class Device:
    """One device; its name is unique within the pool."""

    name: str
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    capacity: Mapping[str, DeviceCapacity] = field(default_factory=dict)
    consumes: tuple[CounterSet, ...] = ()
    node_name: str = ""
    node_terms: tuple[NodeSelectorTerm, ...] | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allows_sharing: bool = False


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """Some devices of a pool."""

    uid: str
    name: str
    driver: str = ""
    pool: str = ""
    generation: int = 0
    # The number of slices that this generation of the pool has.
    slice_count: int = 1
    node_name: str = ""
    node_terms: tuple[NodeSelectorTerm, ...] | None = None
    all_nodes: bool = False
    per_device: bool = False
    devices: tuple[Device, ...] = ()
    counters: tuple[CounterSet, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A class of devices."""

    uid: str
    name: str
    selectors: tuple[str, ...] = ()
    extended_resource_name: str = ""
    creation_time_ns: int = 0


@dataclass(frozen=True, slots=True)
class RequestMapping:
    """The request of a claim that gives a container its devices of an extended resource."""

    container: str
    resource: str
    request: str


@dataclass(frozen=True, slots=True)
class ClaimChoice:
    """A claim of a pod and the devices that it shall get."""

    claim: str
    claim_uid: str
    # None: the claim is allocated already, and only has to be reserved for the pod.
    allocation: DeviceAllocation | None = None
    # For a claim that is made for the pod's extended resources: its requests, and their containers.
    requests: tuple[DeviceRequest, ...] = ()
    mappings: tuple[RequestMapping, ...] = ()
