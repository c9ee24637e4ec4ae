"""Pods. Pods are the most frequent kind, so their fields are set one by one for speed."""

from __future__ import annotations

from typing import Final

import msgspec

from pumice.manifests.annotations import (
    GROUP_NAME,
    is_for_scheduling,
    preemptable,
    revocable_zone,
    role,
    task_priority,
)
from pumice.manifests.conditions import STATUSES
from pumice.manifests.errors import FieldError
from pumice.manifests.pod_shapes import PodConditionShape, PodShape, PodStatusShape
from pumice.manifests.pod_specs import pod_spec
from pumice.manifests.shapes import Metadata
from pumice.manifests.times import fill_time
from pumice.v1 import pod_pb2

DECODER: Final = msgspec.json.Decoder(PodShape)

_PHASES: Final = {
    "": pod_pb2.POD_PHASE_UNSPECIFIED,
    "Pending": pod_pb2.POD_PHASE_PENDING,
    "Running": pod_pb2.POD_PHASE_RUNNING,
    "Succeeded": pod_pb2.POD_PHASE_SUCCEEDED,
    "Failed": pod_pb2.POD_PHASE_FAILED,
}
# The conditions that scheduling reads or writes. Others change often, so sending them is costly.
_CONDITIONS: Final = frozenset({"PodScheduled", "DisruptionTarget"})


def fill_pod(pod: pod_pb2.Pod, shape: PodShape) -> None:
    metadata, spec = shape.metadata, shape.spec
    if not spec.containers:
        raise FieldError("spec.containers", "is missing", "at least one container")
    pod.name = metadata.need_name()
    pod.namespace = metadata.namespace_or_default
    pod.uid = metadata.uid_of("Pod")
    metadata.fill_creation_time(pod.creation_time)
    pod.spec.CopyFrom(pod_spec(shape))
    _fill_metadata(pod, metadata, spec.priority)
    if spec.scheduling_group is not None and not pod.group_name:
        pod.group_name = spec.scheduling_group.pod_group_name
    if metadata.deletion_timestamp:
        pod.terminating = True
    if spec.node_name:
        pod.node_name = spec.node_name
    controller = metadata.controller
    if controller is not None:
        pod.controller_uid = controller.uid
        pod.controller_kind = controller.kind
        pod.controller_name = controller.name
    _fill_status(pod, shape.status)


def _fill_metadata(pod: pod_pb2.Pod, metadata: Metadata, priority: int | None) -> None:
    """Fills labels, annotations and the fields that they set."""
    annotations, labels = metadata.annotations, metadata.labels
    if labels:
        # Setting items is faster than update() on a protobuf map.
        kept = pod.labels
        for key, text in labels.items():
            kept[key] = text
    if annotations:
        kept = pod.annotations
        for key, text in annotations.items():
            if is_for_scheduling(key):
                kept[key] = text
        pod.group_name = annotations.get(GROUP_NAME, "")
        pod.revocable_zone = revocable_zone(annotations)
    pod.role = role(annotations, labels)
    pod.preemptable = preemptable(annotations, labels, default=True)
    if priority is not None:
        pod.priority = priority
    pod.task_priority = task_priority(annotations, priority)


def _fill_status(pod: pod_pb2.Pod, status: PodStatusShape) -> None:
    pod.phase = _PHASES.get(status.phase, pod_pb2.POD_PHASE_UNKNOWN)
    if status.nominated_node_name:
        pod.nominated_node_name = status.nominated_node_name
    if status.start_time:
        fill_time(pod.start_time, status.start_time, "status.startTime")
    for condition in status.conditions:
        if condition.type in _CONDITIONS:
            _fill_condition(pod.conditions.add(), condition)


def _fill_condition(target: pod_pb2.PodCondition, condition: PodConditionShape) -> None:
    target.type = condition.type
    if condition.status in STATUSES:
        target.status = STATUSES[condition.status]
    if condition.reason:
        target.reason = condition.reason
    if condition.message:
        target.message = condition.message
    fill_time(
        target.transition_time,
        condition.last_transition_time,
        "status.conditions.lastTransitionTime",
    )
