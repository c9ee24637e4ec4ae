"""Asks a core what it holds and does; nothing here changes anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import grpc

from pumice.v1 import inspection_service_pb2 as inspection
from pumice.v1.inspection_service_pb2_grpc import InspectionServiceStub
from pumice.v1.session_pb2 import SessionDetail

T = TypeVar("T")

# The core is not there, not yet ready for this question, or too busy to answer in time.
_AWAY = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.NOT_FOUND,
)


class CoreAwayError(Exception):
    """Nobody answers just now; ask again later."""


class InspectionClient:
    """The InspectionService of one core, for its only cluster or a named one."""

    def __init__(self, address: str, cluster: str = "", timeout_seconds: float = 2.0) -> None:
        self._channel = grpc.insecure_channel(
            address,
            # A core that was started again is to be found at once.
            options=[
                ("grpc.initial_reconnect_backoff_ms", 50),
                ("grpc.min_reconnect_backoff_ms", 50),
                ("grpc.max_reconnect_backoff_ms", 200),
            ],
        )
        self._stub = InspectionServiceStub(self._channel)
        self._cluster = cluster
        self._timeout = timeout_seconds

    def close(self) -> None:
        self._channel.close()

    def queues(self) -> inspection.ListQueuesResponse:
        request = inspection.ListQueuesRequest(cluster=self._cluster)
        return self._call(self._stub.ListQueues, request)

    def nodes(self) -> inspection.ListNodesResponse:
        return self._call(self._stub.ListNodes, inspection.ListNodesRequest(cluster=self._cluster))

    def jobs(self) -> inspection.ListJobsResponse:
        return self._call(self._stub.ListJobs, inspection.ListJobsRequest(cluster=self._cluster))

    def sessions(self) -> inspection.ListSessionsResponse:
        """The last ones, newest first."""
        request = inspection.ListSessionsRequest(cluster=self._cluster)
        return self._call(self._stub.ListSessions, request)

    def session(self, number: int) -> SessionDetail | None:
        """All that one session decided; None when it is not kept any more."""
        request = inspection.GetSessionRequest(cluster=self._cluster, session=number)
        try:
            return self._call(self._stub.GetSession, request).session
        except CoreAwayError:
            return None

    def _call(self, method: Callable[..., T], request: Any) -> T:
        try:
            return method(request, timeout=self._timeout)
        except grpc.RpcError as error:
            # Every error of a call is a Call too, which the stubs do not say.
            call = cast(grpc.Call, error)
            if call.code() in _AWAY:
                raise CoreAwayError(call.details() or "the core does not answer") from None
            raise
