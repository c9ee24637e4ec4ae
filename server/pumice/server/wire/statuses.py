"""Converts statuses, events, reasons and questions to protocol messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from google.protobuf.duration_pb2 import Duration

from pumice.core.decisions import (
    Event,
    NodeShardStatusChanged,
    PluginFault,
    PodConditionChanged,
    PodGateLifted,
    PodGroupStatusChanged,
    Question,
    QueueStatusChanged,
    SessionResult,
    StatusChange,
    Timing,
    Wait,
)
from pumice.core.model.reasons import QueueLimit, Reason, ReasonCode
from pumice.server.wire.decisions import BATCH_BYTES
from pumice.server.wire.groups import write_pod_group_status
from pumice.server.wire.objects import kind_number
from pumice.server.wire.times import duration
from pumice.v1 import cluster_service_pb2, reason_pb2, session_pb2, status_pb2

_CODES = {
    code: reason_pb2.ReasonCode.ValueType(
        dict(reason_pb2.ReasonCode.items()).get(f"REASON_CODE_{code.name}", 0)
    )
    for code in ReasonCode
}


def write_status(change: StatusChange) -> status_pb2.StatusChange:
    match change:
        case PodGroupStatusChanged():
            group = status_pb2.PodGroupStatusChange(
                namespace=change.namespace,
                name=change.name,
                uid=change.uid,
                status=write_pod_group_status(change.status),
            )
            return status_pb2.StatusChange(pod_group=group)
        case QueueStatusChanged():
            queue = status_pb2.QueueStatusChange(
                name=change.name, uid=change.uid, allocated=dict(change.allocated)
            )
            return status_pb2.StatusChange(queue=queue)
        case PodConditionChanged():
            pod = status_pb2.PodConditionChange(
                namespace=change.namespace,
                name=change.name,
                uid=change.uid,
                reason=change.reason,
                message=change.message,
                nominated_node_name=change.nominated_node_name,
            )
            return status_pb2.StatusChange(pod=pod)
        case NodeShardStatusChanged():
            shard = status_pb2.NodeShardStatusChange(
                name=change.name,
                uid=change.uid,
                nodes_in_use=change.nodes_in_use,
                nodes_to_add=change.nodes_to_add,
                nodes_to_remove=change.nodes_to_remove,
            )
            return status_pb2.StatusChange(node_shard=shard)
        case PodGateLifted():
            gate = status_pb2.PodGateLift(
                namespace=change.namespace, name=change.name, uid=change.uid, gate=change.gate
            )
            return status_pb2.StatusChange(pod_gate=gate)


def write_event(event: Event) -> status_pb2.Event:
    return status_pb2.Event(
        kind=kind_number(event.kind),
        namespace=event.namespace,
        name=event.name,
        uid=event.uid,
        warning=event.warning,
        reason=event.reason,
        message=event.message,
    )


def write_reason(reason: Reason) -> reason_pb2.Reason:
    return reason_pb2.Reason(
        author=reason.author,
        code=_CODES[reason.code],
        task=reason.task,
        have=reason.have,
        need=reason.need,
        subjects=reason.subjects,
        nodes=[reason_pb2.NodeCount(reason=n.reason, node_count=n.nodes) for n in reason.nodes],
        limits=map(_write_limit, reason.limits),
    )


def _write_limit(limit: QueueLimit) -> reason_pb2.QueueLimit:
    return reason_pb2.QueueLimit(
        queue=limit.queue,
        resource=limit.resource,
        asked=limit.asked,
        used=limit.used,
        allowed=limit.allowed,
    )


def write_wait(wait: Wait) -> reason_pb2.Wait:
    return reason_pb2.Wait(job=wait.job, reasons=map(write_reason, wait.reasons))


def write_fault(fault: PluginFault) -> reason_pb2.PluginFault:
    return reason_pb2.PluginFault(
        author=fault.author,
        where=fault.where,
        job=fault.job,
        error=fault.error,
        file=fault.file,
        line=fault.line,
    )


def write_timing(timing: Timing) -> session_pb2.SessionTiming:
    return session_pb2.SessionTiming(
        action=timing.action,
        plugin=timing.plugin,
        duration=duration(timing.duration_ns),
        call_count=timing.calls,
    )


def _written(result: SessionResult) -> Iterator[status_pb2.StatusChange | status_pb2.Event]:
    yield from map(write_status, result.statuses)
    yield from map(write_event, result.events)


def status_batches(
    result: SessionResult, *, epoch: int, batch_bytes: int = BATCH_BYTES
) -> Iterator[cluster_service_pb2.StatusBatch]:
    """The statuses and events of a session in batches; no batch if nothing changed."""
    batch = cluster_service_pb2.StatusBatch(session=result.session, epoch=epoch)
    size = 0
    for written in _written(result):
        if isinstance(written, status_pb2.StatusChange):
            batch.changes.append(written)
        else:
            batch.events.append(written)
        size += written.ByteSize()
        if size >= batch_bytes:
            yield batch
            batch = cluster_service_pb2.StatusBatch(session=result.session, epoch=epoch)
            size = 0
    if size:
        yield batch


def question_batches(
    questions: Iterable[Question], batch_bytes: int
) -> Iterator[cluster_service_pb2.QuestionBatch]:
    """The questions in batches. A question that is larger than a batch has its own batch."""
    batch, size = cluster_service_pb2.QuestionBatch(), 0
    for question in questions:
        length = len(question.body) + len(question.name) + len(question.url)
        if size and size + length > batch_bytes:
            yield batch
            batch, size = cluster_service_pb2.QuestionBatch(), 0
        timeout = Duration()
        timeout.FromNanoseconds(question.timeout_ns)
        batch.questions.add(
            plugin=question.plugin,
            name=question.name,
            url=question.url,
            body=question.body,
            timeout=timeout,
            needs_answer=question.needs_answer,
        )
        size += length
    if size:
        yield batch
