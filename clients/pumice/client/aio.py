"""The client for programs on ``asyncio``: the same operations, awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Any, TypeVar

import grpc
import grpc.aio
from tenacity import AsyncRetrying

from pumice.client import calling, operations, recording
from pumice.client.errors import error_of
from pumice.client.models import ExplanationView, ScheduleResult, SessionView
from pumice.client.operations import Call, Operation
from pumice.client.recording import RecordingEndedError
from pumice.client.settings import ClientSettings
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.inspection_service_pb2 import (
    CheckConfigResponse,
    GetConfigResponse,
    JobInfo,
    NodeInfo,
    QueueInfo,
    WatchSessionsResponse,
)
from pumice.v1.object_pb2 import ClusterObject, ObjectRef
from pumice.v1.recording_pb2 import RecordingEntry
from pumice.v1.recording_service_pb2 import RecordResponse
from pumice.v1.session_pb2 import SessionSummary

T = TypeVar("T")


class AsyncClient:
    """One core, and one of its clusters. Belongs to one loop; an asynchronous context manager."""

    def __init__(self, settings: ClientSettings | None = None, **given: Any) -> None:
        """Settings are loaded as ``ClientSettings.load`` says, unless they are given."""
        self.settings = settings or ClientSettings.load(**given)
        credentials = calling.credentials(self.settings)
        options = calling.options(self.settings)
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(self.settings.address, options=options)
        else:
            self._channel = grpc.aio.secure_channel(self.settings.address, credentials, options)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._channel.close()

    # What would be decided, and why.

    async def schedule(
        self,
        objects: Iterable[ClusterObject] = (),
        *,
        removed: Iterable[ObjectRef] = (),
        configuration: Configuration | None = None,
        sessions: int = 0,
        request_id: str = "",
        timeout_seconds: float | None = None,
    ) -> ScheduleResult:
        """What the core would decide on the live cluster, were these objects there."""
        return await self.run(
            operations.schedule_on(
                *(self.settings.cluster, objects, removed, configuration),
                *(sessions, request_id, timeout_seconds),
            )
        )

    async def schedule_inline(
        self,
        objects: Iterable[ClusterObject],
        *,
        configuration: Configuration | None = None,
        sessions: int = 0,
        request_id: str = "",
        timeout_seconds: float | None = None,
    ) -> ScheduleResult:
        """What the core would decide on these objects and nothing else."""
        return await self.run(
            operations.schedule_inline(
                objects, configuration, sessions, request_id, timeout_seconds
            )
        )

    async def explain_job(
        self, name: str, nearest: int = 0, patience_seconds: float | None = None
    ) -> ExplanationView:
        """Why it waits, or is where it is; with patience, nodes are looked at even during a session."""
        return await self.run(
            operations.explain(self.settings.cluster, "job", name, nearest, patience_seconds)
        )

    async def explain_pod(
        self, name: str, nearest: int = 0, patience_seconds: float | None = None
    ) -> ExplanationView:
        """Why it waits, or is where it is."""
        return await self.run(
            operations.explain(self.settings.cluster, "pod", name, nearest, patience_seconds)
        )

    # What there is.

    async def queues(self) -> list[QueueInfo]:
        return await self.run(operations.queues(self.settings.cluster))

    async def jobs(
        self, namespace: str = "", queue: str = "", phases: Iterable[str] = ()
    ) -> list[JobInfo]:
        """Those of the namespace, the queue and the phases (such as ``Inqueue``) that are named."""
        return await self.run(operations.jobs(self.settings.cluster, namespace, queue, phases))

    async def nodes(self) -> list[NodeInfo]:
        return await self.run(operations.nodes(self.settings.cluster))

    async def sessions(self, *, decided_only: bool = False) -> list[SessionSummary]:
        """The last ones, newest first."""
        return await self.run(operations.sessions(self.settings.cluster, decided_only=decided_only))

    async def session(self, number: int = 0) -> SessionView:
        """All that one session decided; 0: the last one."""
        return await self.run(operations.session(self.settings.cluster, number))

    async def config(self) -> GetConfigResponse:
        return await self.run(operations.config(self.settings.cluster))

    async def check_config(self, configuration: Configuration) -> CheckConfigResponse:
        return await self.run(operations.check_config(configuration))

    async def watch(
        self, after: int = 0, *, decided_only: bool = False
    ) -> AsyncIterator[SessionView]:
        """Sessions as they end, until the caller stops; a core that goes away raises."""
        call = operations.watch(self.settings.cluster, after, decided_only=decided_only)
        stream = self._stream(call.service, call.method, call.request, WatchSessionsResponse)
        try:
            async for response in stream:
                yield SessionView.of(response.session, response.skipped_count)
        except grpc.aio.AioRpcError as failed:
            raise error_of(failed, self.settings) from None
        finally:
            stream.cancel()

    async def record(self, seconds: float | None = None) -> AsyncIterator[RecordingEntry]:
        """A recording of the cluster from its next session on, until the caller stops."""
        stream = self._stream(
            recording.SERVICE,
            recording.METHOD,
            recording.record_request(self.settings.cluster, seconds),
            RecordResponse,
        )
        began = False
        try:
            async for response in stream:
                began = True
                for entry in response.entries:
                    yield entry
        except grpc.aio.AioRpcError as failed:
            error = error_of(failed, self.settings)
            raise (RecordingEndedError.after(error) if began else error) from None
        finally:
            stream.cancel()

    # How it is done.

    def _stream(self, service: str, method: str, request: Any, response: Any) -> Any:
        open_stream = self._channel.unary_stream(
            calling.path_of(service, method),
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        return open_stream(request, metadata=calling.metadata(self.settings))

    async def run(self, operation: Operation[T]) -> T:
        """Makes the calls of an operation, each with retries and a deadline."""
        try:
            call = next(operation)
            while True:
                retrying = AsyncRetrying(**calling.retries(self.settings))
                call = operation.send(await retrying(self._call, call))
        except StopIteration as end:
            result: T = end.value
            return result

    async def _call(self, call: Call) -> Any:
        method = self._channel.unary_unary(
            calling.path_of(call.service, call.method),
            request_serializer=type(call.request).SerializeToString,
            response_deserializer=call.response.FromString,
        )
        seconds = call.timeout_seconds or self.settings.timeout_seconds
        try:
            return await method(
                call.request,
                timeout=seconds,
                metadata=calling.metadata(self.settings),
            )
        except grpc.aio.AioRpcError as failed:
            raise error_of(failed, self.settings, seconds) from None
