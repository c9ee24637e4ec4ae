"""The clusters of a core and their current streams. Everything here runs on the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from difflib import get_close_matches

from pumice.server import errors
from pumice.server.cluster_view import ClusterView
from pumice.server.core_environment import CoreEnvironment
from pumice.server.explaining.job_history import JobHistories
from pumice.server.owner import Owner
from pumice.server.recording.entries import origin
from pumice.server.recording.files import RecordingFiles
from pumice.server.recording.recorder import Recorder
from pumice.server.records import History, SessionRecord, Watchers
from pumice.server.served import ServedCluster
from pumice.server.stream import AdapterStream
from pumice.v1 import cluster_service_pb2

log = logging.getLogger("pumice.server")
_NEAREST = 3


class Cluster:
    """One cluster as the loop uses it: its owner, its stream and its last sessions."""

    def __init__(
        self,
        name: str,
        env: CoreEnvironment,
        on_session: Callable[[Cluster], None],
        on_pause: Callable[[Cluster], None],
        on_abandoned: Callable[[Cluster], None],
    ) -> None:
        self.name = name
        self._on_session = on_session
        self.history = History(env.limits.kept_sessions)
        self.watchers = Watchers(env.limits)
        self.job_histories = JobHistories()
        self.served = ServedCluster(name, env)
        self.recorder = _recorder(name, env)
        self.recorder.start(self.served.state, env.clock.now_ns())
        self.served.observers.add(self.recorder)
        loop = asyncio.get_running_loop()
        self.owner = Owner(
            self.served,
            env,
            loop,
            self._publish,
            lambda: on_pause(self),
            lambda: on_abandoned(self),
        )
        self.stream: AdapterStream | None = None
        self.epoch = 0
        self.owner.start()

    def _publish(self, record: SessionRecord) -> None:
        self.history.add(record)
        self.watchers.publish(record)
        if record.result is not None and self.job_histories.add(record.result):
            asyncio.get_running_loop().run_in_executor(None, self.job_histories.update)
        self._on_session(self)

    async def view(self) -> ClusterView:
        """A view of the cluster. Does not wait for a running session."""
        waiting = self.served.views.wait()
        if not waiting.done():
            self.owner.post(self.served.publish_view)
        view = await waiting
        if view is None:
            raise errors.NotReadyError(self.name)
        return view

    def admit(self, stream: AdapterStream) -> None:
        """Makes a stream the current one. The highest epoch wins, then the newest stream."""
        hello, current = stream.hello, self.stream
        if hello.epoch < self.epoch:
            raise errors.StaleEpochError(hello.epoch, self.epoch)
        if current is not None and hello.epoch == self.epoch:
            if hello.adapter_id != current.hello.adapter_id:
                raise errors.EpochTakenError(hello.epoch, current.hello.adapter_id)
            reason = cluster_service_pb2.GO_AWAY_REASON_REPLACED
            current.end(reason, "a newer stream of this adapter took over")
        elif current is not None:
            reason = cluster_service_pb2.GO_AWAY_REASON_FENCED
            current.end(reason, f"an adapter of epoch {hello.epoch} took over")
        self.epoch = hello.epoch
        self.stream = stream

    def release(self, stream: AdapterStream) -> None:
        if self.stream is stream:
            self.stream = None
        self.owner.post(lambda: self.served.detach(stream))

    async def stop(self) -> None:
        self.watchers.close()
        await self.owner.stop()
        self.served.views.clear()
        await asyncio.to_thread(self.recorder.close)


def _recorder(name: str, env: CoreEnvironment) -> Recorder:
    files = None if env.recording is None else RecordingFiles(env.recording, name)
    failures = env.metrics.recording_failures.labels(name)
    return Recorder(origin(name, env.core_id, env.registry), files, failures.inc)


class Clusters:
    """All clusters by name. The first Hello of a cluster adds it."""

    def __init__(self, env: CoreEnvironment) -> None:
        self._env = env
        self._by_name: dict[str, Cluster] = {}
        self._dropping: set[asyncio.Task[None]] = set()
        # Called when a cluster was removed.
        self.on_forgotten: Callable[[Cluster], None] | None = None
        # Called after every session.
        self.on_session: Callable[[Cluster], None] | None = None
        # Called when scheduling of a cluster is paused or resumed.
        self.on_pause: Callable[[Cluster], None] | None = None

    def _session_ended(self, cluster: Cluster) -> None:
        if self.on_session is not None:
            self.on_session(cluster)

    def _pause_changed(self, cluster: Cluster) -> None:
        if self.on_pause is not None:
            self.on_pause(cluster)

    def _abandoned(self, cluster: Cluster) -> None:
        """Removes a cluster whose adapter did not connect again in time."""
        if cluster.stream is None and self._by_name.get(cluster.name) is cluster:
            log.info("%s: removed, because no adapter connected again", cluster.name)
            # At once, because an adapter may connect before the task begins.
            del self._by_name[cluster.name]
            task = asyncio.get_running_loop().create_task(self._drop(cluster))
            self._dropping.add(task)
            task.add_done_callback(self._dropping.discard)

    async def _drop(self, cluster: Cluster) -> None:
        """Stops the threads of a removed cluster, and drops its data."""
        await cluster.stop()
        if cluster.name not in self._by_name:
            self._env.metrics.forget(cluster.name)
            if self.on_forgotten is not None:
                self.on_forgotten(cluster)

    def of(self, name: str) -> Cluster:
        """The cluster with this name, which is added if it does not exist."""
        cluster = self._by_name.get(name)
        if cluster is None:
            limit = self._env.limits.max_clusters
            if len(self._by_name) >= limit:
                raise errors.LimitError("clusters", limit, len(self._by_name) + 1)
            cluster = self._by_name[name] = Cluster(
                name, self._env, self._session_ended, self._pause_changed, self._abandoned
            )
        return cluster

    def epoch_of(self, name: str) -> int:
        """The highest epoch of a cluster; 0 if the core does not know the cluster."""
        cluster = self._by_name.get(name)
        return 0 if cluster is None else cluster.epoch

    def names(self) -> list[str]:
        return sorted(self._by_name)

    async def forget(self, name: str, *, force: bool) -> int:
        """Removes a cluster and its data; returns the epoch of its last stream."""
        cluster = self.find(name)
        if cluster.stream is not None and not force:
            raise errors.ClusterConnectedError(name, cluster.stream.hello.adapter_id)
        stream = cluster.stream
        if stream is not None:
            reason = cluster_service_pb2.GO_AWAY_REASON_FORGOTTEN
            stream.end(reason, "an operator made the core forget this cluster")
        del self._by_name[cluster.name]
        await self._drop(cluster)
        if stream is not None:
            await stream.finished.wait()
        return cluster.epoch

    def find(self, name: str) -> Cluster:
        """The cluster with this name; with an empty name, the only cluster."""
        names = sorted(self._by_name)
        if not name:
            if len(names) == 1:
                return self._by_name[names[0]]
            if names:
                raise errors.ClusterNotNamedError(names)
        if not names:
            raise errors.NoClusterError(name)
        if name not in self._by_name:
            near = get_close_matches(name, names, n=_NEAREST, cutoff=0.4)
            raise errors.UnknownClusterError(name, near or names[:_NEAREST])
        return self._by_name[name]

    def all(self) -> list[Cluster]:
        """Any thread may call it."""
        return list(self._by_name.values())

    def streams(self) -> list[AdapterStream]:
        return [c.stream for c in self._by_name.values() if c.stream is not None]

    async def stop(self) -> None:
        clusters = (cluster.stop() for cluster in self._by_name.values())
        await asyncio.gather(*clusters, *self._dropping)
