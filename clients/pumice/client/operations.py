"""Every operation once, without IO: a generator that yields calls and is sent their answers.

The client for threads and the one for ``asyncio`` both run these, so they cannot differ.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from pumice.client.models import ExplanationView, ScheduleResult, SessionView, phase_named
from pumice.v1 import inspection_service_pb2 as inspection
from pumice.v1 import scheduling_service_pb2 as scheduling
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.object_pb2 import ClusterObject, ObjectRef
from pumice.v1.session_pb2 import SessionSummary

T = TypeVar("T")
M = TypeVar("M", bound=Message)
_PAGE = 2000
_GRACE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Call:
    """One call: the service's and the method's name, and the request."""

    service: str
    method: str
    request: Message
    response: type[Message]
    # How long it may take; None: as the settings say.
    timeout_seconds: float | None = None


Operation = Generator[Call, Any, T]


def _inspect(method: str, request: Message) -> Call:
    return Call("InspectionService", method, request, getattr(inspection, f"{method}Response"))


def _ask(method: str, request: Message, timeout_seconds: float | None = None) -> Call:
    """With a little more time than the core is given, so that its own words come first."""
    response = getattr(scheduling, f"{method}Response")
    limit = None if timeout_seconds is None else timeout_seconds + _GRACE_SECONDS
    return Call("SchedulingService", method, request, response, limit)


def fill(held: scheduling.ObjectSet, objects: Iterable[ClusterObject]) -> None:
    """Puts objects in where they belong; in place, since thousands are not copied for nothing."""
    lists: dict[str, Any] = {
        "node": held.nodes,
        "queue": held.queues,
        "pod_group": held.pod_groups,
        "pod": held.pods,
    }
    for item in objects:
        word = item.WhichOneof("object") or ""
        if word in lists:
            lists[word].append(getattr(item, word))
        else:
            held.other_objects.append(item)


def _duration(seconds: float) -> Duration:
    made = Duration()
    made.FromNanoseconds(int(seconds * 1e9))
    return made


def new_request_id() -> str:
    return str(uuid.uuid4())


def _schedule(
    request: scheduling.ScheduleRequest,
    configuration: Configuration | None,
    timeout_seconds: float | None,
) -> Operation[ScheduleResult]:
    request.request_id = request.request_id or new_request_id()
    if configuration is not None:
        request.configuration.CopyFrom(configuration)
    if timeout_seconds is not None:
        request.timeout.CopyFrom(_duration(timeout_seconds))
    response = yield _ask("Schedule", request, timeout_seconds)
    return ScheduleResult.of(response)


def schedule_inline(
    objects: Iterable[ClusterObject],
    configuration: Configuration | None,
    sessions: int,
    request_id: str,
    timeout_seconds: float | None,
) -> Operation[ScheduleResult]:
    request = scheduling.ScheduleRequest(request_id=request_id, max_sessions=sessions)
    request.inline.SetInParent()
    fill(request.inline.objects, objects)
    return _schedule(request, configuration, timeout_seconds)


def schedule_on(
    cluster: str,
    objects: Iterable[ClusterObject],
    removed: Iterable[ObjectRef],
    configuration: Configuration | None,
    sessions: int,
    request_id: str,
    timeout_seconds: float | None,
) -> Operation[ScheduleResult]:
    request = scheduling.ScheduleRequest(request_id=request_id, max_sessions=sessions)
    request.cluster.SetInParent()
    request.cluster.cluster = cluster
    request.cluster.removed.extend(removed)
    fill(request.cluster.hypothetical, objects)
    return _schedule(request, configuration, timeout_seconds)


def explain(
    cluster: str, subject: str, name: str, nearest: int, patience_seconds: float | None
) -> Operation[ExplanationView]:
    """The name is ``namespace/name``; without a namespace it is in ``default``."""
    namespace, _, plain = name.rpartition("/")
    named = scheduling.ObjectName(namespace=namespace or "default", name=plain)
    request = scheduling.ExplainRequest(cluster=cluster, nearest_node_count=nearest)
    getattr(request, subject).CopyFrom(named)
    if patience_seconds is not None:
        request.patience.CopyFrom(_duration(patience_seconds))
    response = yield _ask("Explain", request)
    return ExplanationView.of(response)


def _pages(method: str, request: Any, field: str) -> Operation[list[Any]]:
    found: list[Any] = []
    request.page_size = _PAGE
    while True:
        response = yield _inspect(method, request)
        found += getattr(response, field)
        if not response.next_page_token:
            return found
        request.page_token = response.next_page_token


def one_page(method: str, request: Message, response: type[M]) -> Operation[M]:
    """A list as the core sends it, without asking for more."""
    answer: M = yield Call("InspectionService", method, request, response)
    return answer


def queues(cluster: str) -> Operation[list[inspection.QueueInfo]]:
    return _pages("ListQueues", inspection.ListQueuesRequest(cluster=cluster), "queues")


def jobs(
    cluster: str, namespace: str, queue: str, phases: Iterable[str]
) -> Operation[list[inspection.JobInfo]]:
    request = inspection.ListJobsRequest(cluster=cluster, namespace=namespace, queue=queue)
    request.phases.extend(phase_named(phase) for phase in phases)
    return _pages("ListJobs", request, "jobs")


def nodes(cluster: str) -> Operation[list[inspection.NodeInfo]]:
    return _pages("ListNodes", inspection.ListNodesRequest(cluster=cluster), "nodes")


def sessions(cluster: str, *, decided_only: bool) -> Operation[list[SessionSummary]]:
    """Newest first."""
    request = inspection.ListSessionsRequest(cluster=cluster, decided_only=decided_only)
    return _pages("ListSessions", request, "sessions")


def session(cluster: str, number: int) -> Operation[SessionView]:
    request = inspection.GetSessionRequest(cluster=cluster, session=number)
    response = yield _inspect("GetSession", request)
    return SessionView.of(response.session)


def config(cluster: str) -> Operation[inspection.GetConfigResponse]:
    answer: inspection.GetConfigResponse = yield _inspect(
        "GetConfig", inspection.GetConfigRequest(cluster=cluster)
    )
    return answer


def check_config(configuration: Configuration) -> Operation[inspection.CheckConfigResponse]:
    answer: inspection.CheckConfigResponse = yield _inspect(
        "CheckConfig", inspection.CheckConfigRequest(configuration=configuration)
    )
    return answer


def watch(cluster: str, after: int, *, decided_only: bool) -> Call:
    request = inspection.WatchSessionsRequest(
        cluster=cluster, after_session=after, decided_only=decided_only
    )
    return _inspect("WatchSessions", request)
