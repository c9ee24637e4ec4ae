"""The replica processes of a core: one per cluster with requests, and one for inline requests."""

from __future__ import annotations

import asyncio
import logging

from pumice.server import errors
from pumice.server.clusters import Cluster
from pumice.server.core_environment import ReplicaOptions
from pumice.server.whatif.replica_connection import ReplicaConnection
from pumice.server.whatif.replica_feed import ReplicaFeed, StartState

log = logging.getLogger("pumice.server")
_INLINE = "inline requests"
_SECOND_NS = 1_000_000_000
# Number of checks within the idle time.
_CHECKS_WHILE_IDLE = 4
# Time after a failure of a replica within which only a Schedule or EstimateStart request starts
# another one, because the copy of a large cluster delays its sessions.
RESTART_SECONDS = 30.0


class ReplicaPool:
    """Starts replicas on demand or with their clusters, and ends idle ones."""

    def __init__(self, options: ReplicaOptions) -> None:
        self._options = options
        self._reaping: asyncio.Task[None] | None = None
        self._inline: ReplicaConnection | None = None
        self._by_cluster: dict[str, ReplicaFeed] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        # Connections that are not being stopped.
        self._connections: set[ReplicaConnection] = set()
        self._stopping: set[asyncio.Task[None]] = set()
        self._closed = False
        self._starting: dict[str, asyncio.Task[None]] = {}
        # The time until which no replica starts by itself, by cluster.
        self._restart_at: dict[str, float] = {}

    async def inline(self) -> ReplicaConnection:
        """The process for inline requests, started if it does not run."""
        async with self._locks.setdefault("", asyncio.Lock()):
            inline = self._inline
            if inline is None or not inline.is_alive:
                if inline is not None:
                    self._stop_connection(inline)
                inline = self._inline = await self._start_inline()
                self._reap_idle()
            inline.touch()
            return inline

    async def _start_inline(self) -> ReplicaConnection:
        connection = self._new_connection(_INLINE)
        try:
            await connection.start()
        except BaseException:
            self._stop_connection(connection)
            raise
        return connection

    async def of(self, cluster: Cluster) -> ReplicaConnection:
        """The replica of a cluster, started if it does not run. It has applied all ops so far."""
        async with self._locks.setdefault(cluster.name, asyncio.Lock()):
            known = self._by_cluster.get(cluster.name)
            if known is not None and known.cluster is cluster and known.is_current:
                known.connection.touch()
                return known.connection
            if known is not None:
                self._drop(known)
            return await self._start(cluster)

    def after_session(self, cluster: Cluster) -> None:
        """Starts the replica of a cluster if replicas start with their clusters."""
        if self._options.at_start:
            self.ready(cluster)

    def ready(self, cluster: Cluster) -> ReplicaConnection | None:
        """The replica of a cluster if it is ready; None: it is being started."""
        known = self._by_cluster.get(cluster.name)
        if known is not None and known.cluster is cluster and known.is_current:
            known.connection.touch()
            return known.connection if known.connection.is_ready else None
        waits = self._restart_at.get(cluster.name, 0.0) > asyncio.get_running_loop().time()
        if cluster.name not in self._starting and not self._closed and not waits:
            task = asyncio.get_running_loop().create_task(self._prepare(cluster))
            self._starting[cluster.name] = task
        return None

    async def _prepare(self, cluster: Cluster) -> None:
        try:
            await self.of(cluster)
        except Exception as error:
            log.debug("%s: cannot start a replica: %s", cluster.name, error)
        finally:
            self._starting.pop(cluster.name, None)

    async def _start(self, cluster: Cluster) -> ReplicaConnection:
        loop = asyncio.get_running_loop()
        connection = self._new_connection(cluster.name)
        replica = ReplicaFeed(cluster, connection, loop)
        connection.queue_frames()
        try:
            state, _ = await asyncio.gather(_start_state(replica), _start_early(replica))
            self._by_cluster[cluster.name] = replica
            if not connection.is_alive:
                await connection.start()
            await connection.send_state(*state)
        except BaseException:
            self._drop(replica)
            raise
        self._reap_idle()
        return connection

    # Idle replicas.

    def _reap_idle(self) -> None:
        if self._options.idle_ns and (self._reaping is None or self._reaping.done()):
            self._reaping = asyncio.get_running_loop().create_task(self._reap())

    async def _reap(self) -> None:
        """Ends idle replicas, until none is left."""
        idle_seconds = self._options.idle_ns / _SECOND_NS
        while self._inline is not None or self._by_cluster:
            await asyncio.sleep(idle_seconds / _CHECKS_WHILE_IDLE)
            for replica in list(self._by_cluster.values()):
                connection = replica.connection
                unused = connection.is_ready and connection.idle_seconds > idle_seconds
                if unused and not self._options.at_start:
                    log.info("%s: the replica is idle and is ended", replica.cluster.name)
                    self._drop(replica)
            if self._inline is not None and self._inline.idle_seconds > idle_seconds:
                self._stop_connection(self._inline)
                self._inline = None

    def forget(self, cluster: Cluster) -> None:
        """Ends the replica of a removed cluster."""
        replica = self._by_cluster.get(cluster.name)
        if replica is not None and replica.cluster is cluster:
            self._drop(replica)
        self._restart_at.pop(cluster.name, None)
        lock = self._locks.get(cluster.name)
        if lock is not None and not lock.locked():
            del self._locks[cluster.name]

    def _drop(self, replica: ReplicaFeed) -> None:
        observers = replica.cluster.served.observers
        replica.cluster.owner.post(lambda: observers.remove(replica))
        if self._by_cluster.get(replica.cluster.name) is replica:
            del self._by_cluster[replica.cluster.name]
        self._stop_connection(replica.connection)

    def _new_connection(self, name: str) -> ReplicaConnection:
        if self._closed:
            raise errors.TrialLostError
        connection = ReplicaConnection(name, self._ended)
        self._connections.add(connection)
        return connection

    def _ended(self, connection: ReplicaConnection) -> None:
        """Drops a connection that ended by itself. Its cluster is no longer observed."""
        if connection is self._inline:
            self._inline = None
        for replica in list(self._by_cluster.values()):
            if replica.connection is connection:
                self._drop(replica)
        if connection.has_failed:
            now = asyncio.get_running_loop().time()
            self._restart_at[connection.name] = now + RESTART_SECONDS
        self._stop_connection(connection)

    def _stop_connection(self, connection: ReplicaConnection) -> None:
        """Stops a connection, unless it is being stopped already."""
        if connection not in self._connections:
            return
        self._connections.remove(connection)
        task = asyncio.get_running_loop().create_task(connection.stop())
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    async def stop(self) -> None:
        """Ends all processes, including those that are being started, and waits for them."""
        self._closed = True
        ending = [*self._starting.values(), *([self._reaping] if self._reaping else [])]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        for replica in list(self._by_cluster.values()):
            self._drop(replica)
        for connection in list(self._connections):
            self._stop_connection(connection)
        await asyncio.gather(*self._stopping, return_exceptions=True)


async def _start_state(replica: ReplicaFeed) -> StartState:
    """The state of the cluster, taken by the owner between two sessions."""
    state = await replica.cluster.owner.call(replica.begin)
    if state is None:
        raise errors.NotReadyError(replica.cluster.name)
    return state


async def _start_early(replica: ReplicaFeed) -> None:
    """Starts the process while the owner takes the state, if the state is complete."""
    if replica.cluster.served.complete:
        await replica.connection.start()
