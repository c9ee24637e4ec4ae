"""AdministrationService: calls with which operators change the state of a core."""

from __future__ import annotations

from typing import Any

from pumice.server import errors
from pumice.server.clusters import Clusters
from pumice.server.service import abort_on_error
from pumice.v1 import administration_service_pb2 as pb
from pumice.v1 import administration_service_pb2_grpc


class AdministrationServicer(administration_service_pb2_grpc.AdministrationServiceServicer):
    """Serves ForgetCluster."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    @abort_on_error
    async def ForgetCluster(  # noqa: N802
        self, request: pb.ForgetClusterRequest, context: Any
    ) -> pb.ForgetClusterResponse:
        if not request.cluster:
            raise errors.RequestFieldError("cluster", "is empty")
        epoch = await self._clusters.forget(request.cluster, force=request.force)
        return pb.ForgetClusterResponse(epoch=epoch)
