"""SchedulingService: what-if requests, explanations and estimates of starts."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pumice.server import errors
from pumice.server.clusters import Cluster, Clusters
from pumice.server.core_environment import CoreEnvironment
from pumice.server.decoding import received
from pumice.server.estimating.estimates import set_estimates
from pumice.server.estimating.estimator import Estimator, read_horizon
from pumice.server.explaining.explain import Explainer
from pumice.server.limits import Limits
from pumice.server.peers import peer_of
from pumice.server.serialized import ScheduleBytes, read_schedule
from pumice.server.service import abort_on_error
from pumice.server.whatif.replica_pool import ReplicaPool
from pumice.server.whatif.response_cache import ResponseCache
from pumice.v1 import scheduling_service_pb2 as pb
from pumice.v1 import scheduling_service_pb2_grpc

_SECOND_NS = 1_000_000_000
MAX_REQUEST_ID_LENGTH = 200
# Number of jobs and pods for which a request can ask an explanation.
MAX_EXPLAINED = 20


class _NodeTableLimit:
    """Limits the size of the node table, which has a cell for each node and resource name."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._nodes = 0
        self._names: set[str] = set()

    def add(self, objects: pb.ObjectSet) -> None:
        nodes = [*objects.nodes, *(o.node for o in objects.other_objects if o.HasField("node"))]
        self._nodes += len(nodes)
        limits, names = self._limits, self._names
        for node in nodes:
            names.update(node.allocatable)
            if len(names) > limits.trial_resources:
                raise errors.LimitError(
                    "resources of a request's nodes", limits.trial_resources, len(names)
                )
        cells = len(names) * self._nodes
        if cells > limits.trial_cells:
            raise errors.LimitError("nodes by resources of a request", limits.trial_cells, cells)


def content_hash(request: ScheduleBytes, limits: Limits) -> bytes:
    """A hash of the content of a request, independent of the order of maps. Raises LimitError.

    The objects are built a few at a time.
    """
    table, total = _NodeTableLimit(limits), hashlib.blake2b(digest_size=16)
    for part in request.parts():
        if isinstance(part, pb.ObjectSet):
            table.add(part)
        total.update(part.SerializeToString(deterministic=True))
    return total.digest()


class SchedulingServicer(scheduling_service_pb2_grpc.SchedulingServiceServicer):
    """Serves Schedule, Explain and EstimateStart with the help of replica processes."""

    def __init__(self, clusters: Clusters, env: CoreEnvironment) -> None:
        self._clusters = clusters
        self._env = env
        self._replicas = ReplicaPool(env.replicas)
        clusters.on_session = self._replicas.after_session
        self._answers = ResponseCache(env.clock)
        self._explainer = Explainer(clusters, env, self._replicas)
        self._estimator = Estimator(clusters, env, self._replicas)
        self._trial_slots = asyncio.Semaphore(env.limits.trials_at_once)
        # Only one request at a time is read.
        self._reading = asyncio.Lock()
        self._read = 0
        self._trials = 0
        self._request_bytes = 0

    @abort_on_error
    async def Schedule(  # noqa: N802
        self, request: pb.ScheduleRequest, context: Any
    ) -> pb.ScheduleResponse:
        parts = received.get().schedule
        if parts is None:
            parts = read_schedule(request.SerializeToString(), self._env.limits)
        self._check(request)
        cluster = None
        if request.WhichOneof("source") == "cluster":
            cluster = self._clusters.find(request.cluster.cluster)
        seconds = self._seconds(request, context)
        with self._reserved_bytes(len(parts.data)):
            content = await self._digest(parts)
            return await self._answers.get(
                peer_of(context),
                request.request_id,
                content,
                lambda: self._scheduled(request, parts.data, cluster, seconds),
            )

    @contextmanager
    def _reserved_bytes(self, size: int) -> Iterator[None]:
        """Counts the bytes of the requests that are being served. Raises BusyError."""
        limit = self._env.limits.trial_request_bytes
        if self._request_bytes + size > limit:
            total = self._request_bytes + size
            raise errors.BusyError("bytes of requests at once", limit, total)
        self._request_bytes += size
        try:
            yield
        finally:
            self._request_bytes -= size

    async def _scheduled(
        self, request: pb.ScheduleRequest, data: bytes, cluster: Cluster | None, seconds: float
    ) -> pb.ScheduleResponse:
        """The result of the trial, with estimates of starts if the request asks for them."""
        trial = self._trial(data, cluster, seconds)
        if not request.HasField("start_horizon"):
            return await trial
        horizon_ns = read_horizon("start_horizon", request.start_horizon)
        estimating = self._estimator.of_request(data, cluster, horizon_ns, seconds)
        response, estimates = await asyncio.gather(trial, estimating)
        set_estimates(response, estimates)
        return response

    def _check(self, request: pb.ScheduleRequest) -> None:
        limits = self._env.limits
        if not 0 < len(request.request_id) <= MAX_REQUEST_ID_LENGTH:
            raise errors.RequestFieldError(
                "request_id",
                f"must have 1 to {MAX_REQUEST_ID_LENGTH} characters, unique for every request",
            )
        source = request.WhichOneof("source")
        if source is None:
            raise errors.RequestFieldError("source", "is missing; set inline or cluster")
        if not 0 <= request.max_sessions <= limits.trial_sessions:
            raise errors.RequestFieldError(
                "max_sessions",
                f"{request.max_sessions} is not between 0 and {limits.trial_sessions}",
            )
        read_horizon("start_horizon", request.start_horizon)
        if len(request.explained) > MAX_EXPLAINED:
            given = len(request.explained)
            raise errors.RequestFieldError(
                "explained", f"has {given} elements; at most {MAX_EXPLAINED} are allowed"
            )
        for number, each in enumerate(request.explained):
            which = each.WhichOneof("subject")
            named = each.pod if which == "pod" else each.job
            if which is None or not named.namespace or not named.name:
                raise errors.RequestFieldError(
                    f"explained[{number}]",
                    "is incomplete; set the namespace and name of a job or pod",
                )

    async def _digest(self, request: ScheduleBytes) -> bytes:
        limits = self._env.limits
        most = limits.trials_at_once + limits.trials_waiting
        if self._read >= most:
            raise errors.BusyError("requests at once", most, self._read + 1)
        self._read += 1
        try:
            async with self._reading:
                return await asyncio.to_thread(content_hash, request, limits)
        finally:
            self._read -= 1

    def _seconds(self, request: pb.ScheduleRequest, context: Any) -> float:
        """The shortest of the timeouts of the request, the call and the core."""
        most = self._env.limits.trial_timeout_ns
        asked = request.timeout.seconds * _SECOND_NS + request.timeout.nanos
        if request.HasField("timeout") and asked <= 0:
            raise errors.RequestFieldError("timeout", "must be above zero")
        seconds = min(asked or most, most) / _SECOND_NS
        left = context.time_remaining()
        return seconds if left is None else min(seconds, max(left, 0.001))

    async def _trial(
        self, request: bytes, cluster: Cluster | None, seconds: float
    ) -> pb.ScheduleResponse:
        limits = self._env.limits
        most = limits.trials_at_once + limits.trials_waiting
        if self._trials >= most:
            raise errors.BusyError("requests at once", most, self._trials + 1)
        self._trials += 1
        try:
            async with asyncio.timeout(seconds), self._trial_slots:
                if cluster is None:
                    replica = await self._replicas.inline()
                else:
                    replica = await self._replicas.of(cluster)
                now_ns = self._env.clock.now_ns()
                data = await replica.schedule(request, now_ns, seconds, limits)
        except TimeoutError:
            raise errors.TrialTimeoutError(seconds) from None
        finally:
            self._trials -= 1
        limit = limits.frontend_message_bytes
        if len(data) > limit:
            raise errors.LimitError("bytes of the answer", limit, len(data))
        return pb.ScheduleResponse.FromString(data)

    @abort_on_error
    async def Explain(  # noqa: N802
        self, request: pb.ExplainRequest, context: Any
    ) -> pb.ExplainResponse:
        if not request.HasField("start_horizon"):
            return await self._explainer.explain(request)
        read_horizon("start_horizon", request.start_horizon)
        response = await self._explainer.explain(request)
        try:
            estimate = await self._estimator.of_explained(request, context)
        except errors.TrialFailedError as error:
            # A pod or job that no longer exists has no start.
            if not error.status:
                raise
        else:
            response.start_estimate.CopyFrom(estimate)
        return response

    @abort_on_error
    async def EstimateStart(  # noqa: N802
        self, request: pb.EstimateStartRequest, context: Any
    ) -> pb.EstimateStartResponse:
        return await self._estimator.estimate(request, context)

    def forget(self, cluster: Cluster) -> None:
        """Drops the replica and the explainer state of a removed cluster."""
        self._replicas.forget(cluster)
        self._explainer.forget(cluster)

    async def stop(self) -> None:
        await self._answers.stop()
        await self._replicas.stop()
