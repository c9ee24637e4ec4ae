"""The synchronous client: an ``AsyncClient`` on an event loop in a separate thread."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Unpack

from pumice.client.aio import AsyncClient
from pumice.client.arguments import ConfigurationLike, RemovedLike
from pumice.client.background import BackgroundLoop, Stream
from pumice.client.channels import read_credentials
from pumice.client.clusters import Cluster
from pumice.client.configurations import ActiveConfig, ConfigCheck
from pumice.client.enums import PodGroupPhase
from pumice.client.estimates import StartEstimate
from pumice.client.explanations import Explanation
from pumice.client.manifests import ManifestLike
from pumice.client.objects import Job, Node, Queue
from pumice.client.results import ScheduleResult
from pumice.client.sessions import Session, SessionSummary
from pumice.client.settings import ClientSettings, SettingsArguments
from pumice.v1.recording_pb2 import RecordingEntry


class Client:
    """A client of one core. It is thread-safe.

    The methods are those of ``AsyncClient``, which documents their arguments.
    """

    def __init__(
        self, settings: ClientSettings | None = None, **arguments: Unpack[SettingsArguments]
    ) -> None:
        """Connects with these settings, or with those of ``ClientSettings.load(**arguments)``."""
        self.settings = settings or ClientSettings.load(**arguments)
        # Errors in files are reported before the thread starts.
        read_credentials(self.settings)
        self._loop = BackgroundLoop()
        self._client = self._loop.run(_opened(self.settings))

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection and ends all calls."""
        if not self._loop.is_closed:
            self._loop.run(self._client.close())
            self._loop.close()

    def schedule(
        self,
        manifest: ManifestLike = (),
        *,
        removed: Iterable[RemovedLike] = (),
        configuration: ConfigurationLike | None = None,
        sessions: int = 1,
        others: bool = False,
        horizon_seconds: float | None = None,
        request_id: str = "",
        cluster: str | None = None,
        timeout_seconds: float | None = None,
    ) -> ScheduleResult:
        """The decisions for a manifest on the live cluster. Changes nothing."""
        return self._loop.run(
            self._client.schedule(
                manifest,
                removed=removed,
                configuration=configuration,
                sessions=sessions,
                others=others,
                horizon_seconds=horizon_seconds,
                request_id=request_id,
                cluster=cluster,
                timeout_seconds=timeout_seconds,
            )
        )

    def schedule_inline(
        self,
        manifest: ManifestLike,
        *,
        configuration: ConfigurationLike | None = None,
        sessions: int = 1,
        horizon_seconds: float | None = None,
        request_id: str = "",
        timeout_seconds: float | None = None,
    ) -> ScheduleResult:
        """The decisions for a manifest that contains its own nodes and queues."""
        return self._loop.run(
            self._client.schedule_inline(
                manifest,
                configuration=configuration,
                sessions=sessions,
                horizon_seconds=horizon_seconds,
                request_id=request_id,
                timeout_seconds=timeout_seconds,
            )
        )

    def explain_job(
        self,
        name: str,
        *,
        manifest: ManifestLike | None = None,
        configuration: ConfigurationLike | None = None,
        nearest: int = 0,
        wait_seconds: float | None = None,
        horizon_seconds: float | None = None,
        cluster: str | None = None,
        timeout_seconds: float | None = None,
    ) -> Explanation:
        """Explains why a PodGroup, or the PodGroup of a Volcano Job, waits or is on its nodes."""
        return self._loop.run(
            self._client.explain_job(
                name,
                manifest=manifest,
                configuration=configuration,
                nearest=nearest,
                wait_seconds=wait_seconds,
                horizon_seconds=horizon_seconds,
                cluster=cluster,
                timeout_seconds=timeout_seconds,
            )
        )

    def explain_pod(
        self,
        name: str,
        *,
        manifest: ManifestLike | None = None,
        configuration: ConfigurationLike | None = None,
        nearest: int = 0,
        wait_seconds: float | None = None,
        horizon_seconds: float | None = None,
        cluster: str | None = None,
        timeout_seconds: float | None = None,
    ) -> Explanation:
        """Explains why a pod waits or is on its node; the arguments are those of ``explain_job``."""
        return self._loop.run(
            self._client.explain_pod(
                name,
                manifest=manifest,
                configuration=configuration,
                nearest=nearest,
                wait_seconds=wait_seconds,
                horizon_seconds=horizon_seconds,
                cluster=cluster,
                timeout_seconds=timeout_seconds,
            )
        )

    def estimate_start(
        self,
        name: str,
        *,
        pod: bool = False,
        horizon_seconds: float | None = None,
        cluster: str | None = None,
        timeout_seconds: float | None = None,
    ) -> StartEstimate:
        """Estimates when a job or pod starts, with a simulation on a copy of the cluster."""
        return self._loop.run(
            self._client.estimate_start(
                name,
                pod=pod,
                horizon_seconds=horizon_seconds,
                cluster=cluster,
                timeout_seconds=timeout_seconds,
            )
        )

    def list_clusters(self, *, timeout_seconds: float | None = None) -> list[Cluster]:
        """The clusters that the core serves or served, by name."""
        return self._loop.run(self._client.list_clusters(timeout_seconds=timeout_seconds))

    def forget_cluster(
        self, cluster: str, *, force: bool = False, timeout_seconds: float | None = None
    ) -> int:
        """Removes a cluster from the core: objects, sessions, configuration and highest epoch."""
        return self._loop.run(
            self._client.forget_cluster(cluster, force=force, timeout_seconds=timeout_seconds)
        )

    def list_queues(
        self, *, cluster: str | None = None, timeout_seconds: float | None = None
    ) -> list[Queue]:
        """The queues by name, with their shares."""
        return self._loop.run(
            self._client.list_queues(cluster=cluster, timeout_seconds=timeout_seconds)
        )

    def list_jobs(
        self,
        *,
        namespace: str = "",
        queue: str = "",
        phases: Iterable[PodGroupPhase | str] = (),
        cluster: str | None = None,
        timeout_seconds: float | None = None,
    ) -> list[Job]:
        """The jobs by name, optionally of one namespace, one queue or some phases."""
        return self._loop.run(
            self._client.list_jobs(
                namespace=namespace,
                queue=queue,
                phases=phases,
                cluster=cluster,
                timeout_seconds=timeout_seconds,
            )
        )

    def list_nodes(
        self, *, cluster: str | None = None, timeout_seconds: float | None = None
    ) -> list[Node]:
        """The nodes by name, with their resources."""
        return self._loop.run(
            self._client.list_nodes(cluster=cluster, timeout_seconds=timeout_seconds)
        )

    def list_sessions(
        self,
        *,
        decided_only: bool = False,
        count: int | None = None,
        cluster: str | None = None,
        timeout_seconds: float | None = None,
    ) -> list[SessionSummary]:
        """The last sessions, newest first: all that the core keeps, or at most ``count``."""
        return self._loop.run(
            self._client.list_sessions(
                decided_only=decided_only,
                count=count,
                cluster=cluster,
                timeout_seconds=timeout_seconds,
            )
        )

    def get_session(
        self, number: int = 0, *, cluster: str | None = None, timeout_seconds: float | None = None
    ) -> Session:
        """One session with its decisions; by default the last one."""
        return self._loop.run(
            self._client.get_session(number, cluster=cluster, timeout_seconds=timeout_seconds)
        )

    def get_config(
        self, *, cluster: str | None = None, timeout_seconds: float | None = None
    ) -> ActiveConfig:
        """The scheduler configuration in use, and the last one that was rejected."""
        return self._loop.run(
            self._client.get_config(cluster=cluster, timeout_seconds=timeout_seconds)
        )

    def check_config(
        self, configuration: ConfigurationLike, *, timeout_seconds: float | None = None
    ) -> ConfigCheck:
        """Checks a configuration: a text, a ``Path``, or a mapping."""
        return self._loop.run(
            self._client.check_config(configuration, timeout_seconds=timeout_seconds)
        )

    def watch(
        self,
        *,
        after: int = 0,
        decided_only: bool = False,
        cluster: str | None = None,
        timeout_seconds: float | None = None,
    ) -> Stream[Session]:
        """Sessions as they end, until the caller stops."""
        return self._loop.stream(
            self._client.watch(
                after=after,
                decided_only=decided_only,
                cluster=cluster,
                timeout_seconds=timeout_seconds,
            )
        )

    def record(
        self, seconds: float | None = None, *, cluster: str | None = None
    ) -> Stream[RecordingEntry]:
        """Records the cluster from its next session on; the entries are for a ``RecordingWriter``."""
        return self._loop.stream(self._client.record(seconds, cluster=cluster))


async def _opened(settings: ClientSettings) -> AsyncClient:
    # A channel belongs to the event loop in which it is created.
    return AsyncClient(settings)
