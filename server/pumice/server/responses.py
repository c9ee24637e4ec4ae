"""Messages to an adapter: Welcome, Ack, results of sessions, and statuses that may be lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pumice.core.decisions import (
    NodeShardStatusChanged,
    PodConditionChanged,
    PodGateLifted,
    PodGroupStatusChanged,
    QueueStatusChanged,
    SessionResult,
    StatusChange,
)
from pumice.server.core_environment import CoreEnvironment
from pumice.server.limits import HIGHEST_PROTOCOL
from pumice.server.state import ClusterState
from pumice.server.versions import own_version
from pumice.server.wire import READ_KINDS, decision_batches, question_batches, status_batches
from pumice.v1 import cluster_service_pb2, object_pb2

# Number of warnings in one Ack.
MAX_WARNINGS = 100
_RESUME = cluster_service_pb2.WELCOME_MODE_RESUME
_SNAPSHOT = cluster_service_pb2.WELCOME_MODE_SNAPSHOT


def write_welcome(
    hello: cluster_service_pb2.Hello, state: ClusterState, env: CoreEnvironment, *, resume: bool
) -> cluster_service_pb2.Welcome:
    return cluster_service_pb2.Welcome(
        core_id=env.core_id,
        protocol=min(HIGHEST_PROTOCOL, hello.max_protocol),
        mode=_RESUME if resume else _SNAPSHOT,
        resume_after_seq=state.applied_seq if resume else 0,
        limits=env.limits.write(),
        effective_config_hash=state.config_hash,
        core_version=own_version(),
        kinds=map(object_pb2.Kind.ValueType, sorted(READ_KINDS)),
    )


def write_ack(
    seq: int,
    rejected: Sequence[object_pb2.RejectedObject],
    warnings: Sequence[object_pb2.ObjectWarning],
    credit: int,
) -> cluster_service_pb2.Ack:
    return cluster_service_pb2.Ack(
        applied_seq=seq, rejected=rejected, credit=credit, warnings=warnings[:MAX_WARNINGS]
    )


def write_result(
    result: SessionResult, state: ClusterState, *, epoch: int, batch_bytes: int
) -> list[cluster_service_pb2.ConnectResponse]:
    """Decisions, statuses, and the questions for extenders if the adapter supports them."""
    response = cluster_service_pb2.ConnectResponse
    seq = state.applied_seq
    decisions = decision_batches(result, epoch=epoch, based_on_seq=seq, batch_bytes=batch_bytes)
    statuses = status_batches(result, epoch=epoch, batch_bytes=batch_bytes)
    written = [response(decision_batch=batch) for batch in decisions]
    written += [response(status_batch=batch) for batch in statuses]
    if cluster_service_pb2.CAPABILITY_QUESTIONS in state.capabilities:
        batches = question_batches(result.questions, batch_bytes)
        written += [response(question_batch=batch) for batch in batches]
    return written


_KINDS: dict[type[StatusChange], int] = {
    PodGroupStatusChanged: object_pb2.KIND_POD_GROUP,
    QueueStatusChanged: object_pb2.KIND_QUEUE,
    PodConditionChanged: object_pb2.KIND_POD,
    NodeShardStatusChanged: object_pb2.KIND_NODE_SHARD,
    PodGateLifted: object_pb2.KIND_POD,
}


class UnconfirmedStatuses:
    """The last status sent for each object, until an update confirms it.

    A broken stream may have lost these statuses, so they are sent again after a reconnect.
    """

    def __init__(self) -> None:
        self._by_object: dict[tuple[int, str], StatusChange] = {}

    def sent(self, changes: Iterable[StatusChange]) -> None:
        for change in changes:
            self._by_object[_KINDS[type(change)], change.uid] = change

    def confirmed(self, objects: Iterable[tuple[int, str]]) -> None:
        if self._by_object:
            for key in objects:
                self._by_object.pop(key, None)

    def all(self) -> tuple[StatusChange, ...]:
        return tuple(self._by_object.values())
