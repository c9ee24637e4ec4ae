"""The asynchronous client: the services of a core as typed methods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from types import TracebackType
from typing import Unpack

from pumice.client import arguments, requests
from pumice.client.arguments import ConfigurationLike
from pumice.client.calls import Caller
from pumice.client.clusters import Cluster
from pumice.client.configurations import ActiveConfig, ConfigCheck
from pumice.client.enums import PodGroupPhase, number_of
from pumice.client.errors import CallError, RecordingEndedError
from pumice.client.objects import Job, Node, Queue
from pumice.client.scheduling import SchedulingMethods
from pumice.client.sessions import Session, SessionSummary
from pumice.client.settings import ClientSettings, SettingsArguments
from pumice.v1 import group_pb2
from pumice.v1 import inspection_service_pb2 as inspection
from pumice.v1.administration_service_pb2 import ForgetClusterRequest
from pumice.v1.administration_service_pb2_grpc import AdministrationServiceStub
from pumice.v1.inspection_service_pb2_grpc import InspectionServiceStub
from pumice.v1.recording_pb2 import RecordingEntry
from pumice.v1.recording_service_pb2_grpc import RecordingServiceStub


class AsyncClient(SchedulingMethods):
    """A client of one core, for ``asyncio``. It belongs to one event loop.

    Every method accepts ``cluster``, which replaces the cluster of the settings, and
    ``timeout_seconds``, which limits the call with all its pages and retries. All errors are
    subclasses of ``ClientError``.
    """

    def __init__(
        self, settings: ClientSettings | None = None, **arguments: Unpack[SettingsArguments]
    ) -> None:
        """Connects with these settings, or with those of ``ClientSettings.load(**arguments)``."""
        self.settings = settings or ClientSettings.load(**arguments)
        super().__init__(Caller(self.settings))
        channel = self._caller.channel
        self._inspection = InspectionServiceStub(channel)
        self._recording = RecordingServiceStub(channel)
        self._administration = AdministrationServiceStub(channel)

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
        """Closes the connection and ends all calls."""
        await self._caller.close()

    async def list_clusters(self, *, timeout_seconds: float | None = None) -> list[Cluster]:
        """The clusters that the core serves or served, by name."""
        found = await self._caller.list(
            self._inspection.ListClusters,
            inspection.ListClustersRequest(),
            lambda page: page.clusters,
            self._caller.deadline(timeout_seconds),
        )
        return list(map(Cluster.from_proto, found))

    async def forget_cluster(
        self, cluster: str, *, force: bool = False, timeout_seconds: float | None = None
    ) -> int:
        """Removes a cluster from the core: objects, sessions, configuration and highest epoch.

        Needs the role ``admin``. Returns the highest epoch that was served. The call is not
        retried.

        Args:
            cluster: The name of the cluster.
            force: Remove the cluster even while an adapter is connected; this ends its stream.
            timeout_seconds: The timeout of the call; by default that of the settings.
        """
        name = arguments.text("cluster", cluster, empty=False)
        request = ForgetClusterRequest(cluster=name, force=arguments.flag("force", force))
        deadline = self._caller.deadline(timeout_seconds)
        method = self._administration.ForgetCluster
        return (await self._caller.call_once(method, request, deadline)).epoch

    async def list_queues(
        self, *, cluster: str | None = None, timeout_seconds: float | None = None
    ) -> list[Queue]:
        """The queues by name, with their shares."""
        found = await self._caller.list(
            self._inspection.ListQueues,
            inspection.ListQueuesRequest(cluster=self._cluster(cluster)),
            lambda page: page.queues,
            self._caller.deadline(timeout_seconds),
        )
        return list(map(Queue.from_proto, found))

    async def list_jobs(
        self,
        *,
        namespace: str = "",
        queue: str = "",
        phases: Iterable[PodGroupPhase | str] = (),
        cluster: str | None = None,
        timeout_seconds: float | None = None,
    ) -> list[Job]:
        """The jobs by name, optionally of one namespace, one queue or some phases.

        A phase is a ``PodGroupPhase`` or its name, such as ``Pending``.
        """
        enum = group_pb2.PodGroupPhase.DESCRIPTOR
        request = inspection.ListJobsRequest(
            cluster=self._cluster(cluster),
            namespace=arguments.text("namespace", namespace),
            queue=arguments.text("queue", queue),
        )
        request.phases.extend(
            group_pb2.PodGroupPhase.ValueType(number_of(phase, enum))
            for phase in arguments.phases(phases)
        )
        found = await self._caller.list(
            self._inspection.ListJobs,
            request,
            lambda page: page.jobs,
            self._caller.deadline(timeout_seconds),
        )
        return list(map(Job.from_proto, found))

    async def list_nodes(
        self, *, cluster: str | None = None, timeout_seconds: float | None = None
    ) -> list[Node]:
        """The nodes by name, with their resources."""
        found = await self._caller.list(
            self._inspection.ListNodes,
            inspection.ListNodesRequest(cluster=self._cluster(cluster)),
            lambda page: page.nodes,
            self._caller.deadline(timeout_seconds),
        )
        return list(map(Node.from_proto, found))

    async def list_sessions(
        self,
        *,
        decided_only: bool = False,
        count: int | None = None,
        cluster: str | None = None,
        timeout_seconds: float | None = None,
    ) -> list[SessionSummary]:
        """The last sessions, newest first: all that the core keeps, or at most ``count``."""
        request = inspection.ListSessionsRequest(
            cluster=self._cluster(cluster),
            decided_only=arguments.flag("decided_only", decided_only),
            page_size=0 if count is None else arguments.count("count", count, 1),
        )
        deadline = self._caller.deadline(timeout_seconds)
        if count is not None:
            page = await self._caller.call(self._inspection.ListSessions, request, deadline)
            return list(map(SessionSummary.from_proto, page.sessions))
        found = await self._caller.list(
            self._inspection.ListSessions, request, lambda page: page.sessions, deadline
        )
        return list(map(SessionSummary.from_proto, found))

    async def get_session(
        self,
        number: int = 0,
        *,
        cluster: str | None = None,
        timeout_seconds: float | None = None,
    ) -> Session:
        """One session with its decisions; by default the last one."""
        pages = await self._caller.list(
            self._inspection.GetSession,
            inspection.GetSessionRequest(
                cluster=self._cluster(cluster), session=arguments.count("number", number)
            ),
            lambda page: (page.session,),
            self._caller.deadline(timeout_seconds),
        )
        return Session.from_pages(pages)

    async def get_config(
        self, *, cluster: str | None = None, timeout_seconds: float | None = None
    ) -> ActiveConfig:
        """The scheduler configuration in use, and the last one that was rejected."""
        request = inspection.GetConfigRequest(cluster=self._cluster(cluster))
        deadline = self._caller.deadline(timeout_seconds)
        response = await self._caller.call(self._inspection.GetConfig, request, deadline)
        return ActiveConfig.from_proto(response)

    async def check_config(
        self, configuration: ConfigurationLike, *, timeout_seconds: float | None = None
    ) -> ConfigCheck:
        """Checks a configuration: a text, a ``Path``, or a mapping."""
        checked = await asyncio.to_thread(arguments.configuration, configuration)
        request = inspection.CheckConfigRequest(configuration=checked)
        deadline = self._caller.deadline(timeout_seconds)
        response = await self._caller.call(self._inspection.CheckConfig, request, deadline)
        return ConfigCheck.from_proto(response)

    async def watch(
        self,
        *,
        after: int = 0,
        decided_only: bool = False,
        cluster: str | None = None,
        timeout_seconds: float | None = None,
    ) -> AsyncGenerator[Session, None]:
        """Sessions as they end, until the caller stops.

        The client reopens a lost connection, and resumes after the last returned session.

        Args:
            after: Begin after this session, if the core still keeps it. 0 begins with the next
                session, -1 with the oldest that the core keeps.
            decided_only: Skip sessions without decisions.
            cluster: The cluster; by default that of the settings.
            timeout_seconds: Time without a core after which this raises an error.
        """
        request = inspection.WatchSessionsRequest(
            cluster=self._cluster(cluster),
            after_session=arguments.count("after", after, -1),
            decided_only=arguments.flag("decided_only", decided_only),
        )
        outage_seconds = arguments.seconds("timeout_seconds", timeout_seconds)

        def resume(response: inspection.WatchSessionsResponse) -> None:
            request.after_session = response.session.summary.session

        responses = self._caller.resumed_stream(
            self._inspection.WatchSessions, request, resume, outage_seconds
        )
        async with aclosing(responses):
            async for response in responses:
                yield Session.from_proto(response.session, response.skipped_count)

    async def record(
        self, seconds: float | None = None, *, cluster: str | None = None
    ) -> AsyncGenerator[RecordingEntry, None]:
        """Records the cluster from its next session on; the entries are for a ``RecordingWriter``.

        The recording ends after ``seconds``, or when the caller stops. Raises RecordingEndedError
        if the core ends it earlier.
        """
        request = requests.record_request(self._cluster(cluster), seconds)
        responses = self._caller.stream(self._recording.Record, request)
        is_begun = False
        async with aclosing(responses):
            try:
                async for response in responses:
                    for entry in response.entries:
                        is_begun = True
                        yield entry
            except CallError as error:
                if is_begun:
                    raise RecordingEndedError(str(error), error.details) from None
                raise
