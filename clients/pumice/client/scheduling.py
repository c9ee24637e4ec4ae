"""The methods Schedule, Explain and EstimateStart of the asynchronous client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from pumice.client import arguments, requests
from pumice.client.arguments import ConfigurationLike, RemovedLike
from pumice.client.calls import Caller
from pumice.client.estimates import StartEstimate
from pumice.client.explanations import Explanation
from pumice.client.manifests import ManifestLike
from pumice.client.results import ScheduleResult, explanation_from_trial
from pumice.v1.scheduling_service_pb2 import (
    ExplainedObject,
    ScheduleRequest,
    ScheduleResponse,
)
from pumice.v1.scheduling_service_pb2_grpc import SchedulingServiceStub

# The core gets less time than the call, so that its own error arrives first.
_GRACE_SECONDS = 1.0


class SchedulingMethods:
    """The methods of the asynchronous client for hypothetical decisions, reasons and estimates."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._scheduling = SchedulingServiceStub(caller.channel)

    async def schedule(
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
        """The decisions for a manifest on the live cluster. Changes nothing.

        Args:
            manifest: A path, a text, a mapping, an object of a Kubernetes client library, a
                ``Manifest``, a ``ClusterObject``, or a list of them. A string with a line break, or
                in braces, is a text; any other string is a path.
            removed: Objects to remove: ``node/NAME``, ``pod/NAMESPACE/NAME``, or an ``ObjectRef``.
            configuration: Another scheduler configuration: the text of its file, a ``Path``, or a
                mapping.
            sessions: Maximum number of sessions. Pods that one session binds run in the next.
            others: Whether the result includes the other jobs of the cluster.
            horizon_seconds: The horizon of an estimate of the start of each job; by default there
                are no estimates.
            request_id: A repeated id with the same content gets the same result for some minutes.
            cluster: The cluster; by default that of the settings.
            timeout_seconds: The timeout of the call; by default that of the settings.
        """
        name = self._cluster(cluster)

        def request() -> ScheduleRequest:
            return requests.schedule_request(
                requests.cluster_source(name, manifest, removed),
                configuration=configuration,
                sessions=sessions,
                others=others,
                horizon_seconds=horizon_seconds,
                request_id=request_id,
                timeout_seconds=timeout_seconds,
            )

        return ScheduleResult.from_proto(await self._schedule(request, timeout_seconds))

    async def schedule_inline(
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

        def request() -> ScheduleRequest:
            return requests.schedule_request(
                requests.inline_source(manifest),
                configuration=configuration,
                sessions=sessions,
                horizon_seconds=horizon_seconds,
                request_id=request_id,
                timeout_seconds=timeout_seconds,
            )

        return ScheduleResult.from_proto(await self._schedule(request, timeout_seconds))

    async def _schedule(
        self, make: Callable[[], ScheduleRequest], timeout_seconds: float | None
    ) -> ScheduleResponse:
        deadline = self._caller.deadline(timeout_seconds, _GRACE_SECONDS)
        # A thread reads files and encodes objects, so that the event loop is not blocked.
        request = await asyncio.to_thread(make)
        return await self._caller.call(self._scheduling.Schedule, request, deadline)

    async def explain_job(
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
        """Explains why a PodGroup, or the PodGroup of a Volcano Job, waits or is on its nodes.

        Args:
            name: ``namespace/name``; the default namespace is ``default``.
            manifest: Hypothetical objects, as in ``schedule``; such an explanation has no history.
            configuration: A hypothetical configuration.
            nearest: The number of nearest nodes to report; 0 means five. Not with a manifest or
                configuration.
            wait_seconds: Maximum wait for the end of a running session, so that nodes can be
                examined. Without it, the explanation may be ``without_nodes``. Not with a manifest
                or configuration, which never wait for sessions.
            horizon_seconds: The horizon of an estimate of the start; by default there is no
                estimate. Not with a manifest or configuration; use ``schedule`` for these.
            cluster: The cluster; by default that of the settings.
            timeout_seconds: The timeout of the call; by default that of the settings.
        """
        return await self._explain_object(
            ExplainedObject(job=requests.object_name(name)),
            manifest=manifest,
            configuration=configuration,
            nearest=nearest,
            wait_seconds=wait_seconds,
            horizon_seconds=horizon_seconds,
            cluster=cluster,
            timeout_seconds=timeout_seconds,
        )

    async def explain_pod(
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
        return await self._explain_object(
            ExplainedObject(pod=requests.object_name(name)),
            manifest=manifest,
            configuration=configuration,
            nearest=nearest,
            wait_seconds=wait_seconds,
            horizon_seconds=horizon_seconds,
            cluster=cluster,
            timeout_seconds=timeout_seconds,
        )

    async def _explain_object(
        self,
        subject: ExplainedObject,
        *,
        manifest: ManifestLike | None,
        configuration: ConfigurationLike | None,
        nearest: int,
        wait_seconds: float | None,
        horizon_seconds: float | None,
        cluster: str | None,
        timeout_seconds: float | None,
    ) -> Explanation:
        name = self._cluster(cluster)
        if manifest is None and configuration is None:
            request = requests.explain_request(name, subject, nearest, wait_seconds)
            requests.add_horizon(request, horizon_seconds)
            deadline = self._caller.deadline(timeout_seconds)
            response = await self._caller.call(self._scheduling.Explain, request, deadline)
            return Explanation.from_proto(response)
        arguments.without_trial(
            nearest=nearest, wait_seconds=wait_seconds, horizon_seconds=horizon_seconds
        )

        def trial() -> ScheduleRequest:
            made = requests.schedule_request(
                requests.cluster_source(name, () if manifest is None else manifest, ()),
                configuration=configuration,
                timeout_seconds=timeout_seconds,
            )
            made.explained.append(subject)
            return made

        return explanation_from_trial(await self._schedule(trial, timeout_seconds))

    async def estimate_start(
        self,
        name: str,
        *,
        pod: bool = False,
        horizon_seconds: float | None = None,
        cluster: str | None = None,
        timeout_seconds: float | None = None,
    ) -> StartEstimate:
        """Estimates when a job or pod starts, with a simulation on a copy of the cluster.

        Args:
            name: ``namespace/name`` of a PodGroup, a Volcano Job or a pod.
            pod: Whether the name is that of a pod.
            horizon_seconds: The horizon of the estimate; by default a day.
            cluster: The cluster; by default that of the settings.
            timeout_seconds: The timeout of the call; by default that of the settings.
        """
        request = requests.estimate_request(self._cluster(cluster), name, pod, horizon_seconds)
        deadline = self._caller.deadline(timeout_seconds)
        response = await self._caller.call(self._scheduling.EstimateStart, request, deadline)
        return StartEstimate.from_response(response)

    def _cluster(self, name: str | None) -> str:
        own = self._caller.settings.cluster
        return own if name is None else arguments.text("cluster", name)
