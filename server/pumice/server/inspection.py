"""InspectionService: lists, sessions and configurations, for people and dashboards."""

from __future__ import annotations

import asyncio
import base64
import binascii
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from typing import Any

from pumice.server import errors
from pumice.server.authorization import current_caller
from pumice.server.cluster_info import cluster_info, core_info, write_pause
from pumice.server.cluster_view import JobRow
from pumice.server.clusters import Cluster, Clusters
from pumice.server.configuration import configuration_text
from pumice.server.configuration_check import check
from pumice.server.core_environment import CoreEnvironment
from pumice.server.overview import jobs_of, node_names, nodes_of, phase_of, queues_of
from pumice.server.plain_yaml import MAX_TEXT_BYTES
from pumice.server.records import SessionRecord
from pumice.server.served import ServedCluster
from pumice.server.service import abort, abort_on_error
from pumice.server.wire.times import timestamp
from pumice.v1 import inspection_service_pb2 as pb
from pumice.v1 import inspection_service_pb2_grpc

_DEFAULT_PAGE, MAX_PAGE_SIZE = 500, 5000
_TOKEN_MARK = ">"
_LAST_SESSION = 2**63 - 1


def page_of(keys: Sequence[str], size: int, token: str) -> tuple[Sequence[str], str]:
    """One page of sorted keys, and the token of the next page; empty for the last page.

    A token contains the last key, so keys that are added or removed between two pages do not affect
    the others.
    """
    start = bisect_right(keys, _read_token(token)) if token else 0
    page = keys[start : start + _page_size(size)]
    if start + len(page) >= len(keys):
        return page, ""
    return page, _write_token(page[-1])


def _page_size(asked: int) -> int:
    """The size of a page; sizes above the maximum are reduced to it."""
    if asked < 0:
        raise errors.PageError("page_size", f"{asked} is negative")
    return min(asked or _DEFAULT_PAGE, MAX_PAGE_SIZE)


def _write_token(text: str) -> str:
    return base64.urlsafe_b64encode(f"{_TOKEN_MARK}{text}".encode()).decode()


def _read_token(token: str) -> str:
    try:
        text = base64.urlsafe_b64decode(token).decode()
    except (ValueError, binascii.Error):
        text = ""
    if not text.startswith(_TOKEN_MARK):
        raise errors.PageError("page_token", "was not issued by this core")
    return text[len(_TOKEN_MARK) :]


def _read_session_token(token: str, session: int) -> tuple[int, int]:
    """The session of a token, and the index of its next item."""
    number, _, start = _read_token(token).partition(":")
    if not (number.isdecimal() and start.isdecimal()) or session not in (0, int(number)):
        raise errors.PageError("page_token", "belongs to another session")
    return int(number), int(start)


class InspectionServicer(inspection_service_pb2_grpc.InspectionServiceServicer):
    """Serves lists and details from views and kept sessions. It never reads an engine."""

    def __init__(self, clusters: Clusters, env: CoreEnvironment) -> None:
        self._clusters = clusters
        self._env = env
        self._check_slots = asyncio.Semaphore(env.limits.checks_at_once)
        self._checks = 0

    @abort_on_error
    async def ListClusters(  # noqa: N802
        self, request: pb.ListClustersRequest, context: Any
    ) -> pb.ListClustersResponse:
        caller = current_caller.get()
        allowed = None if caller is None else caller.clusters
        names = [name for name in self._clusters.names() if allowed is None or name in allowed]
        page, following = page_of(names, request.page_size, request.page_token)
        return pb.ListClustersResponse(
            clusters=[cluster_info(self._clusters.find(name)) for name in page],
            next_page_token=following,
            core=core_info(self._env),
        )

    @abort_on_error
    async def ListQueues(  # noqa: N802
        self, request: pb.ListQueuesRequest, context: Any
    ) -> pb.ListQueuesResponse:
        cluster = self._clusters.find(request.cluster)
        view = await cluster.view()
        names = [queue.name for queue in view.queues]
        page, following = page_of(names, request.page_size, request.page_token)
        return pb.ListQueuesResponse(
            queues=await asyncio.to_thread(queues_of, view, page),
            next_page_token=following,
            session=view.session,
            based_on_seq=view.based_on_seq,
            pause=write_pause(cluster.served.pause),
        )

    @abort_on_error
    async def ListJobs(  # noqa: N802
        self, request: pb.ListJobsRequest, context: Any
    ) -> pb.ListJobsResponse:
        cluster = self._clusters.find(request.cluster)
        view = await cluster.view()

        def write() -> pb.ListJobsResponse:
            ids = sorted(id_ for id_, row in view.jobs.items() if _matches(row, request))
            page, following = page_of(ids, request.page_size, request.page_token)
            return pb.ListJobsResponse(
                jobs=jobs_of(view, page),
                next_page_token=following,
                session=view.session,
                based_on_seq=view.based_on_seq,
                pause=write_pause(cluster.served.pause),
            )

        return await asyncio.to_thread(write)

    @abort_on_error
    async def ListNodes(  # noqa: N802
        self, request: pb.ListNodesRequest, context: Any
    ) -> pb.ListNodesResponse:
        cluster = self._clusters.find(request.cluster)
        view = await cluster.view()

        def write() -> pb.ListNodesResponse:
            names = node_names(view)
            page, following = page_of(names, request.page_size, request.page_token)
            return pb.ListNodesResponse(
                nodes=nodes_of(view, page),
                next_page_token=following,
                session=view.session,
                based_on_seq=view.based_on_seq,
                pause=write_pause(cluster.served.pause),
            )

        return await asyncio.to_thread(write)

    @abort_on_error
    async def ListSessions(  # noqa: N802
        self, request: pb.ListSessionsRequest, context: Any
    ) -> pb.ListSessionsResponse:
        cluster = self._clusters.find(request.cluster)
        kept = cluster.history.newest_first()
        records = {
            _newest_first(old.number): old
            for old in kept
            if old.decided or not request.decided_only
        }
        page, following = page_of(list(records), request.page_size, request.page_token)
        return pb.ListSessionsResponse(
            sessions=[records[key].summary for key in page], next_page_token=following
        )

    @abort_on_error
    async def GetSession(  # noqa: N802
        self, request: pb.GetSessionRequest, context: Any
    ) -> pb.GetSessionResponse:
        history = self._clusters.find(request.cluster).history
        number, start = request.session, 0
        if request.page_token:
            number, start = _read_session_token(request.page_token, number)
        record = history.get(number)
        if record is None:
            raise errors.SessionNotKeptError(number, *history.bounds)
        size = _page_size(request.page_size)
        detail = await asyncio.to_thread(record.detail, start, size)
        end = start + size
        following = f"{record.number}:{end}" if end < record.item_count else ""
        return pb.GetSessionResponse(
            session=detail, next_page_token=_write_token(following) if following else ""
        )

    async def WatchSessions(  # noqa: N802
        self, request: pb.WatchSessionsRequest, context: Any
    ) -> AsyncIterator[pb.WatchSessionsResponse]:
        try:
            cluster = self._clusters.find(request.cluster)
            async for response in _watch(cluster, request):
                yield response
        except errors.ServiceError as error:
            await abort(context, error)

    @abort_on_error
    async def GetConfig(  # noqa: N802
        self, request: pb.GetConfigRequest, context: Any
    ) -> pb.GetConfigResponse:
        response = _config(self._clusters.find(request.cluster).served)
        response.core.CopyFrom(core_info(self._env))
        return response

    @abort_on_error
    async def CheckConfig(  # noqa: N802
        self, request: pb.CheckConfigRequest, context: Any
    ) -> pb.CheckConfigResponse:
        size = len(request.configuration.scheduler_conf.encode())
        if size > MAX_TEXT_BYTES:
            raise errors.ConfTooLargeError(MAX_TEXT_BYTES, size)
        limits = self._env.limits
        if self._checks >= limits.checks_at_once + limits.checks_waiting:
            most = limits.checks_at_once + limits.checks_waiting
            raise errors.BusyError("configurations being checked", most, self._checks + 1)
        self._checks += 1
        try:
            # A caller that is cancelled while it waits starts no check.
            async with self._check_slots:
                return await asyncio.to_thread(check, request.configuration, self._env.registry)
        finally:
            self._checks -= 1


def _newest_first(session: int) -> str:
    """A key that sorts later sessions first."""
    return f"{_LAST_SESSION - session:020d}"


def _matches(row: JobRow, request: pb.ListJobsRequest) -> bool:
    return (
        (not request.namespace or row.group.namespace == request.namespace)
        and (not request.queue or row.queue == request.queue)
        and (not request.phases or phase_of(row) in request.phases)
    )


async def _watch(
    cluster: Cluster, request: pb.WatchSessionsRequest
) -> AsyncIterator[pb.WatchSessionsResponse]:
    watcher = cluster.watchers.add()
    try:
        last, skipped = request.after_session, 0
        if last > cluster.history.bounds[1]:
            # The number is from an earlier core; this one counts from 1 again.
            last = 0
        early = cluster.history.after(last) if last else []
        for record in early:
            is_sent = record.decided or not request.decided_only
            if is_sent:
                yield await _response(record, skipped)
            skipped = 0 if is_sent else skipped + 1
            last = record.number
        while (record_or_end := await watcher.queue.get()) is not None:
            if record_or_end.number <= last:
                continue
            if request.decided_only and not record_or_end.decided:
                skipped += 1
                continue
            yield await _response(record_or_end, skipped)
            skipped = 0
        if watcher.too_slow:
            limit = watcher.queue.maxsize - 1
            raise errors.LimitError("sessions waiting for a watcher", limit, limit + 1)
        # Without an error, the end of the stream would mean that there are no more sessions.
        raise errors.ShuttingDownError
    finally:
        cluster.watchers.remove(watcher)


async def _response(record: SessionRecord, skipped: int) -> pb.WatchSessionsResponse:
    detail = await asyncio.to_thread(record.detail)
    return pb.WatchSessionsResponse(session=detail, skipped_count=skipped)


def _config(served: ServedCluster) -> pb.GetConfigResponse:
    """Runs on the loop. The owner replaces these values and never changes one in place."""
    state = served.state
    effective, refused = state.effective, state.refused
    response = pb.GetConfigResponse(
        problems=state.refused_problems, pause=write_pause(served.pause)
    )
    if effective is not None:
        response.effective_config_hash = effective.hash
        response.configuration.CopyFrom(effective.message)
        if not effective.message.scheduler_conf.strip():
            response.configuration.scheduler_conf = configuration_text(effective.scheduler)
        response.accepted_time.CopyFrom(timestamp(served.reporter.configured_ns))
    if refused is not None:
        response.rejected.CopyFrom(refused)
    return response
