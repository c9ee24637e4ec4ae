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
from pumice.server.wire.fields import (
    CONDITION_STATUS_NUMBERS,
    CONDITION_STATUSES,
    Pairs,
    amount,
    amounts,
    at_least,
    check_named,
    check_namespaced,
    enum_value,
    plain_dict,
)
from pumice.server.wire.selectors import read_selector, write_selector
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
STATE_NUMBERS = {state: number for number, state in _STATES.items()}


def _write_amounts(pairs: Pairs | None) -> resource_pb2.ResourceList | None:
    return None if pairs is None else resource_pb2.ResourceList(amounts=dict(pairs))


def _read_topology(message: group_pb2.NetworkTopology) -> NetworkTopology:
    has = message.HasField
    return NetworkTopology(
        message.hard if has("hard") else True,
        message.highest_tier if has("highest_tier") else None,
        message.highest_tier_name,
    )


def _write_topology(topology: NetworkTopology | None) -> group_pb2.NetworkTopology | None:
    if topology is None:
        return None
    return group_pb2.NetworkTopology(
        hard=topology.hard,
        highest_tier=topology.highest_tier,
        highest_tier_name=topology.highest_tier_name,
    )


def _read_policy(path: str, message: group_pb2.SubGroupPolicy) -> SubGroupPolicy:
    has = message.HasField
    return SubGroupPolicy(
        name=message.name,
        selector=read_selector(f"{path}.selector", message.selector) if has("selector") else None,
        match_label_keys=tuple(message.match_label_keys),
        sub_group_size=at_least(f"{path}.sub_group_size", message.sub_group_size, 0)
        if has("sub_group_size")
        else 1,
        min_sub_groups=at_least(f"{path}.min_sub_groups", message.min_sub_groups, 0),
        network_topology=_read_topology(message.network_topology)
        if has("network_topology")
        else None,
    )


def _write_policy(policy: SubGroupPolicy) -> group_pb2.SubGroupPolicy:
    return group_pb2.SubGroupPolicy(
        name=policy.name,
        selector=write_selector(policy.selector),
        match_label_keys=policy.match_label_keys,
        sub_group_size=policy.sub_group_size,
        min_sub_groups=policy.min_sub_groups,
        network_topology=_write_topology(policy.network_topology),
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
    uid, namespace, name = message.uid, message.namespace, message.name
    check_namespaced(uid, namespace, name)
    has, policies = message.HasField, message.sub_group_policies
    return PodGroup(
        uid=uid,
        namespace=intern(namespace),
        name=intern(name),
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
        network_topology=_read_topology(message.network_topology)
        if has("network_topology")
        else None,
        topology_key=message.topology_key,
        sub_group_policies=tuple(
            _read_policy(f"sub_group_policies[{i}]", m) for i, m in enumerate(policies)
        )
        if policies
        else (),
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
        min_resources=_write_amounts(group.min_resources),
        min_resources_milli=dict(group.min_resources_milli),
        priority_class_name=group.priority_class_name,
        network_topology=_write_topology(group.network_topology),
        topology_key=group.topology_key,
        sub_group_policies=map(_write_policy, group.sub_group_policies),
        preemptable=group.preemptable,
        revocable_zone=group.revocable_zone,
        sla_waiting_time=None
        if group.sla_waiting_time_ns is None
        else duration(group.sla_waiting_time_ns),
        spec_hash=group.spec_hash,
        status=write_pod_group_status(group.status),
    )


def _read_affinity(message: group_pb2.NodeGroupAffinity) -> NodeGroupAffinity:
    return NodeGroupAffinity(
        tuple(message.required),
        tuple(message.preferred),
        tuple(message.anti_required),
        tuple(message.anti_preferred),
    )


def _write_affinity(affinity: NodeGroupAffinity | None) -> group_pb2.NodeGroupAffinity | None:
    if affinity is None:
        return None
    return group_pb2.NodeGroupAffinity(
        required=affinity.required,
        preferred=affinity.preferred,
        anti_required=affinity.anti_required,
        anti_preferred=affinity.anti_preferred,
    )


def read_queue(message: group_pb2.Queue) -> Queue:
    check_named(message.uid, message.name)
    has = message.HasField
    return Queue(
        uid=message.uid,
        name=message.name,
        creation_time_ns=read_time("creation_time", message.creation_time),
        annotations=plain_dict(message.annotations),
        weight=at_least("weight", message.weight, 1) if has("weight") else 1,
        priority=message.priority,
        parent=message.parent,
        reclaimable=message.reclaimable if has("reclaimable") else None,
        capability=amounts("capability", message.capability.amounts) if has("capability") else None,
        deserved=amounts("deserved", message.deserved.amounts) if has("deserved") else None,
        guarantee=amounts("guarantee", message.guarantee.amounts) if has("guarantee") else None,
        affinity=_read_affinity(message.affinity) if has("affinity") else None,
        state=enum_value("state", message.state, _STATES),
        allocated=amounts("allocated", message.allocated),
    )


def write_queue(queue: Queue) -> group_pb2.Queue:
    return group_pb2.Queue(
        uid=queue.uid,
        name=queue.name,
        creation_time=write_time(queue.creation_time_ns),
        annotations=queue.annotations,
        weight=queue.weight,
        priority=queue.priority,
        parent=queue.parent,
        reclaimable=queue.reclaimable,
        capability=_write_amounts(queue.capability),
        deserved=_write_amounts(queue.deserved),
        guarantee=_write_amounts(queue.guarantee),
        affinity=_write_affinity(queue.affinity),
        state=STATE_NUMBERS[queue.state],
        allocated=dict(queue.allocated),
    )
