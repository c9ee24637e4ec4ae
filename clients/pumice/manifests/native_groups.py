"""PodGroups of Kubernetes (`scheduling.k8s.io`), which are jobs, too."""

from __future__ import annotations

from typing import Final

import msgspec

from pumice.manifests.annotations import QUEUE_NAME
from pumice.manifests.conditions import STATUSES
from pumice.manifests.errors import FieldError
from pumice.manifests.groups import (
    PodGroupConditionShape,
    fill_metadata,
    fill_spec_hash,
)
from pumice.manifests.shapes import Count, Metadata, Shape
from pumice.v1 import group_pb2
from pumice.v1.condition_pb2 import CONDITION_STATUS_TRUE

# The condition that a scheduler writes.
SCHEDULED: Final = "PodGroupScheduled"


class GangShape(Shape, frozen=True):
    """The policy of a gang."""

    min_count: Count = 0


class PolicyShape(Shape, frozen=True):
    """The scheduling policy of a group: a gang, or single pods."""

    gang: GangShape | None = None


class TopologyShape(Shape, frozen=True):
    """A node label; all pods of a group must be on nodes with the same value."""

    key: str = ""


class ConstraintsShape(Shape, frozen=True):
    """The topology constraints of a group."""

    topology: tuple[TopologyShape, ...] = ()


class NativeGroupSpecShape(Shape, frozen=True):
    """The specification of a PodGroup of Kubernetes."""

    scheduling_policy: PolicyShape = PolicyShape()
    scheduling_constraints: ConstraintsShape | None = None
    resource_claims: tuple[dict[str, str], ...] = ()
    priority_class_name: str = ""


class NativeGroupStatusShape(Shape, frozen=True):
    """The status of a PodGroup of Kubernetes."""

    conditions: tuple[PodGroupConditionShape, ...] = ()


class NativeGroupShape(Shape, frozen=True):
    """A PodGroup of Kubernetes."""

    metadata: Metadata = Metadata()
    spec: NativeGroupSpecShape = NativeGroupSpecShape()
    status: NativeGroupStatusShape = NativeGroupStatusShape()


DECODER: Final = msgspec.json.Decoder(NativeGroupShape)


def fill_native_group(group: group_pb2.PodGroup, shape: NativeGroupShape) -> None:
    """Fills a group. Raises FieldError for unsupported constraints, instead of ignoring them."""
    spec = shape.spec
    constraints = spec.scheduling_constraints
    topology = constraints.topology if constraints is not None else ()
    if len(topology) > 1:
        field = "spec.schedulingConstraints.topology"
        raise FieldError(field, f"has {len(topology)} items", "at most one")
    if spec.resource_claims:
        raise FieldError("spec.resourceClaims", "is not supported", "claims of the pods")
    fill_metadata(group, shape.metadata)
    gang = spec.scheduling_policy.gang
    group.min_member = 1 if gang is None else max(gang.min_count, 1)
    group.queue = shape.metadata.annotations.get(QUEUE_NAME, "")
    group.priority_class_name = spec.priority_class_name
    group.topology_key = topology[0].key if topology else ""
    fill_spec_hash(group)
    if any(
        condition.type == SCHEDULED and STATUSES.get(condition.status) == CONDITION_STATUS_TRUE
        for condition in shape.status.conditions
    ):
        group.status.phase = group_pb2.POD_GROUP_PHASE_RUNNING
