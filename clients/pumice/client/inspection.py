"""Asks a core what it holds and does, for those who look again and again; nothing is repeated."""

from __future__ import annotations

from dataclasses import replace

from pumice.client import operations
from pumice.client.errors import ClientError, CoreUnavailableError, NotFoundError, TimeOverError
from pumice.client.operations import Operation, T
from pumice.client.settings import ClientSettings
from pumice.client.sync import Client
from pumice.v1 import inspection_service_pb2 as inspection
from pumice.v1.session_pb2 import SessionDetail

# The core is not there, not yet ready for this question, or too busy to answer in time.
_AWAY = (CoreUnavailableError, NotFoundError, TimeOverError)


class CoreAwayError(Exception):
    """Nobody answers just now; ask again later."""


class InspectionClient:
    """The InspectionService of one core, for its only cluster or a named one."""

    def __init__(self, address: str, cluster: str = "", timeout_seconds: float = 2.0) -> None:
        settings = replace(
            ClientSettings(), address=address, cluster=cluster, timeout_seconds=timeout_seconds
        )
        self._client = Client(replace(settings, attempts=1))
        self._cluster = cluster

    def close(self) -> None:
        self._client.close()

    def queues(self) -> inspection.ListQueuesResponse:
        request = inspection.ListQueuesRequest(cluster=self._cluster)
        return self._run(operations.one_page("ListQueues", request, inspection.ListQueuesResponse))

    def nodes(self) -> inspection.ListNodesResponse:
        request = inspection.ListNodesRequest(cluster=self._cluster)
        return self._run(operations.one_page("ListNodes", request, inspection.ListNodesResponse))

    def jobs(self) -> inspection.ListJobsResponse:
        request = inspection.ListJobsRequest(cluster=self._cluster)
        return self._run(operations.one_page("ListJobs", request, inspection.ListJobsResponse))

    def sessions(self) -> inspection.ListSessionsResponse:
        """The last ones, newest first."""
        request = inspection.ListSessionsRequest(cluster=self._cluster)
        return self._run(
            operations.one_page("ListSessions", request, inspection.ListSessionsResponse)
        )

    def session(self, number: int) -> SessionDetail | None:
        """All that one session decided; None when it is not kept any more."""
        try:
            return self._run(operations.session(self._cluster, number)).message
        except CoreAwayError:
            return None

    def _run(self, operation: Operation[T]) -> T:
        try:
            return self._client.run(operation)
        except _AWAY as error:
            raise CoreAwayError(str(error)) from None


__all__ = ["ClientError", "CoreAwayError", "InspectionClient"]
