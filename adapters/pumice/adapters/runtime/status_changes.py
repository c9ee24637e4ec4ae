"""Properties of status changes: the object, whether they are written, how urgent they are."""

from collections.abc import Iterable
from enum import Enum

from pumice.adapters.runtime.buffer import ResumeBuffer
from pumice.adapters.runtime.objects import ObjectKey
from pumice.v1.condition_pb2 import CONDITION_STATUS_FALSE, CONDITION_STATUS_TRUE
from pumice.v1.group_pb2 import (
    POD_GROUP_PHASE_INQUEUE,
    PodGroupCondition,
    PodGroupStatus,
)
from pumice.v1.object_pb2 import KIND_NODE_SHARD, KIND_POD, KIND_POD_GROUP, KIND_QUEUE
from pumice.v1.pod_pb2 import Pod
from pumice.v1.status_pb2 import NodeShardStatusChange, PodConditionChange, StatusChange
from pumice.v1.topology_pb2 import NodeShard


def subject(change: StatusChange) -> ObjectKey | None:
    """The object of a change; None: a change of an unknown type."""
    match change.WhichOneof("change"):
        case "pod_group":
            return (KIND_POD_GROUP, change.pod_group.uid)
        case "queue":
            return (KIND_QUEUE, change.queue.uid)
        case "pod":
            return (KIND_POD, change.pod.uid)
        case "node_shard":
            return (KIND_NODE_SHARD, change.node_shard.uid)
        case "pod_gate":
            return (KIND_POD, change.pod_gate.uid)
        case _:
            return None


def is_written(change: StatusChange, buffer: ResumeBuffer) -> bool:
    """Whether the last version of the object has this status."""
    key = subject(change)
    held = None if key is None else buffer.get(*key)
    if held is None:
        return False
    message = held.message()
    match change.WhichOneof("change"):
        case "pod_group":
            return _same_group_status(message.pod_group.status, change.pod_group.status)
        case "queue":
            return dict(message.queue.allocated) == dict(change.queue.allocated)
        case "node_shard":
            return _shard_nodes(message.node_shard) == _shard_nodes(change.node_shard)
        case "pod_gate":
            return change.pod_gate.gate not in message.pod.spec.scheduling_gates
        case _:
            return _has_condition(message.pod, change.pod)


class Urgency(Enum):
    """How long a status may wait for a newer one of the same object that replaces it."""

    # Not at all.
    AT_ONCE = 0
    # Until no bind is in flight: the pods of a gang with a new phase are being bound.
    AFTER_BINDS = 1
    # For one delay, or a few while binds are in flight.
    SOON = 2
    # For many delays while binds are made: only counters changed, or the gang is about to run.
    MINOR = 3


def urgency_of(change: StatusChange, buffer: ResumeBuffer) -> Urgency:
    """The urgency of a status, compared with the last version of its object."""
    if change.HasField("pod") or change.HasField("queue"):
        return Urgency.SOON
    if not change.HasField("pod_group"):
        return Urgency.AT_ONCE
    status, held = change.pod_group.status, buffer.get(KIND_POD_GROUP, change.pod_group.uid)
    if held is None:
        return Urgency.SOON if _is_starting(status) else Urgency.AT_ONCE
    before = held.message().pod_group.status
    if before.phase != status.phase:
        return Urgency.AFTER_BINDS if _is_starting(status) else Urgency.AT_ONCE
    is_new = _conditions(before.conditions) != _conditions(status.conditions)
    return Urgency.SOON if is_new and not _is_starting(status) else Urgency.MINOR


def _is_starting(status: PodGroupStatus) -> bool:
    """Whether the pods are being bound, so that the phase Running follows."""
    return status.phase == POD_GROUP_PHASE_INQUEUE and any(map(_is_scheduled, status.conditions))


def lets_pods_follow(change: StatusChange) -> bool:
    """Whether pods are created or can be bound only after this status is written."""
    if change.HasField("pod_gate"):
        return True
    status = change.pod_group.status
    is_admitted = change.HasField("pod_group") and status.phase == POD_GROUP_PHASE_INQUEUE
    return is_admitted and not any(_is_scheduled(c) for c in status.conditions)


def _is_scheduled(condition: PodGroupCondition) -> bool:
    return condition.type == "Scheduled" and condition.status == CONDITION_STATUS_TRUE


def is_same(one: StatusChange, other: StatusChange) -> bool:
    """Whether two changes of an object write the same status."""
    if one.HasField("pod_group") and other.HasField("pod_group"):
        return _same_group_status(one.pod_group.status, other.pod_group.status)
    return one == other


def _same_group_status(current: PodGroupStatus, wanted: PodGroupStatus) -> bool:
    return (
        current.phase == wanted.phase
        and current.running == wanted.running
        and current.succeeded == wanted.succeeded
        and current.failed == wanted.failed
        and _conditions(current.conditions) == _conditions(wanted.conditions)
    )


def _shard_nodes(shard: NodeShard | NodeShardStatusChange) -> list[list[str]]:
    return [
        sorted(shard.nodes_in_use),
        sorted(shard.nodes_to_add),
        sorted(shard.nodes_to_remove),
    ]


def _conditions(conditions: Iterable[PodGroupCondition]) -> list[tuple[str, int, str, str]]:
    # Transition times and ids differ in every session.
    return [(c.type, c.status, c.reason, c.message) for c in conditions]


def _has_condition(pod: Pod, wanted: PodConditionChange) -> bool:
    if pod.node_name:
        # The pod no longer waits.
        return True
    if wanted.nominated_node_name and pod.nominated_node_name != wanted.nominated_node_name:
        return False
    return any(
        condition.type == "PodScheduled"
        and condition.status == CONDITION_STATUS_FALSE
        and condition.reason == wanted.reason
        and condition.message == wanted.message
        for condition in pod.conditions
    )
