"""SchedulingService: Schedule (what would be decided) and Explain (why something waits)."""

from __future__ import annotations

import asyncio
from typing import Any

from pumice.server import errors
from pumice.server.clusters import Cluster, Clusters
from pumice.server.core_environment import CoreEnvironment
from pumice.server.explaining.explain import Explainer
from pumice.server.inspection import answers
from pumice.server.limits import Limits
from pumice.server.peers import peer_of
from pumice.server.whatif.answers import Answers
from pumice.server.whatif.replica_pool import ReplicaPool
from pumice.v1 import scheduling_service_pb2 as pb
from pumice.v1 import scheduling_service_pb2_grpc

_SECOND_NS = 1_000_000_000
MAX_REQUEST_ID_LENGTH = 200


def check_node_table(held: pb.ObjectSet, limits: Limits) -> None:
    """The engine keeps a cell for every node and every resource that a node offers."""
    nodes = [*held.nodes, *(o.node for o in held.other_objects if o.HasField("node"))]
    names = {name for node in nodes for name in node.allocatable}
    if len(names) > limits.trial_resources:
        raise errors.LimitError(
            "resources of a request's nodes", limits.trial_resources, len(names)
        )
    cells = len(names) * len(nodes)
    if cells > limits.trial_cells:
        raise errors.LimitError("nodes by resources of a request", limits.trial_cells, cells)


class SchedulingServicer(scheduling_service_pb2_grpc.SchedulingServiceServicer):
    """Serves Schedule by trials in replica processes, and Explain from what sessions left."""

    def __init__(self, clusters: Clusters, env: CoreEnvironment) -> None:
        self._clusters = clusters
        self._env = env
        self._replicas = ReplicaPool(env.replicas)
        clusters.on_session = self._replicas.after_session
        self._answers = Answers(env.clock)
        self._explainer = Explainer(clusters, env, self._replicas)
        self._turns = asyncio.Semaphore(env.limits.trials_at_once)
        self._trials = 0

    @answers
    async def Schedule(  # noqa: N802
        self, request: pb.ScheduleRequest, context: Any
    ) -> pb.ScheduleResponse:
        self._check(request)
        cluster = None
        if request.WhichOneof("source") == "cluster":
            cluster = self._clusters.find(request.cluster.cluster)
        seconds = self._seconds(request, context)
        return await self._answers.get(
            peer_of(context), request, lambda: self._trial(request, cluster, seconds)
        )

    def _check(self, request: pb.ScheduleRequest) -> None:
        limits = self._env.limits
        if not 0 < len(request.request_id) <= MAX_REQUEST_ID_LENGTH:
            raise errors.RequestFieldError(
                "request_id",
                f"must have 1 to {MAX_REQUEST_ID_LENGTH} characters, unique for every request",
            )
        source = request.WhichOneof("source")
        if source is None:
            raise errors.RequestFieldError("source", "is missing: give inline or cluster")
        if not 0 <= request.max_sessions <= limits.trial_sessions:
            raise errors.RequestFieldError(
                "max_sessions",
                f"{request.max_sessions} is not between 0 and {limits.trial_sessions}",
            )
        held = request.inline.objects if source == "inline" else request.cluster.hypothetical
        count = sum(
            len(part)
            for part in (held.nodes, held.queues, held.pod_groups, held.pods, held.other_objects)
        )
        if count > limits.trial_objects:
            raise errors.LimitError("objects of a request", limits.trial_objects, count)
        check_node_table(held, limits)

    def _seconds(self, request: pb.ScheduleRequest, context: Any) -> float:
        """The shortest of what the request, the call and the core allow."""
        most = self._env.limits.trial_timeout_ns
        asked = request.timeout.seconds * _SECOND_NS + request.timeout.nanos
        if request.HasField("timeout") and asked <= 0:
            raise errors.RequestFieldError("timeout", "must be above zero")
        seconds = min(asked or most, most) / _SECOND_NS
        left = context.time_remaining()
        return seconds if left is None else min(seconds, max(left, 0.001))

    async def _trial(
        self, request: pb.ScheduleRequest, cluster: Cluster | None, seconds: float
    ) -> pb.ScheduleResponse:
        limits = self._env.limits
        most = limits.trials_at_once + limits.trials_waiting
        if self._trials >= most:
            raise errors.BusyError("requests at once", most, self._trials + 1)
        self._trials += 1
        try:
            async with asyncio.timeout(seconds), self._turns:
                if cluster is None:
                    replica = await self._replicas.inline()
                else:
                    replica = await self._replicas.of(cluster)
                now_ns = self._env.clock.now_ns()
                data = await replica.schedule(
                    request.SerializeToString(), now_ns, seconds, limits.trial_memory_bytes
                )
        except TimeoutError:
            raise errors.TrialTimeoutError(seconds) from None
        finally:
            self._trials -= 1
        limit = limits.frontend_message_bytes
        if len(data) > limit:
            raise errors.LimitError("bytes of the answer", limit, len(data))
        return pb.ScheduleResponse.FromString(data)

    @answers
    async def Explain(  # noqa: N802
        self, request: pb.ExplainRequest, context: Any
    ) -> pb.ExplainResponse:
        return await self._explainer.explain(request)

    def forget(self, cluster: Cluster) -> None:
        """A cluster is gone: so is what answers questions about it."""
        self._replicas.forget(cluster)
        self._explainer.forget(cluster)

    async def stop(self) -> None:
        await self._answers.stop()
        await self._replicas.stop()
