"""Makes the entries of a recording, on the recorder's thread."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata

import numpy as np

from pumice.core.decisions import SessionResult
from pumice.core.registry import Registry
from pumice.recordings import FORMAT_VERSION
from pumice.server.recording.checkpoints import StateCheckpoint
from pumice.server.versions import own_version
from pumice.server.wire import write_fault
from pumice.server.wire.times import duration, timestamp
from pumice.v1 import cluster_service_pb2, delta_pb2, object_pb2
from pumice.v1 import recording_pb2 as pb

_Entry = pb.RecordingEntry


@dataclass(frozen=True, slots=True)
class Origin:
    """The core and the cluster of a recording."""

    cluster: str
    core_id: str
    plugin_versions: dict[str, str]


def origin(cluster: str, core_id: str, registry: Registry) -> Origin:
    return Origin(cluster, core_id, plugin_versions(registry))


def plugin_versions(registry: Registry) -> dict[str, str]:
    """The version of the package of each action and plugin."""
    own = own_version()
    versions = dict.fromkeys(registry.actions, own)
    for name, plugin in registry.plugins.items():
        versions[name] = own if registry.is_built_in(name) else _package_version(plugin.__module__)
    return versions


@cache
def _package_version(module: str) -> str:
    packages = metadata.packages_distributions().get(module.partition(".")[0], ())
    return ", ".join(f"{name} {metadata.version(name)}" for name in packages) or "unknown"


def opening(
    origin: Origin,
    checkpoint: StateCheckpoint,
    now_ns: int,
    yield_thread: Callable[[], None] | None = None,
) -> Iterator[_Entry]:
    """The header and the checkpoint at the beginning of a recording."""
    header = pb.RecordingHeader(
        format_version=FORMAT_VERSION,
        cluster=origin.cluster,
        core_id=origin.core_id,
        core_version=own_version(),
        creation_time=timestamp(now_ns),
        plugin_versions=origin.plugin_versions,
        platform={
            "python": sys.version.split()[0],
            "numpy": np.__version__,
            "machine": platform.machine(),
        },
        first_session=checkpoint.engine.session + 1,
    )
    yield _Entry(header=header, entry_time=timestamp(now_ns))
    for part in checkpoint.write(yield_thread):
        yield _Entry(checkpoint=part, entry_time=timestamp(now_ns))


def connection(
    hello: cluster_service_pb2.Hello, welcome: cluster_service_pb2.Welcome | None, now_ns: int
) -> Iterator[_Entry]:
    recorded = pb.RecordingConnection()
    if welcome is not None:
        recorded.hello.CopyFrom(hello)
        recorded.welcome.CopyFrom(welcome)
    yield _Entry(connection=recorded, entry_time=timestamp(now_ns))


def snapshot_begin(first_seq: int, kinds: Sequence[int], now_ns: int) -> Iterator[_Entry]:
    begin = cluster_service_pb2.SnapshotBegin(
        first_seq=first_seq, kinds=map(object_pb2.Kind.ValueType, kinds)
    )
    yield _Entry(snapshot_begin=begin, entry_time=timestamp(now_ns))


def batch(
    batch: delta_pb2.DeltaBatch, rejected: Sequence[object_pb2.RejectedObject], now_ns: int
) -> Iterator[_Entry]:
    if batch.ops:
        entry = _Entry(entry_time=timestamp(now_ns))
        # Copied as bytes, which is several times faster than copying op by op.
        entry.delta_batch.MergeFromString(batch.SerializeToString())
        entry.delta_batch.ClearField("incarnation")
        yield entry
    yield from _rejections(batch.first_seq + len(batch.ops) - 1, rejected, now_ns)


def configured(result: cluster_service_pb2.ConfigurationResult, now_ns: int) -> Iterator[_Entry]:
    yield _Entry(configuration_result=result, entry_time=timestamp(now_ns))


def snapshot_end(
    seq: int, rejected: Sequence[object_pb2.RejectedObject], now_ns: int
) -> Iterator[_Entry]:
    yield _Entry(
        snapshot_end=cluster_service_pb2.SnapshotEnd(seq=seq), entry_time=timestamp(now_ns)
    )
    yield from _rejections(seq, rejected, now_ns)


def _rejections(
    seq: int, rejected: Sequence[object_pb2.RejectedObject], now_ns: int
) -> Iterator[_Entry]:
    if rejected:
        ack = cluster_service_pb2.Ack(applied_seq=seq, rejected=rejected)
        yield _Entry(ack=ack, entry_time=timestamp(now_ns))


def skipped(now_ns: int) -> Iterator[_Entry]:
    yield _Entry(
        tick=pb.RecordingTick(session_time=timestamp(now_ns), skipped=True),
        entry_time=timestamp(now_ns),
    )


def session(
    result: SessionResult,
    responses: Sequence[cluster_service_pb2.ConnectResponse],
    seq: int,
    duration_ns: int,
) -> Iterator[_Entry]:
    now_ns = result.now_ns
    tick = pb.RecordingTick(
        session=result.session, session_time=timestamp(now_ns), based_on_seq=seq
    )
    yield _Entry(tick=tick, entry_time=timestamp(now_ns))
    for response in responses:
        if response.HasField("decision_batch"):
            yield _Entry(decision_batch=response.decision_batch)
        elif response.HasField("status_batch"):
            yield _Entry(status_batch=response.status_batch)
    end = pb.RecordingSessionEnd(
        session=result.session,
        faults=map(write_fault, result.faults),
        work=result.work,
        duration=duration(duration_ns),
    )
    yield _Entry(session_end=end)
