"""The gRPC server of a core: all services on one address."""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from pumice.core import kernel
from pumice.server.access import AccessFile, AccessPolicy, CertificatePolicy
from pumice.server.addresses import (
    DEFAULT_ADDRESS,
    AddressError,
    check_address,
    read_http_address,
    socket_path,
)
from pumice.server.administration import AdministrationServicer
from pumice.server.authorization import AuditLog, CallInterceptor
from pumice.server.cluster_figures import ClusterCollector
from pumice.server.clusters import Cluster, Clusters
from pumice.server.core_environment import CoreEnvironment
from pumice.server.decoding import DecodingInterceptor
from pumice.server.http_pages import HttpPages
from pumice.server.inspection import InspectionServicer
from pumice.server.recording.service import RecordingServicer
from pumice.server.scheduling import SchedulingServicer
from pumice.server.service import ClusterServicer
from pumice.server.tls import TlsFiles
from pumice.v1 import (
    administration_service_pb2,
    administration_service_pb2_grpc,
    cluster_service_pb2,
    cluster_service_pb2_grpc,
    inspection_service_pb2,
    inspection_service_pb2_grpc,
    recording_service_pb2,
    recording_service_pb2_grpc,
    scheduling_service_pb2,
    scheduling_service_pb2_grpc,
)

log = logging.getLogger("pumice.server")
# A session holds the interpreter lock. The loop must get it soon enough for health checks.
_SWITCH_SECONDS = 0.0005
_GRACE_SECONDS = 2.0
SERVICES = (
    administration_service_pb2.DESCRIPTOR.services_by_name["AdministrationService"].full_name,
    cluster_service_pb2.DESCRIPTOR.services_by_name["ClusterService"].full_name,
    inspection_service_pb2.DESCRIPTOR.services_by_name["InspectionService"].full_name,
    recording_service_pb2.DESCRIPTOR.services_by_name["RecordingService"].full_name,
    scheduling_service_pb2.DESCRIPTOR.services_by_name["SchedulingService"].full_name,
)
_STATUS = health_pb2.HealthCheckResponse
# The health service name of a cluster begins with this prefix.
_CLUSTER_PREFIX = "cluster/"


class ClusterHealth:
    """gRPC health of the core and of each of its clusters. Runs on the loop.

    ``cluster/NAME`` is SERVING while the cluster is scheduled. The empty name and the names of the
    services are SERVING while the core serves.
    """

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
        known.pop(f"{_CLUSTER_PREFIX}{cluster}", None)

    def _set(self, cluster: str, status: int) -> None:
        name = f"{_CLUSTER_PREFIX}{cluster}"
        setting = self.servicer.set(name, _STATUS.ServingStatus.ValueType(status))
        task = asyncio.get_running_loop().create_task(setting)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        await self.servicer.enter_graceful_shutdown()


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Addresses, certificates and access of a core."""

    address: str = DEFAULT_ADDRESS
    tls: TlsFiles | None = None
    insecure: bool = False
    # HOST:PORT of the metrics and probe pages; empty: none.
    http_address: str = ""
    env: CoreEnvironment = field(default_factory=CoreEnvironment)
    # Access file; None: access by certificate with mutual TLS, otherwise unrestricted.
    access: Path | None = None


class CoreServer:
    """Starts and stops all parts of a core."""

    def __init__(self, options: ServerOptions) -> None:
        mutual = options.tls is not None and options.tls.client_authority is not None
        guarded = mutual or (options.tls is not None and options.access is not None)
        check_address(options.address, mutual_tls=guarded, insecure=options.insecure)
        self._options = options
        self._env = options.env
        self._clusters = Clusters(self._env)
        self._env.metrics.registry.register(ClusterCollector(self._clusters.all))
        self._adapters = ClusterServicer(self._clusters, self._env)
        self._frontends = SchedulingServicer(self._clusters, self._env)
        policy: AccessPolicy | None = CertificatePolicy() if mutual else None
        if options.access is not None:
            policy = AccessFile(options.access, self._env.clock)
        audit = AuditLog(self._env.metrics, self._env.clock)
        self._interceptor = CallInterceptor(policy, audit)
        self._health = ClusterHealth()
        self._clusters.on_pause = self._health.update
        self._clusters.on_forgotten = self._forgotten
        self._server: grpc.aio.Server | None = None
        self._pages: HttpPages | None = None
        self.http_address = ""
        self.address = options.address

    async def start(self) -> str:
        """Starts to serve; returns the address with the actual port."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._serve_pages()
        limits = self._env.limits
        server = grpc.aio.server(
            interceptors=[self._interceptor, DecodingInterceptor(limits)],
            options=(
                ("grpc.max_receive_message_length", limits.frontend_message_bytes),
                ("grpc.max_send_message_length", limits.frontend_message_bytes),
                # With port reuse, two cores on one port would each get some of the adapters.
                ("grpc.so_reuseport", 0),
                # Both sides ping every few seconds, to detect that the other side is gone.
                ("grpc.keepalive_time_ms", 5_000),
                ("grpc.keepalive_timeout_ms", 5_000),
                ("grpc.http2.ping_timeout_ms", 5_000),
                ("grpc.http2.max_pings_without_data", 0),
                ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
            ),
        )
        cluster_service_pb2_grpc.add_ClusterServiceServicer_to_server(self._adapters, server)
        scheduling_service_pb2_grpc.add_SchedulingServiceServicer_to_server(self._frontends, server)
        inspection_service_pb2_grpc.add_InspectionServiceServicer_to_server(
            InspectionServicer(self._clusters, self._env), server
        )
        recording_service_pb2_grpc.add_RecordingServiceServicer_to_server(
            RecordingServicer(self._clusters, self._env), server
        )
        administration_service_pb2_grpc.add_AdministrationServiceServicer_to_server(
            AdministrationServicer(self._clusters), server
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health.servicer, server)
        reflection.enable_server_reflection(
            (*SERVICES, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name), server
        )
        self.address = self._bind(server)
        await server.start()
        self._server = server
        if self._options.address.startswith("unix:"):
            Path(socket_path(self._options.address)).chmod(0o600)
        used = "is in use" if kernel.rows is not None else "is not available; sessions are slower"
        log.info("compiled kernel %s", used)
        await self._health.start(SERVICES)
        if self._pages is not None:
            self._pages.is_ready = True
        return self.address

    def _bind(self, server: grpc.aio.Server) -> str:
        address, tls = self._options.address, self._options.tls
        try:
            if tls is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, tls.credentials())
        except RuntimeError as error:
            raise AddressError(
                address, "cannot listen on this address; another process may use it"
            ) from error
        if address.startswith("unix:"):
            return address
        return f"{address.rpartition(':')[0]}:{port}"

    def _forgotten(self, cluster: Cluster) -> None:
        self._health.forget(cluster.name)
        self._frontends.forget(cluster)

    def _report(self) -> list[str]:
        """One line per cluster: whether it is scheduled, or why not."""
        return [
            f"cluster {each.name}: {each.served.pause.message if each.served.pause else 'scheduled'}"
            for each in self._clusters.all()
        ]

    def _serve_pages(self) -> None:
        address = self._options.http_address
        if not address:
            return
        host, port = read_http_address(address)
        registry = self._env.metrics.registry
        pages = HttpPages(registry, asyncio.get_running_loop(), self._report)
        try:
            used = pages.start(host, port)
        except OSError as error:
            raise AddressError(
                address, f"cannot serve HTTP pages on this address: {error}"
            ) from error
        self._pages = pages
        self.http_address = f"{host}:{used}"
        log.info("metrics and probes on http://%s", self.http_address)

    async def stop(self) -> None:
        """Sends GoAway to adapters, waits for running sessions, and stops."""
        await self._health.stop()
        if self._pages is not None:
            self._pages.is_ready = False
        await self._adapters.drain()
        await self._frontends.stop()
        await self._clusters.stop()
        if self._server is not None:
            await self._server.stop(_GRACE_SECONDS)
        if self._pages is not None:
            await asyncio.to_thread(self._pages.stop)

    async def wait(self) -> None:
        if self._server is not None:
            await self._server.wait_for_termination()
