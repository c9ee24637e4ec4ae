"""The decoded fields of a Pod. Fields that many pods share stay raw and are decoded once."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from pumice.manifests.quantities import Quantity
from pumice.manifests.shapes import ABSENT, Int32, Metadata, Shape


class ContainerShape(Shape, frozen=True):
    """A container or init container."""

    name: str = ""
    image: str = ""
    restart_policy: str = ""
    resources: Raw = ABSENT
    ports: Raw = ABSENT


class ResourcesShape(Shape, frozen=True):
    """Requests and limits of a container or of a pod."""

    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)
    limits: dict[str, Quantity] = msgspec.field(default_factory=dict)


class PortShape(Shape, frozen=True):
    """A port of a container."""

    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class ClaimVolumeShape(Shape, frozen=True):
    """The claim of a volume."""

    claim_name: str = ""


class ImageVolumeShape(Shape, frozen=True):
    """The image of a volume."""

    reference: str = ""


class EphemeralVolumeShape(Shape, frozen=True):
    """An ephemeral volume, whose claim is created for the pod; the claim template is not read."""


class VolumeShape(Shape, frozen=True):
    """A volume; only sources that restrict nodes are read."""

    name: str = ""
    persistent_volume_claim: ClaimVolumeShape | None = None
    ephemeral: EphemeralVolumeShape | None = None
    image: ImageVolumeShape | None = None

    @property
    def restricts_placement(self) -> bool:
        return (
            self.persistent_volume_claim is not None
            or self.ephemeral is not None
            or self.image is not None
        )


class NamedShape(Shape, frozen=True):
    """An object with a name."""

    name: str = ""


class ResourceClaimShape(Shape, frozen=True):
    """A device claim of a pod, in its spec or its status."""

    name: str = ""
    resource_claim_name: str = ""


class SchedulingGroupShape(Shape, frozen=True):
    """The Kubernetes PodGroup of a pod."""

    pod_group_name: str = ""


class PodSpecShape(Shape, frozen=True):
    """The specification of a pod."""

    containers: tuple[ContainerShape, ...] = ()
    init_containers: tuple[ContainerShape, ...] = ()
    volumes: tuple[VolumeShape, ...] = ()
    node_name: str = ""
    scheduler_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    host_network: bool = False
    node_selector: Raw = ABSENT
    affinity: Raw = ABSENT
    tolerations: Raw = ABSENT
    topology_spread_constraints: Raw = ABSENT
    overhead: Raw = ABSENT
    resources: Raw = ABSENT
    resource_claims: Raw = ABSENT
    scheduling_gates: Raw = ABSENT
    scheduling_group: SchedulingGroupShape | None = None


class ContainerStatusShape(Shape, frozen=True):
    """The status of a container."""

    name: str = ""
    resources: Raw = ABSENT
    allocated_resources: Raw = ABSENT


class PodConditionShape(Shape, frozen=True):
    """A condition of a pod's status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    # API servers send null for an unset time.
    last_transition_time: str | None = None


class PodStatusShape(Shape, frozen=True):
    """The status of a pod."""

    phase: str = ""
    conditions: tuple[PodConditionShape, ...] = ()
    nominated_node_name: str = ""
    start_time: str = ""
    container_statuses: tuple[ContainerStatusShape, ...] = ()
    init_container_statuses: tuple[ContainerStatusShape, ...] = ()
    resource_claim_statuses: Raw = ABSENT


class PodShape(Shape, frozen=True):
    """A pod."""

    metadata: Metadata = Metadata()
    spec: PodSpecShape = PodSpecShape()
    status: PodStatusShape = PodStatusShape()
