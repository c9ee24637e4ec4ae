"""The asynchronous client: the services of a core as typed methods."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from types import TracebackType
from typing import Unpack

from pumice.client import requests
from pumice.client.calls import Caller
from pumice.client.clusters import Cluster
from pumice.client.configurations import ActiveConfig, ConfigCheck
from pumice.client.enums import PodGroupPhase, number_of
from pumice.client.errors import CallError, RecordingEndedError
from pumice.client.estimates import StartEstimate
from pumice.client.explanations import Explanation
from pumice.client.objects import Job, Node, Queue
from pumice.client.sessions import ScheduleResult, Session, SessionSummary
from pumice.client.settings import ClientSettings, SettingsArguments
from pumice.v1 import group_pb2
from pumice.v1 import inspection_service_pb2 as inspection
from pumice.v1.administration_service_pb2 import ForgetClusterRequest
from pumice.v1.administration_service_pb2_grpc import AdministrationServiceStub
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.inspection_service_pb2_grpc import InspectionServiceStub
from pumice.v1.object_pb2 import ClusterObject, ObjectRef
from pumice.v1.recording_pb2 import RecordingEntry
from pumice.v1.recording_service_pb2_grpc import RecordingServiceStub
from pumice.v1.scheduling_service_pb2 import ClusterSource, ExplainRequest, InlineSource
from pumice.v1.scheduling_service_pb2_grpc import SchedulingServiceStub

# The core gets less time than the call, so that its own error arrives first.
_GRACE_SECONDS = 1.0


class AsyncClient:
    """A client of one core, for ``asyncio``. It belongs to one event loop.

    Every method takes ``cluster``, which replaces the cluster of the settings, and
    ``timeout_seconds``, which bounds the call with all its pages and retries. Every method raises
    a subclass of ``ClientError``.
    """

    def __init__(
        self, settings: ClientSettings | None = None, **arguments: Unpack[SettingsArguments]
    ) -> None:
        """Connects with these settings, or with those of ``ClientSettings.load(**arguments)``."""
        self.settings = settings or ClientSettings.load(**arguments)
        self._caller = Caller(self.settings)
        channel = self._caller.channel
        self._inspection = InspectionServiceStub(channel)
        self._scheduling = SchedulingServiceStub(channel)
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

    async def schedule(
        self,
        objects: Iterable[ClusterObject] = (),
        *,
        removed: Iterable[ObjectRef] = (),
        configuration: str | Configuration | None = None,
        sessions: int = 1,
        request_id: str = "",
        cluster: str | None = None,
        timeout_seconds: float | None = None,
    ) -> ScheduleResult:
        """What the core would decide if these objects were added to the cluster. Changes nothing.

        Args:
            objects: Objects to add, such as those of ``pumice.manifests.translate_all``.
            removed: Objects to remove, by kind and uid.
            configuration: Another scheduler configuration; a string is the text of its file.
            sessions: The most sessions to run. Pods that one binds are running in the next.
            request_id: The same id with the same content gets the same answer for some minutes.
            cluster: The cluster; None: that of the settings.
            timeout_seconds: Longest time of the call; None: that of the settings.
        """
        source = requests.cluster_source(self._cluster(cluster), objects, removed)
        return await self._schedule(source, configuration, sessions, request_id, timeout_seconds)

    async def schedule_inline(
        self,
        objects: Iterable[ClusterObject],
        *,
        configuration: str | Configuration | None = None,
        sessions: int = 1,
        request_id: str = "",
        timeout_seconds: float | None = None,
    ) -> ScheduleResult:
        """What the core would decide for these objects alone, without a cluster."""
        source = requests.inline_source(objects)
        return await self._schedule(source, configuration, sessions, request_id, timeout_seconds)

    async def _schedule(
        self,
        source: InlineSource | ClusterSource,
        configuration: str | Configuration | None,
        sessions: int,
        request_id: str,
        timeout_seconds: float | None,
    ) -> ScheduleResult:
        deadline = self._caller.deadline(timeout_seconds, _GRACE_SECONDS)
        request = requests.schedule_request(
            source, configuration, sessions, request_id, timeout_seconds
        )
        response = await self._caller.call(self._scheduling.Schedule, request, deadline)
        return ScheduleResult.from_proto(response)

    async def explain_job(
        self,
        name: str,
        *,
        nearest: int = 0,
        wait_seconds: float | None = None,
        horizon_seconds: float | None = None,
        cluster: str | None = None,
        timeout_seconds: float | None = None,
    ) -> Explanation:
        """Why a PodGroup, or the PodGroup of a Volcano Job, waits or is where it is.

        Args:
            name: ``namespace/name``; a name without a namespace is in ``default``.
            nearest: The number of nodes to report that almost fit; 0: five.
            wait_seconds: How long to wait for a running session to end, so that nodes can be
                examined. Without it the answer may come ``without_nodes``.
            horizon_seconds: Adds an estimate of the start that looks so far ahead; None: no
                estimate.
            cluster: The cluster; None: that of the settings.
            timeout_seconds: Longest time of the call; None: that of the settings.
        """
        job = requests.object_name(name)
        request = requests.explain_request(self._cluster(cluster), nearest, wait_seconds, job=job)
        requests.add_horizon(request, horizon_seconds)
        return await self._explain(request, timeout_seconds)

    async def explain_pod(
        self,
        name: str,
        *,
        nearest: int = 0,
        wait_seconds: float | None = None,
        horizon_seconds: float | None = None,
        cluster: str | None = None,
        timeout_seconds: float | None = None,
    ) -> Explanation:
        """Why a pod waits or is on its node; the arguments are those of ``explain_job``."""
        pod = requests.object_name(name)
        request = requests.explain_request(self._cluster(cluster), nearest, wait_seconds, pod=pod)
        requests.add_horizon(request, horizon_seconds)
        return await self._explain(request, timeout_seconds)

    async def _explain(self, request: ExplainRequest, timeout_seconds: float | None) -> Explanation:
        deadline = self._caller.deadline(timeout_seconds)
        response = await self._caller.call(self._scheduling.Explain, request, deadline)
        return Explanation.from_proto(response)

    async def estimate_start(
        self,
        name: str,
        *,
        pod: bool = False,
        horizon_seconds: float | None = None,
        cluster: str | None = None,
        timeout_seconds: float | None = None,
    ) -> StartEstimate:
        """When a job starts, or a pod: the engine is run forward on a copy of the cluster.

        Args:
            name: ``namespace/name`` of a PodGroup, a Volcano Job or a pod.
            pod: The name is that of a pod.
            horizon_seconds: How far to look ahead; None: a day.
            cluster: The cluster; None: that of the settings.
            timeout_seconds: Longest time of the call; None: that of the settings.
        """
        request = requests.estimate_request(self._cluster(cluster), name, pod, horizon_seconds)
        deadline = self._caller.deadline(timeout_seconds)
        response = await self._caller.call(self._scheduling.EstimateStart, request, deadline)
        return StartEstimate.from_response(response)

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
            force: Also while an adapter is connected; its stream is ended.
            timeout_seconds: Longest time of the call; None: that of the settings.
        """
        request = ForgetClusterRequest(cluster=cluster, force=force)
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
        phases: Iterable[PodGroupPhase] = (),
        cluster: str | None = None,
        timeout_seconds: float | None = None,
    ) -> list[Job]:
        """The jobs by name. Namespace, queue and phases each narrow the list."""
        enum = group_pb2.PodGroupPhase.DESCRIPTOR
        request = inspection.ListJobsRequest(
            cluster=self._cluster(cluster), namespace=namespace, queue=queue
        )
        request.phases.extend(
            group_pb2.PodGroupPhase.ValueType(number_of(phase, enum)) for phase in phases
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
        """The sessions that the core still keeps, newest first, or only so many of them."""
        request = inspection.ListSessionsRequest(
            cluster=self._cluster(cluster), decided_only=decided_only, page_size=count or 0
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
        """One session with its decisions; 0: the last one."""
        pages = await self._caller.list(
            self._inspection.GetSession,
            inspection.GetSessionRequest(cluster=self._cluster(cluster), session=number),
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
        self, configuration: str | Configuration, *, timeout_seconds: float | None = None
    ) -> ConfigCheck:
        """Whether a core of this version accepts a configuration; a string is the text of a file."""
        request = inspection.CheckConfigRequest(
            configuration=requests.configuration_of(configuration)
        )
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

        A lost connection is opened again, and the watch resumes after the last session it gave.

        Args:
            after: Begin after this session, if the core still keeps it; 0: with the next one.
            decided_only: Leave out sessions without decisions.
            cluster: The cluster; None: that of the settings.
            timeout_seconds: How long the core may be away before this raises.
        """
        request = inspection.WatchSessionsRequest(
            cluster=self._cluster(cluster), after_session=after, decided_only=decided_only
        )

        def resume(response: inspection.WatchSessionsResponse) -> None:
            request.after_session = response.session.summary.session

        responses = self._caller.resumed_stream(
            self._inspection.WatchSessions, request, resume, timeout_seconds
        )
        async with aclosing(responses):
            async for response in responses:
                yield Session.from_proto(response.session, response.skipped_count)

    async def record(
        self, seconds: float | None = None, *, cluster: str | None = None
    ) -> AsyncGenerator[RecordingEntry, None]:
        """A recording of the cluster from its next session on, for a ``RecordingWriter``.

        It ends after so many seconds, or when the caller stops. When the core ends it earlier,
        this raises RecordingEndedError.
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

    def _cluster(self, given: str | None) -> str:
        return self.settings.cluster if given is None else given
