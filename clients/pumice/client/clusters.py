"""Clusters of a core, and the core itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pumice.client.enums import PauseReason, member_of
from pumice.client.values import Value, time_from
from pumice.v1 import core_pb2, inspection_service_pb2
from pumice.v1.object_pb2 import Kind


@dataclass(frozen=True, slots=True)
class Pause(Value):
    """The reason why a cluster is not scheduled."""

    reason: PauseReason
    message: str
    # None if the pause began when the core started.
    begin_time: datetime | None
    # The kinds of objects in which adapter and core differ.
    kinds: tuple[str, ...]

    @staticmethod
    def from_proto(message: core_pb2.Pause) -> Pause:
        return Pause(
            reason=member_of(PauseReason, core_pb2.PauseReason.DESCRIPTOR, message.reason),
            message=message.message,
            begin_time=time_from(message.begin_time),
            kinds=tuple(map(kind_name, message.kinds)),
        )


def kind_name(kind: int) -> str:
    """The name of a kind, such as ``pod_group``; for an unknown kind, its number."""
    value = Kind.DESCRIPTOR.values_by_number.get(kind)
    return str(kind) if value is None else value.name.removeprefix("KIND_").lower()


@dataclass(frozen=True, slots=True)
class Cluster(Value):
    """A cluster that the core serves, or served before."""

    name: str
    # Empty if no adapter is connected.
    adapter_id: str
    adapter_version: str
    connect_time: datetime | None
    # The highest epoch that was served.
    epoch: int
    # None if the cluster is scheduled.
    pause: Pause | None
    last_session: int
    last_session_time: datetime | None
    # Number of objects by kind.
    object_counts: Mapping[str, int]
    rejected_object_count: int

    @staticmethod
    def from_proto(message: inspection_service_pb2.ClusterInfo) -> Cluster:
        return Cluster(
            name=message.name,
            adapter_id=message.adapter_id,
            adapter_version=message.adapter_version,
            connect_time=time_from(message.connect_time),
            epoch=message.epoch,
            pause=Pause.from_proto(message.pause) if message.HasField("pause") else None,
            last_session=message.last_session,
            last_session_time=time_from(message.last_session_time),
            object_counts={kind_name(each.kind): each.count for each in message.object_counts},
            rejected_object_count=message.rejected_object_count,
        )


@dataclass(frozen=True, slots=True)
class Core(Value):
    """A core process."""

    core_id: str
    version: str
    start_time: datetime | None
    # Without the compiled kernel sessions are slower.
    compiled_kernel: bool

    @staticmethod
    def from_proto(message: core_pb2.CoreInfo) -> Core:
        return Core(
            core_id=message.core_id,
            version=message.version,
            start_time=time_from(message.start_time),
            compiled_kernel=message.compiled_kernel,
        )
