"""Converts PodGroups and queues between protocol messages and the engine's values."""

from __future__ import annotations

from sys import intern

from pumice.core.model.group import (
    NetworkTopology,
    NodeGroupAffinity,
    PodGroup,
    PodGroupCondition,
    PodGroupPhase,
    PodGroupStatus,
    Queue,
    QueueState,
    SubGroupPolicy,
)
from pumice.server.wire.conversion import (
    AMOUNTS,
    TEXT_MAP,
    TEXTS,
    TIME,
    Conversion,
    Field,
    bounded,
    choice,
    named,
    optional,
    repeated,
)
from pumice.server.wire.fields import (
    CONDITION_STATUS_NUMBERS,
    CONDITION_STATUSES,
    amount,
    amounts,
    at_least,
    enum_value,
    plain_dict,
)
from pumice.server.wire.selectors import SELECTOR
from pumice.server.wire.times import duration, read_time, write_time
from pumice.v1 import group_pb2, resource_pb2

_PHASES = {
    group_pb2.POD_GROUP_PHASE_UNSPECIFIED: PodGroupPhase.NONE,
    group_pb2.POD_GROUP_PHASE_PENDING: PodGroupPhase.PENDING,
    group_pb2.POD_GROUP_PHASE_INQUEUE: PodGroupPhase.INQUEUE,
    group_pb2.POD_GROUP_PHASE_RUNNING: PodGroupPhase.RUNNING,
    group_pb2.POD_GROUP_PHASE_UNKNOWN: PodGroupPhase.UNKNOWN,
    group_pb2.POD_GROUP_PHASE_COMPLETED: PodGroupPhase.COMPLETED,
}
PHASE_NUMBERS = {phase: number for number, phase in _PHASES.items()}
_STATES = {
    group_pb2.QUEUE_STATE_UNSPECIFIED: QueueState.NONE,
    group_pb2.QUEUE_STATE_OPEN: QueueState.OPEN,
    group_pb2.QUEUE_STATE_CLOSED: QueueState.CLOSED,
    group_pb2.QUEUE_STATE_CLOSING: QueueState.CLOSING,
    group_pb2.QUEUE_STATE_UNKNOWN: QueueState.UNKNOWN,
}


_AMOUNTS = optional(
    Field(
        lambda path, message: amounts(path, message.amounts),
        lambda pairs: resource_pb2.ResourceList(amounts=dict(pairs)),
    )
)
_TOPOLOGY = Conversion(
    NetworkTopology,
    group_pb2.NetworkTopology,
    hard=optional(absent=True),
    highest_tier=optional(),
)
_POLICIES = repeated(
    Conversion(
        SubGroupPolicy,
        group_pb2.SubGroupPolicy,
        selector=optional(SELECTOR),
        match_label_keys=TEXTS,
        sub_group_size=optional(bounded(0), absent=1),
        min_sub_groups=bounded(0),
        network_topology=optional(_TOPOLOGY),
    )
)
_AFFINITY = Conversion(
    NodeGroupAffinity,
    group_pb2.NodeGroupAffinity,
    required=TEXTS,
    preferred=TEXTS,
    anti_required=TEXTS,
    anti_preferred=TEXTS,
)
QUEUE = Conversion(
    Queue,
    group_pb2.Queue,
    creation_time_ns=named("creation_time", TIME),
    annotations=TEXT_MAP,
    weight=optional(bounded(1), absent=1),
    reclaimable=optional(),
    capability=_AMOUNTS,
    deserved=_AMOUNTS,
    guarantee=_AMOUNTS,
    affinity=optional(_AFFINITY),
    state=choice(_STATES),
    allocated=AMOUNTS,
)


def read_pod_group_status(message: group_pb2.PodGroupStatus) -> PodGroupStatus:
    conditions = message.conditions
    return PodGroupStatus(
        enum_value("status.phase", message.phase, _PHASES),
        message.running,
        message.succeeded,
        message.failed,
        tuple(_read_condition(f"status.conditions[{i}]", m) for i, m in enumerate(conditions))
        if conditions
        else (),
    )


def _read_condition(path: str, message: group_pb2.PodGroupCondition) -> PodGroupCondition:
    return PodGroupCondition(
        intern(message.type),
        enum_value(f"{path}.status", message.status, CONDITION_STATUSES),
        intern(message.reason),
        message.message,
        message.transition_id,
        read_time(f"{path}.transition_time", message.transition_time),
    )


def write_pod_group_status(status: PodGroupStatus) -> group_pb2.PodGroupStatus:
    return group_pb2.PodGroupStatus(
        phase=PHASE_NUMBERS[status.phase],
        running=status.running,
        succeeded=status.succeeded,
        failed=status.failed,
        conditions=[
            group_pb2.PodGroupCondition(
                type=condition.type,
                status=CONDITION_STATUS_NUMBERS[condition.status],
                reason=condition.reason,
                message=condition.message,
                transition_id=condition.transition_id,
                transition_time=write_time(condition.transition_time_ns),
            )
            for condition in status.conditions
        ],
    )


def read_pod_group(message: group_pb2.PodGroup) -> PodGroup:
    has, policies = message.HasField, message.sub_group_policies
    return PodGroup(
        uid=message.uid,
        namespace=intern(message.namespace),
        name=intern(message.name),
        creation_time_ns=read_time("creation_time", message.creation_time),
        labels=plain_dict(message.labels),
        annotations=plain_dict(message.annotations),
        queue=intern(message.queue),
        min_member=at_least("min_member", message.min_member, 0),
        min_task_member=amounts("min_task_member", message.min_task_member),
        min_resources=amounts("min_resources", message.min_resources.amounts)
        if has("min_resources")
        else None,
        min_resources_milli=amounts("min_resources_milli", message.min_resources_milli),
        priority_class_name=message.priority_class_name,
        network_topology=_TOPOLOGY.read("network_topology", message.network_topology)
        if has("network_topology")
        else None,
        topology_key=message.topology_key,
        sub_group_policies=_POLICIES.read("sub_group_policies", policies) if policies else (),
        preemptable=message.preemptable,
        revocable_zone=message.revocable_zone,
        sla_waiting_time_ns=amount(
            "sla_waiting_time", read_time("sla_waiting_time", message.sla_waiting_time)
        )
        if has("sla_waiting_time")
        else None,
        spec_hash=message.spec_hash,
        status=read_pod_group_status(message.status),
    )


def write_pod_group(group: PodGroup) -> group_pb2.PodGroup:
    return group_pb2.PodGroup(
        uid=group.uid,
        namespace=group.namespace,
        name=group.name,
        creation_time=write_time(group.creation_time_ns),
        labels=group.labels,
        annotations=group.annotations,
        queue=group.queue,
        min_member=group.min_member,
        min_task_member=dict(group.min_task_member),
        min_resources=None if group.min_resources is None else _AMOUNTS.write(group.min_resources),
        min_resources_milli=dict(group.min_resources_milli),
        priority_class_name=group.priority_class_name,
        network_topology=None
        if group.network_topology is None
        else _TOPOLOGY.write(group.network_topology),
        topology_key=group.topology_key,
        sub_group_policies=_POLICIES.write(group.sub_group_policies),
        preemptable=group.preemptable,
        revocable_zone=group.revocable_zone,
        sla_waiting_time=None
        if group.sla_waiting_time_ns is None
        else duration(group.sla_waiting_time_ns),
        spec_hash=group.spec_hash,
        status=write_pod_group_status(group.status),
    )
