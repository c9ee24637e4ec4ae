"""Builds requests of the protocol from arguments of the client."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from pumice.client import arguments
from pumice.client.arguments import ConfigurationLike, RemovedLike
from pumice.client.manifests import ManifestLike, object_set
from pumice.client.values import duration_of
from pumice.v1.recording_service_pb2 import RecordRequest
from pumice.v1.scheduling_service_pb2 import (
    ClusterSource,
    EstimateStartRequest,
    ExplainedObject,
    ExplainRequest,
    InlineSource,
    ObjectName,
    ScheduleRequest,
)


def schedule_request(
    source: InlineSource | ClusterSource,
    *,
    configuration: ConfigurationLike | None = None,
    sessions: int = 1,
    others: bool = False,
    horizon_seconds: float | None = None,
    request_id: str = "",
    timeout_seconds: float | None = None,
) -> ScheduleRequest:
    request = ScheduleRequest(
        request_id=arguments.text("request_id", request_id) or str(uuid.uuid4()),
        max_sessions=arguments.count("sessions", sessions, 1),
        own_only=not arguments.flag("others", others),
        skip_invalid=True,
    )
    if timeout_seconds is not None:
        request.timeout.CopyFrom(duration_of(timeout_seconds))
    if isinstance(source, InlineSource):
        request.inline.CopyFrom(source)
    else:
        request.cluster.CopyFrom(source)
    if configuration is not None:
        request.configuration.CopyFrom(arguments.configuration(configuration))
    add_horizon(request, horizon_seconds)
    return request


def inline_source(manifest: ManifestLike) -> InlineSource:
    return InlineSource(objects=object_set(manifest))


def cluster_source(
    cluster: str, manifest: ManifestLike, removed: Iterable[RemovedLike]
) -> ClusterSource:
    refs, keys = arguments.removed(removed)
    return ClusterSource(
        cluster=cluster, hypothetical=object_set(manifest), removed=refs, removed_keys=keys
    )


def explain_request(
    cluster: str, subject: ExplainedObject, nearest: int, wait_seconds: float | None
) -> ExplainRequest:
    request = ExplainRequest(
        cluster=cluster, nearest_node_count=arguments.count("nearest", nearest)
    )
    if subject.HasField("job"):
        request.job.CopyFrom(subject.job)
    else:
        request.pod.CopyFrom(subject.pod)
    wait = arguments.seconds("wait_seconds", wait_seconds, zero=True)
    if wait is not None:
        request.max_wait.CopyFrom(duration_of(wait))
    return request


def add_horizon(request: ExplainRequest | ScheduleRequest, seconds: float | None) -> None:
    """Requests estimates of starts, unless ``seconds`` is None."""
    horizon = arguments.seconds("horizon_seconds", seconds)
    if horizon is not None:
        request.start_horizon.CopyFrom(duration_of(horizon))


def estimate_request(
    cluster: str, name: str, pod: bool, horizon_seconds: float | None
) -> EstimateStartRequest:
    request = EstimateStartRequest(cluster=cluster)
    (request.pod if arguments.flag("pod", pod) else request.job).CopyFrom(object_name(name))
    horizon = arguments.seconds("horizon_seconds", horizon_seconds)
    if horizon is not None:
        request.horizon.CopyFrom(duration_of(horizon))
    return request


def object_name(name: str) -> ObjectName:
    """``namespace/name``; a name without a namespace is in ``default``."""
    namespace, own = arguments.full_name("name", name)
    return ObjectName(namespace=namespace, name=own)


def record_request(cluster: str, seconds: float | None) -> RecordRequest:
    request = RecordRequest(cluster=cluster)
    length = arguments.seconds("seconds", seconds)
    if length is not None:
        request.duration.CopyFrom(duration_of(length))
    return request
