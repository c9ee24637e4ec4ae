"""Summaries of clusters and of the core, for ListClusters and GetConfig."""

from __future__ import annotations

from pumice.core.kernel import rows
from pumice.server.clusters import Cluster
from pumice.server.core_environment import CoreEnvironment
from pumice.server.pause import Pause
from pumice.server.versions import own_version
from pumice.server.wire.times import timestamp
from pumice.v1 import core_pb2, object_pb2
from pumice.v1.inspection_service_pb2 import ClusterInfo

_kind = object_pb2.Kind.ValueType


def core_info(env: CoreEnvironment) -> core_pb2.CoreInfo:
    return core_pb2.CoreInfo(
        core_id=env.core_id,
        version=own_version(),
        start_time=timestamp(env.started_ns),
        compiled_kernel=rows is not None,
    )


def write_pause(pause: Pause | None) -> core_pb2.Pause | None:
    if pause is None:
        return None
    return core_pb2.Pause(
        reason=core_pb2.PauseReason.Value(f"PAUSE_REASON_{pause.reason.name}"),
        message=pause.message,
        begin_time=timestamp(pause.since_ns),
        kinds=map(_kind, pause.kinds),
    )


def cluster_info(cluster: Cluster) -> ClusterInfo:
    """Runs on the loop. The owner's thread may change values at the same time."""
    served, stream = cluster.served, cluster.stream
    info = ClusterInfo(
        name=cluster.name,
        epoch=cluster.epoch,
        pause=write_pause(served.pause),
        object_counts=[
            core_pb2.KindCount(kind=_kind(kind), count=count)
            for kind, count in served.state.sums.counts().items()
            if count
        ],
        rejected_object_count=len(served.state.quarantined),
    )
    if stream is not None:
        info.adapter_id, info.adapter_version = (
            stream.hello.adapter_id,
            stream.hello.adapter_version,
        )
        info.connect_time.CopyFrom(timestamp(stream.connected_ns))
    last = cluster.history.get(0)
    if last is not None:
        info.last_session = last.number
        info.last_session_time.CopyFrom(last.summary.start_time)
    return info
