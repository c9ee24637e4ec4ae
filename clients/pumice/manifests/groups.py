"""PodGroups of Volcano and of its predecessor kube-batch."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from pumice.manifests.amounts import amounts, milli_amounts
from pumice.manifests.annotations import (
    ALLOCATED_HYPER_NODE,
    for_scheduling,
    preemptable,
    revocable_zone,
    sla_waiting_time_ns,
    without_last_applied,
)
from pumice.manifests.conditions import STATUSES
from pumice.manifests.quantities import Quantity
from pumice.manifests.selectors import LabelSelectorShape, label_selector
from pumice.manifests.shapes import Count, Metadata, Shape, one_of
from pumice.manifests.times import fill_time
from pumice.v1 import group_pb2
from pumice.v1.condition_pb2 import CONDITION_STATUS_UNSPECIFIED

_PHASES: Final = {
    "": group_pb2.POD_GROUP_PHASE_UNSPECIFIED,
    "Pending": group_pb2.POD_GROUP_PHASE_PENDING,
    "Inqueue": group_pb2.POD_GROUP_PHASE_INQUEUE,
    "Running": group_pb2.POD_GROUP_PHASE_RUNNING,
    "Unknown": group_pb2.POD_GROUP_PHASE_UNKNOWN,
    "Completed": group_pb2.POD_GROUP_PHASE_COMPLETED,
}
_MODES: Final = {"hard": True, "soft": False}


class NetworkTopologyShape(Shape, frozen=True):
    """The network topology constraint of a job."""

    mode: str = "hard"
    highest_tier_allowed: Count | None = None
    highest_tier_name: str = ""


class SubGroupPolicyShape(Shape, frozen=True):
    """A policy that divides a job into sub-groups."""

    name: str = ""
    label_selector: LabelSelectorShape | None = None
    match_label_keys: tuple[str, ...] = ()
    sub_group_size: Count | None = None
    min_sub_groups: Count = 0
    network_topology: NetworkTopologyShape | None = None


class PodGroupSpecShape(Shape, frozen=True):
    """The specification of a PodGroup."""

    min_member: Count = 0
    min_task_member: dict[str, Count] = msgspec.field(default_factory=dict)
    queue: str = ""
    priority_class_name: str = ""
    min_resources: dict[str, Quantity] | None = None
    network_topology: NetworkTopologyShape | None = None
    sub_group_policy: tuple[SubGroupPolicyShape, ...] = ()


class PodGroupConditionShape(Shape, frozen=True):
    """A condition of a PodGroup."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    transition_id: str = msgspec.field(default="", name="transitionID")
    last_transition_time: str = ""


class PodGroupStatusShape(Shape, frozen=True):
    """The status of a PodGroup."""

    phase: str = ""
    running: Count = 0
    succeeded: Count = 0
    failed: Count = 0
    conditions: tuple[PodGroupConditionShape, ...] = ()


class PodGroupShape(Shape, frozen=True):
    """A PodGroup."""

    metadata: Metadata = Metadata()
    spec: PodGroupSpecShape = PodGroupSpecShape()
    status: PodGroupStatusShape = PodGroupStatusShape()


DECODER: Final = msgspec.json.Decoder(PodGroupShape)


def fill_pod_group(group: group_pb2.PodGroup, shape: PodGroupShape) -> None:
    fill_metadata(group, shape.metadata)
    _fill_spec(group, shape.spec)
    fill_spec_hash(group)
    _fill_status(group.status, shape.status)


def fill_metadata(group: group_pb2.PodGroup, metadata: Metadata) -> None:
    """Fills the metadata and the fields that annotations and labels set."""
    annotations = metadata.annotations
    group.name = metadata.need_name()
    group.namespace = metadata.namespace_or_default
    group.uid = metadata.uid_of("PodGroup")
    metadata.fill_creation_time(group.creation_time)
    group.labels.update(metadata.labels)
    group.annotations.update(without_last_applied(annotations))
    group.preemptable = preemptable(annotations, metadata.labels, default=False)
    group.revocable_zone = revocable_zone(annotations)
    waiting_time = sla_waiting_time_ns(annotations)
    if waiting_time is not None:
        group.sla_waiting_time.FromNanoseconds(waiting_time)


def _fill_spec(group: group_pb2.PodGroup, spec: PodGroupSpecShape) -> None:
    group.queue = spec.queue
    group.min_member = spec.min_member
    group.min_task_member.update(spec.min_task_member)
    if spec.min_resources is not None:
        field = "spec.minResources"
        group.min_resources.SetInParent()
        group.min_resources.amounts.update(amounts(spec.min_resources, field))
        group.min_resources_milli.update(milli_amounts(spec.min_resources, field))
    group.priority_class_name = spec.priority_class_name
    if spec.network_topology is not None:
        _fill_topology(group.network_topology, spec.network_topology, "spec.networkTopology")
    for index, policy in enumerate(spec.sub_group_policy):
        _fill_policy(group.sub_group_policies.add(), policy, f"spec.subGroupPolicy[{index}]")


def _fill_topology(
    topology: group_pb2.NetworkTopology, shape: NetworkTopologyShape, field: str
) -> None:
    topology.hard = one_of(_MODES, shape.mode or "hard", f"{field}.mode")
    if shape.highest_tier_allowed is not None:
        topology.highest_tier = shape.highest_tier_allowed
    topology.highest_tier_name = shape.highest_tier_name


def _fill_policy(policy: group_pb2.SubGroupPolicy, shape: SubGroupPolicyShape, field: str) -> None:
    policy.name = shape.name
    if shape.label_selector is not None:
        policy.selector.CopyFrom(label_selector(shape.label_selector, f"{field}.labelSelector"))
    policy.match_label_keys.extend(shape.match_label_keys)
    if shape.sub_group_size is not None:
        policy.sub_group_size = shape.sub_group_size
    policy.min_sub_groups = shape.min_sub_groups
    if shape.network_topology is not None:
        _fill_topology(policy.network_topology, shape.network_topology, f"{field}.networkTopology")


def fill_spec_hash(group: group_pb2.PodGroup) -> None:
    """Fills the hash of all fields that affect decisions; they must be filled before."""
    relevant = group_pb2.PodGroup()
    relevant.CopyFrom(group)
    for name in ("uid", "namespace", "name", "creation_time", "labels", "annotations"):
        relevant.ClearField(name)
    relevant.annotations.update(for_scheduling(group.annotations))
    # The scheduler writes this after its own decisions.
    relevant.annotations.pop(ALLOCATED_HYPER_NODE, None)
    data = relevant.SerializeToString(deterministic=True)
    group.spec_hash = hashlib.blake2b(data, digest_size=8).hexdigest()


def _fill_status(status: group_pb2.PodGroupStatus, shape: PodGroupStatusShape) -> None:
    status.phase = one_of(_PHASES, shape.phase, "status.phase")
    status.running = shape.running
    status.succeeded = shape.succeeded
    status.failed = shape.failed
    for condition in shape.conditions:
        added = status.conditions.add(
            type=condition.type,
            status=STATUSES.get(condition.status, CONDITION_STATUS_UNSPECIFIED),
            reason=condition.reason,
            message=condition.message,
            transition_id=condition.transition_id,
        )
        fill_time(
            added.transition_time,
            condition.last_transition_time,
            "status.conditions.lastTransitionTime",
        )
