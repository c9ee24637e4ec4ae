"""gRPC health of the core and of each of its clusters.

The service name of a cluster is ``cluster/NAME``; it is SERVING while the cluster is scheduled. The
empty name and the names of the services are SERVING while the core serves.
"""

from __future__ import annotations

import asyncio

from grpc_health.v1 import health, health_pb2

from pumice.server.clusters import Cluster

_PREFIX = "cluster/"
_STATUS = health_pb2.HealthCheckResponse


class ClusterHealth:
    """Updates the health servicer. Runs on the loop."""

    def __init__(self) -> None:
        self.servicer = health.aio.HealthServicer()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, services: tuple[str, ...]) -> None:
        for name in ("", *services):
            await self.servicer.set(name, _STATUS.SERVING)

    def update(self, cluster: Cluster) -> None:
        """Called when scheduling of a cluster is paused or resumed."""
        status = _STATUS.SERVING if cluster.served.pause is None else _STATUS.NOT_SERVING
        self._set(cluster.name, status)

    def forget(self, cluster: str) -> None:
        self._set(cluster, _STATUS.SERVICE_UNKNOWN)
        # The servicer has no method that removes a name, and names must not pile up.
        known: dict[str, int] = getattr(self.servicer, "_server_status", {})
        known.pop(f"{_PREFIX}{cluster}", None)

    def _set(self, cluster: str, status: int) -> None:
        name = f"{_PREFIX}{cluster}"
        setting = self.servicer.set(name, _STATUS.ServingStatus.ValueType(status))
        task = asyncio.get_running_loop().create_task(setting)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        await self.servicer.enter_graceful_shutdown()
