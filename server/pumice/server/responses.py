"""Writes messages to an adapter: Welcome, Ack, and the result of a session."""

from __future__ import annotations

from collections.abc import Sequence

from pumice.core.decisions import SessionResult
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
