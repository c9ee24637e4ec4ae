"""Estimates starts with three forks of a replica, one for each level."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from google.protobuf.duration_pb2 import Duration

from pumice.server import errors
from pumice.server.cluster_info import write_pause
from pumice.server.clusters import Cluster, Clusters
from pumice.server.core_environment import CoreEnvironment
from pumice.server.estimating.estimates import estimates_of
from pumice.server.estimating.forecasts import ForecastRequest, LevelForecast
from pumice.server.estimating.run_times import PastRuns
from pumice.server.explaining.explanation import read_subject
from pumice.server.explaining.facts import Subject
from pumice.server.whatif.replica_connection import ReplicaConnection
from pumice.server.whatif.replica_pool import ReplicaPool
from pumice.v1 import estimate_pb2
from pumice.v1 import scheduling_service_pb2 as pb

_SECOND_NS = 1_000_000_000
_DEFAULT_HORIZON_NS = 24 * 3600 * _SECOND_NS
MAX_HORIZON_NS = 7 * 24 * 3600 * _SECOND_NS


class Estimator:
    """Serves estimates, a limited number at a time."""

    def __init__(self, clusters: Clusters, env: CoreEnvironment, replicas: ReplicaPool) -> None:
        self._clusters, self._env, self._replicas = clusters, env, replicas
        self._slots = asyncio.Semaphore(env.limits.estimates_at_once)
        self._running = 0

    async def estimate(
        self, request: pb.EstimateStartRequest, context: Any
    ) -> pb.EstimateStartResponse:
        subject = read_subject(request, nodes=0)
        horizon_ns = read_horizon("horizon", request.horizon)
        cluster = self._clusters.find(request.cluster)
        levels = await self.of_subject(cluster, subject, horizon_ns, self._seconds(context))
        (estimate,) = estimates_of(levels, horizon_ns).values()
        return pb.EstimateStartResponse(
            estimate=estimate,
            based_on_seq=levels[0].based_on_seq,
            pause=write_pause(cluster.served.pause),
        )

    async def of_explained(
        self, request: pb.ExplainRequest, context: Any
    ) -> estimate_pb2.StartEstimate:
        """The estimate for the subject of an Explain request."""
        asked = pb.EstimateStartRequest(cluster=request.cluster, horizon=request.start_horizon)
        which = request.WhichOneof("subject")
        if which is not None:
            getattr(asked, which).CopyFrom(getattr(request, which))
        return (await self.estimate(asked, context)).estimate

    async def of_subject(
        self, cluster: Cluster, subject: Subject, horizon_ns: int, seconds: float
    ) -> list[LevelForecast]:
        wanted = ForecastRequest(cluster.served.run_times.past(), horizon_ns, subject)
        return await self._forecast(lambda: self._replicas.of(cluster), wanted, seconds)

    async def of_request(
        self, request: bytes, cluster: Cluster | None, horizon_ns: int, seconds: float
    ) -> dict[str, estimate_pb2.StartEstimate]:
        """The estimates for the jobs of a Schedule request, by job."""
        past = PastRuns() if cluster is None else cluster.served.run_times.past()
        most = self._env.limits.trial_objects
        wanted = ForecastRequest(past, horizon_ns, schedule_request=request, max_objects=most)

        def replica() -> Awaitable[ReplicaConnection]:
            return self._replicas.inline() if cluster is None else self._replicas.of(cluster)

        found = estimates_of(await self._forecast(replica, wanted, seconds), horizon_ns)
        return {target.job: estimate for target, estimate in found.items()}

    async def _forecast(
        self,
        replica: Callable[[], Awaitable[ReplicaConnection]],
        wanted: ForecastRequest,
        seconds: float,
    ) -> list[LevelForecast]:
        limits = self._env.limits
        most = limits.estimates_at_once + limits.estimates_waiting
        if self._running >= most:
            raise errors.BusyError("estimates at once", most, self._running + 1)
        self._running += 1
        try:
            async with asyncio.timeout(seconds), self._slots:
                connection = await replica()
                now_ns = self._env.clock.now_ns()
                memory = limits.trial_memory_bytes
                return await connection.estimate(wanted, now_ns, seconds, memory)
        except TimeoutError:
            raise errors.TrialTimeoutError(seconds) from None
        finally:
            self._running -= 1

    def _seconds(self, context: Any) -> float:
        seconds = self._env.limits.trial_timeout_ns / _SECOND_NS
        left = context.time_remaining()
        return seconds if left is None else min(seconds, max(left, 0.001))


def read_horizon(field: str, message: Duration) -> int:
    """Nanoseconds; an absent horizon means the default. Raises RequestFieldError."""
    horizon_ns = message.seconds * _SECOND_NS + message.nanos or _DEFAULT_HORIZON_NS
    if horizon_ns < 0 or horizon_ns > MAX_HORIZON_NS:
        most = MAX_HORIZON_NS // _SECOND_NS
        problem = f"{horizon_ns / _SECOND_NS:g} s is not between 0 and {most} s"
        raise errors.RequestFieldError(field, problem)
    return horizon_ns
