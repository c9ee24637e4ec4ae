"""Queues, PriorityClasses, ResourceQuotas and Namespaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pumice.manifests.amounts import amounts, milli_amounts
from pumice.manifests.annotations import without_last_applied
from pumice.manifests.errors import FieldError
from pumice.manifests.quantities import Quantity
from pumice.manifests.shapes import Int32, Metadata, Shape, one_of
from pumice.v1 import group_pb2, resource_pb2

_STATES: Final = {
    "": group_pb2.QUEUE_STATE_UNSPECIFIED,
    "Open": group_pb2.QUEUE_STATE_OPEN,
    "Closed": group_pb2.QUEUE_STATE_CLOSED,
    "Closing": group_pb2.QUEUE_STATE_CLOSING,
    "Unknown": group_pb2.QUEUE_STATE_UNKNOWN,
}
_LARGEST_WEIGHT: Final = 65535
# The label that every namespace has, with its name.
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"


class GuaranteeShape(Shape, frozen=True):
    """The guarantee of a queue."""

    resource: dict[str, Quantity] | None = None


class NodeGroupTermsShape(Shape, frozen=True):
    """Node groups by name."""

    required_during_scheduling_ignored_during_execution: tuple[str, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[str, ...] = ()


class QueueAffinityShape(Shape, frozen=True):
    """The node groups of a queue."""

    node_group_affinity: NodeGroupTermsShape = NodeGroupTermsShape()
    node_group_anti_affinity: NodeGroupTermsShape = NodeGroupTermsShape()


class QueueSpecShape(Shape, frozen=True):
    """The specification of a queue."""

    weight: Int32 | None = None
    priority: Int32 = 0
    parent: str = ""
    reclaimable: bool | None = None
    capability: dict[str, Quantity] | None = None
    deserved: dict[str, Quantity] | None = None
    guarantee: GuaranteeShape = GuaranteeShape()
    affinity: QueueAffinityShape | None = None


class QueueStatusShape(Shape, frozen=True):
    """The status of a queue."""

    state: str = ""
    allocated: dict[str, Quantity] = msgspec.field(default_factory=dict)


class QueueShape(Shape, frozen=True):
    """A queue."""

    metadata: Metadata = Metadata()
    spec: QueueSpecShape = QueueSpecShape()
    status: QueueStatusShape = QueueStatusShape()


class PriorityClassShape(Shape, frozen=True):
    """A named priority."""

    metadata: Metadata = Metadata()
    value: Int32 = 0
    global_default: bool = False


class QuotaStatusShape(Shape, frozen=True):
    """Hard limits and usage of a namespace."""

    hard: dict[str, Quantity] = msgspec.field(default_factory=dict)
    used: dict[str, Quantity] = msgspec.field(default_factory=dict)


class ResourceQuotaShape(Shape, frozen=True):
    """A quota of a namespace."""

    metadata: Metadata = Metadata()
    status: QuotaStatusShape = QuotaStatusShape()


class NamespaceShape(Shape, frozen=True):
    """A namespace."""

    metadata: Metadata = Metadata()


QUEUE_DECODER: Final = msgspec.json.Decoder(QueueShape)
PRIORITY_CLASS_DECODER: Final = msgspec.json.Decoder(PriorityClassShape)
RESOURCE_QUOTA_DECODER: Final = msgspec.json.Decoder(ResourceQuotaShape)
NAMESPACE_DECODER: Final = msgspec.json.Decoder(NamespaceShape)


def fill_queue(queue: group_pb2.Queue, shape: QueueShape) -> None:
    metadata, spec = shape.metadata, shape.spec
    queue.name = metadata.need_name()
    queue.uid = metadata.cluster_uid_of("Queue")
    metadata.fill_creation_time(queue.creation_time)
    queue.annotations.update(without_last_applied(metadata.annotations))
    if spec.weight is not None:
        queue.weight = _weight(spec.weight)
    queue.priority = spec.priority
    queue.parent = spec.parent
    if spec.reclaimable is not None:
        queue.reclaimable = spec.reclaimable
    # An empty list differs from an absent one.
    _fill_list(queue.capability, spec.capability, "spec.capability")
    _fill_list(queue.deserved, spec.deserved, "spec.deserved")
    _fill_list(queue.guarantee, spec.guarantee.resource, "spec.guarantee.resource")
    if spec.affinity is not None:
        _fill_affinity(queue.affinity, spec.affinity)
    queue.state = one_of(_STATES, shape.status.state, "status.state")
    queue.allocated.update(amounts(shape.status.allocated, "status.allocated"))


def _weight(weight: int) -> int:
    # Volcano's admission treats 0 as absent.
    if not 0 <= weight <= _LARGEST_WEIGHT:
        raise FieldError("spec.weight", f"{weight} given", f"1 to {_LARGEST_WEIGHT}")
    return weight or 1


def _fill_list(
    target: resource_pb2.ResourceList, resources: Mapping[str, Quantity] | None, field: str
) -> None:
    if resources is not None:
        target.SetInParent()
        target.amounts.update(amounts(resources, field))


def _fill_affinity(affinity: group_pb2.NodeGroupAffinity, shape: QueueAffinityShape) -> None:
    affinity.SetInParent()
    near, away = shape.node_group_affinity, shape.node_group_anti_affinity
    affinity.required.extend(near.required_during_scheduling_ignored_during_execution)
    affinity.preferred.extend(near.preferred_during_scheduling_ignored_during_execution)
    affinity.anti_required.extend(away.required_during_scheduling_ignored_during_execution)
    affinity.anti_preferred.extend(away.preferred_during_scheduling_ignored_during_execution)


def fill_priority_class(target: group_pb2.PriorityClass, shape: PriorityClassShape) -> None:
    target.name = shape.metadata.need_name()
    target.uid = shape.metadata.cluster_uid_of("PriorityClass")
    target.value = shape.value
    target.global_default = shape.global_default


def fill_resource_quota(quota: group_pb2.ResourceQuota, shape: ResourceQuotaShape) -> None:
    quota.name = shape.metadata.need_name()
    quota.namespace = shape.metadata.namespace_or_default
    quota.uid = shape.metadata.uid_of("ResourceQuota")
    quota.hard_milli.update(milli_amounts(shape.status.hard, "status.hard"))
    quota.used_milli.update(milli_amounts(shape.status.used, "status.used"))


def fill_namespace(namespace: group_pb2.Namespace, shape: NamespaceShape) -> None:
    namespace.name = shape.metadata.need_name()
    namespace.uid = shape.metadata.cluster_uid_of("Namespace")
    namespace.labels.update({_NAMESPACE_LABEL: namespace.name, **shape.metadata.labels})
