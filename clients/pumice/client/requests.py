"""Requests of the protocol from arguments of the client."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from pumice.client.values import duration_of
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.object_pb2 import ClusterObject, ObjectRef
from pumice.v1.recording_service_pb2 import RecordRequest
from pumice.v1.scheduling_service_pb2 import (
    ClusterSource,
    EstimateStartRequest,
    ExplainRequest,
    InlineSource,
    ObjectName,
    ObjectSet,
    ScheduleRequest,
)


def schedule_request(
    source: InlineSource | ClusterSource,
    configuration: str | Configuration | None,
    sessions: int,
    request_id: str,
    timeout_seconds: float | None,
) -> ScheduleRequest:
    request = ScheduleRequest(request_id=request_id or str(uuid.uuid4()), max_sessions=sessions)
    if timeout_seconds is not None:
        request.timeout.CopyFrom(duration_of(timeout_seconds))
    if isinstance(source, InlineSource):
        request.inline.CopyFrom(source)
    else:
        request.cluster.CopyFrom(source)
    if configuration is not None:
        request.configuration.CopyFrom(configuration_of(configuration))
    return request


def configuration_of(configuration: str | Configuration) -> Configuration:
    return (
        Configuration(scheduler_conf=configuration)
        if isinstance(configuration, str)
        else configuration
    )


def inline_source(objects: Iterable[ClusterObject]) -> InlineSource:
    source = InlineSource()
    _fill(source.objects, objects)
    return source


def cluster_source(
    cluster: str, objects: Iterable[ClusterObject], removed: Iterable[ObjectRef]
) -> ClusterSource:
    source = ClusterSource(cluster=cluster, removed=removed)
    _fill(source.hypothetical, objects)
    return source


def _fill(held: ObjectSet, objects: Iterable[ClusterObject]) -> None:
    for item in objects:
        match item.WhichOneof("object"):
            case "node":
                held.nodes.append(item.node)
            case "queue":
                held.queues.append(item.queue)
            case "pod_group":
                held.pod_groups.append(item.pod_group)
            case "pod":
                held.pods.append(item.pod)
            case _:
                held.other_objects.append(item)


def object_name(name: str) -> ObjectName:
    """``namespace/name``; a name without a namespace is in ``default``."""
    namespace, _, own = name.rpartition("/")
    return ObjectName(namespace=namespace or "default", name=own)


def explain_request(
    cluster: str,
    nearest: int,
    wait_seconds: float | None,
    *,
    job: ObjectName | None = None,
    pod: ObjectName | None = None,
) -> ExplainRequest:
    request = ExplainRequest(cluster=cluster, nearest_node_count=nearest, job=job, pod=pod)
    if wait_seconds is not None:
        request.max_wait.CopyFrom(duration_of(wait_seconds))
    return request


def add_horizon(request: ExplainRequest | ScheduleRequest, seconds: float | None) -> None:
    """Asks for estimates of starts; None: does not."""
    if seconds is not None:
        request.start_horizon.CopyFrom(duration_of(seconds))


def estimate_request(
    cluster: str, name: str, pod: bool, horizon_seconds: float | None
) -> EstimateStartRequest:
    request = EstimateStartRequest(cluster=cluster)
    (request.pod if pod else request.job).CopyFrom(object_name(name))
    if horizon_seconds is not None:
        request.horizon.CopyFrom(duration_of(horizon_seconds))
    return request


def record_request(cluster: str, seconds: float | None) -> RecordRequest:
    request = RecordRequest(cluster=cluster)
    if seconds is not None:
        request.duration.CopyFrom(duration_of(seconds))
    return request
