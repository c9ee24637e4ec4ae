"""InspectionService: what a core holds and does, for people and dashboards."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

from pumice.core.engine import Engine
from pumice.server import errors
from pumice.server.checking import check
from pumice.server.clusters import Cluster, Clusters
from pumice.server.conf_text import MAX_TEXT_BYTES
from pumice.server.overview import Overview, jobs_of, nodes_of, overview_of, queues_of
from pumice.server.records import SessionRecord, timestamp
from pumice.server.served import ServedCluster
from pumice.server.service import abort
from pumice.server.surroundings import Surroundings
from pumice.v1 import inspection_service_pb2 as pb
from pumice.v1 import inspection_service_pb2_grpc

T = TypeVar("T")
Method = Callable[[Any, Any, Any], Awaitable[T]]
_DEFAULT_PAGE, _LARGEST_PAGE = 500, 5000


def answers(method: Method[T]) -> Method[T]:
    """Turns errors into statuses."""

    @wraps(method)
    async def call(self: Any, request: Any, context: Any) -> T:
        try:
            return await method(self, request, context)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await abort(context, error)
            raise

    return call


def page_of(items: Sequence[T], size: int, token: str) -> tuple[Sequence[T], str]:
    """One page, and the token of the next one; empty at the end."""
    if not 0 <= size <= _LARGEST_PAGE:
        raise errors.PageError(f"page_size {size} is not between 0 and {_LARGEST_PAGE}")
    try:
        start = int(base64.urlsafe_b64decode(token)) if token else 0
    except (ValueError, binascii.Error) as error:
        raise errors.PageError(f"page_token {token!r} is not one of ours") from error
    if start < 0:
        raise errors.PageError(f"page_token {token!r} is not one of ours")
    end = start + (size or _DEFAULT_PAGE)
    following = base64.urlsafe_b64encode(str(end).encode()).decode() if end < len(items) else ""
    return items[start:end], following


class InspectionServicer(inspection_service_pb2_grpc.InspectionServiceServicer):
    """Answers from what owners publish and make when asked; never from an engine."""

    def __init__(self, clusters: Clusters, around: Surroundings) -> None:
        self._clusters = clusters
        self._around = around

    async def _overview(self, name: str, made_by: Callable[[Engine], list[T]]) -> Overview[T]:
        cluster = self._clusters.find(name)
        made = await cluster.owner.ask(lambda served: overview_of(served, made_by))
        if made is None:
            raise errors.NotReadyError(cluster.name)
        return made

    @answers
    async def ListQueues(  # noqa: N802
        self, request: pb.ListQueuesRequest, context: Any
    ) -> pb.ListQueuesResponse:
        seen = await self._overview(request.cluster, queues_of)
        page, following = page_of(seen.items, request.page_size, request.page_token)
        return pb.ListQueuesResponse(
            queues=page,
            next_page_token=following,
            session=seen.session,
            based_on_seq=seen.based_on_seq,
        )

    @answers
    async def ListJobs(  # noqa: N802
        self, request: pb.ListJobsRequest, context: Any
    ) -> pb.ListJobsResponse:
        seen = await self._overview(request.cluster, jobs_of)
        jobs = [job for job in seen.items if _wanted(job, request)]
        page, following = page_of(jobs, request.page_size, request.page_token)
        return pb.ListJobsResponse(
            jobs=page,
            next_page_token=following,
            session=seen.session,
            based_on_seq=seen.based_on_seq,
        )

    @answers
    async def ListNodes(  # noqa: N802
        self, request: pb.ListNodesRequest, context: Any
    ) -> pb.ListNodesResponse:
        seen = await self._overview(request.cluster, nodes_of)
        page, following = page_of(seen.items, request.page_size, request.page_token)
        return pb.ListNodesResponse(
            nodes=page,
            next_page_token=following,
            session=seen.session,
            based_on_seq=seen.based_on_seq,
        )

    @answers
    async def ListSessions(  # noqa: N802
        self, request: pb.ListSessionsRequest, context: Any
    ) -> pb.ListSessionsResponse:
        cluster = self._clusters.find(request.cluster)
        kept = cluster.history.newest_first()
        records = [old for old in kept if old.decided or not request.decided_only]
        page, following = page_of(records, request.page_size, request.page_token)
        return pb.ListSessionsResponse(
            sessions=[record.summary for record in page], next_page_token=following
        )

    @answers
    async def GetSession(  # noqa: N802
        self, request: pb.GetSessionRequest, context: Any
    ) -> pb.GetSessionResponse:
        history = self._clusters.find(request.cluster).history
        record = history.get(request.session)
        if record is None:
            raise errors.SessionNotKeptError(request.session, *history.bounds)
        return pb.GetSessionResponse(session=await asyncio.to_thread(record.detail))

    async def WatchSessions(  # noqa: N802
        self, request: pb.WatchSessionsRequest, context: Any
    ) -> AsyncIterator[pb.WatchSessionsResponse]:
        try:
            cluster = self._clusters.find(request.cluster)
            async for response in _watch(cluster, request):
                yield response
        except errors.ServiceError as error:
            await abort(context, error)

    @answers
    async def GetConfig(  # noqa: N802
        self, request: pb.GetConfigRequest, context: Any
    ) -> pb.GetConfigResponse:
        return await self._clusters.find(request.cluster).owner.ask(_config)

    @answers
    async def CheckConfig(  # noqa: N802
        self, request: pb.CheckConfigRequest, context: Any
    ) -> pb.CheckConfigResponse:
        size = len(request.configuration.scheduler_conf.encode())
        if size > MAX_TEXT_BYTES:
            raise errors.ConfTooLargeError(MAX_TEXT_BYTES, size)
        return await asyncio.to_thread(check, request.configuration, self._around.registry)


def _wanted(job: pb.JobInfo, request: pb.ListJobsRequest) -> bool:
    return (
        (not request.namespace or job.namespace == request.namespace)
        and (not request.queue or job.queue == request.queue)
        and (not request.phases or job.phase in request.phases)
    )


async def _watch(
    cluster: Cluster, request: pb.WatchSessionsRequest
) -> AsyncIterator[pb.WatchSessionsResponse]:
    watcher = cluster.watchers.add()
    try:
        last, skipped = request.after_session, 0
        early = cluster.history.after(last) if last else []
        for record in early:
            watcher_sees = record.decided or not request.decided_only
            if watcher_sees:
                yield await _seen(record, skipped)
            skipped = 0 if watcher_sees else skipped + 1
            last = record.number
        while (record_or_end := await watcher.queue.get()) is not None:
            if record_or_end.number <= last:
                continue
            if request.decided_only and not record_or_end.decided:
                skipped += 1
                continue
            yield await _seen(record_or_end, skipped)
            skipped = 0
        if watcher.too_slow:
            limit = watcher.queue.maxsize - 1
            raise errors.LimitError("sessions waiting for a watcher", limit, limit + 1)
    finally:
        cluster.watchers.remove(watcher)


async def _seen(record: SessionRecord, skipped: int) -> pb.WatchSessionsResponse:
    detail = await asyncio.to_thread(record.detail)
    return pb.WatchSessionsResponse(session=detail, skipped_count=skipped)


def _config(served: ServedCluster) -> pb.GetConfigResponse:
    state = served.state
    response = pb.GetConfigResponse(
        effective_config_hash=state.config_hash, problems=state.refused_problems
    )
    if state.effective is not None:
        response.configuration.CopyFrom(state.effective.message)
        response.accepted_time.CopyFrom(timestamp(served.configured_ns))
    if state.refused is not None:
        response.rejected.CopyFrom(state.refused)
    return response
