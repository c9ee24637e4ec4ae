"""Queues, jobs and nodes, as of the last session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pumice.client.enums import PodGroupPhase, QueueState, member_of
from pumice.client.reasons import Reason, why
from pumice.client.sessions import QueueShare
from pumice.client.values import Value, time_from
from pumice.v1 import group_pb2, inspection_service_pb2


@dataclass(frozen=True, slots=True)
class Queue(Value):
    """A queue: its spec, its share and its jobs. Amounts are in the units of the protocol."""

    name: str
    # Empty for the root.
    parent: str
    state: QueueState
    weight: int
    priority: int
    reclaimable: bool
    # None if not set.
    capability: Mapping[str, int] | None
    guarantee: Mapping[str, int] | None
    share: QueueShare
    # Jobs of the queue itself, without its descendants, by phase.
    pending_job_count: int
    inqueue_job_count: int
    running_job_count: int
    unknown_job_count: int

    @staticmethod
    def from_proto(message: inspection_service_pb2.QueueInfo) -> Queue:
        has_capability, has_guarantee = (
            message.HasField("capability"),
            message.HasField("guarantee"),
        )
        return Queue(
            name=message.share.name,
            parent=message.parent,
            state=member_of(QueueState, group_pb2.QueueState.DESCRIPTOR, message.state),
            weight=message.weight,
            priority=message.priority,
            reclaimable=message.reclaimable,
            capability=dict(message.capability.amounts) if has_capability else None,
            guarantee=dict(message.guarantee.amounts) if has_guarantee else None,
            share=QueueShare.from_proto(message.share),
            pending_job_count=message.pending_job_count,
            inqueue_job_count=message.inqueue_job_count,
            running_job_count=message.running_job_count,
            unknown_job_count=message.unknown_job_count,
        )

    @property
    def job_count(self) -> int:
        return (
            self.pending_job_count
            + self.inqueue_job_count
            + self.running_job_count
            + self.unknown_job_count
        )


@dataclass(frozen=True, slots=True)
class Job(Value):
    """A PodGroup with the counts of its pods."""

    namespace: str
    name: str
    uid: str
    queue: str
    phase: PodGroupPhase
    priority: int
    min_member: int
    pending_count: int
    running_count: int
    succeeded_count: int
    failed_count: int
    # Bound, or with a bind in flight; not running yet.
    bound_count: int
    releasing_count: int
    creation_time: datetime | None
    allocated: Mapping[str, int]
    # Why the job waits; empty if it does not wait.
    reasons: tuple[Reason, ...]

    @staticmethod
    def from_proto(message: inspection_service_pb2.JobInfo) -> Job:
        return Job(
            namespace=message.namespace,
            name=message.name,
            uid=message.uid,
            queue=message.queue,
            phase=member_of(PodGroupPhase, group_pb2.PodGroupPhase.DESCRIPTOR, message.phase),
            priority=message.priority,
            min_member=message.min_member,
            pending_count=message.pending_count,
            running_count=message.running_count,
            succeeded_count=message.succeeded_count,
            failed_count=message.failed_count,
            bound_count=message.bound_count,
            releasing_count=message.releasing_count,
            creation_time=time_from(message.creation_time),
            allocated=dict(message.allocated),
            reasons=tuple(map(Reason.from_proto, message.reasons)),
        )

    @property
    def why(self) -> str:
        return why(self.reasons)

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Node(Value):
    """A node with its resources, in the units of the protocol."""

    name: str
    unschedulable: bool
    # Whether a pod names the node, but the node does not exist.
    missing: bool
    allocatable: Mapping[str, int]
    used: Mapping[str, int]
    # Negative if pods use more than the node has.
    idle: Mapping[str, int]
    # Used by pods that are being deleted.
    releasing: Mapping[str, int]
    # Reserved for pods that wait for resources that are being released.
    pipelined: Mapping[str, int]
    pod_count: int

    @staticmethod
    def from_proto(message: inspection_service_pb2.NodeInfo) -> Node:
        return Node(
            name=message.name,
            unschedulable=message.unschedulable,
            missing=message.missing,
            allocatable=dict(message.allocatable),
            used=dict(message.used),
            idle=dict(message.idle),
            releasing=dict(message.releasing),
            pipelined=dict(message.pipelined),
            pod_count=message.pod_count,
        )

    @property
    def used_ratio(self) -> float:
        """The largest ratio of used to allocatable over the resources."""
        ratios = [
            self.used.get(name, 0) / all_ for name, all_ in self.allocatable.items() if all_ > 0
        ]
        return max(ratios, default=0.0)
