"""The limits of a core."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.server.errors import LimitError
from pumice.server.wire.times import duration
from pumice.v1 import cluster_service_pb2

_SECOND_NS = 1_000_000_000
# Smaller objects are limited by their number alone.
LARGE_OBJECT_BYTES = 4096
LOWEST_PROTOCOL, HIGHEST_PROTOCOL = 1, 1


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of messages, streams, snapshots and queues."""

    max_message_bytes: int = 4 * 1024 * 1024
    # A request or an answer about a gang of ten thousand, with all that pods carry.
    frontend_message_bytes: int = 16 * 1024 * 1024
    # A request of any other call: the largest has a configuration.
    small_request_bytes: int = 2 * 1024 * 1024
    batch_bytes: int = 512 * 1024
    # Ops beyond the last acknowledged one; beyond so many bytes the stream is not read for a while.
    credit: int = 20_000
    credit_bytes: int = 8 * 1024 * 1024
    # How long a new stream may take to send Hello.
    hello_timeout_ns: int = 10 * _SECOND_NS
    # Objects of one cluster, and the bytes of those that are larger than LARGE_OBJECT_BYTES.
    cluster_objects: int = 1_000_000
    large_object_bytes: int = 512 * 1024 * 1024
    digest_interval_ns: int = 30 * _SECOND_NS
    snapshot_timeout_ns: int = 300 * _SECOND_NS
    max_clusters: int = 256
    # How long the state of a cluster without a stream is kept for one that comes back.
    keep_state_ns: int = 3600 * _SECOND_NS
    # After how long a cluster that never was complete is forgotten when its stream has ended.
    forget_incomplete_ns: int = 60 * _SECOND_NS
    streams_per_peer: int = 64
    snapshots_per_peer: int = 16
    # Bytes that may wait for an adapter that does not read.
    outgoing_bytes: int = 64 * 1024 * 1024
    # How long a stream may take to read its GoAway.
    farewell_ns: int = 2 * _SECOND_NS
    # How long the core waits at its end for a session, and for a recording to be written.
    stop_ns: int = 5 * _SECOND_NS
    watchers: int = 100
    watcher_sessions: int = 100
    kept_sessions: int = 500
    # Trials of what would be decided: at work and waiting for their turn, objects and sessions of
    # one, and its time.
    trials_at_once: int = 4
    trials_waiting: int = 124
    # Of all requests for trials that are being served.
    trial_request_bytes: int = 256 * 1024 * 1024
    trial_objects: int = 50_000
    # Of one object, or of the configuration, of a request.
    trial_object_bytes: int = 2 * 1024 * 1024
    trial_sessions: int = 1_000
    trial_timeout_ns: int = 30 * _SECOND_NS
    # Memory of a trial beyond what it shares with its cluster, resources that the nodes of a request
    # may offer together, and nodes times resources.
    trial_memory_bytes: int = 512 * 1024 * 1024
    trial_resources: int = 1_000
    trial_cells: int = 5_000_000
    # Estimates of starts: at work, with three forks each, and waiting for their turn.
    estimates_at_once: int = 1
    estimates_waiting: int = 32
    # CheckConfig: at work and waiting for their turn.
    checks_at_once: int = 2
    checks_waiting: int = 64
    # An epoch is a time in milliseconds, or a little more.
    epoch_ahead_ms: int = 60 * 1000

    def why_too_large(self, objects: int, large_bytes: int) -> LimitError | None:
        """The limit that a cluster with so many objects exceeds; None: none."""
        for name, given, limit in (
            ("objects of a cluster", objects, self.cluster_objects),
            ("bytes of large objects of a cluster", large_bytes, self.large_object_bytes),
        ):
            if given > limit:
                return LimitError(name, limit, given)
        return None

    def write(self) -> cluster_service_pb2.Limits:
        return cluster_service_pb2.Limits(
            max_message_bytes=self.max_message_bytes,
            batch_bytes=self.batch_bytes,
            credit=self.credit,
            digest_interval=duration(self.digest_interval_ns),
            snapshot_timeout=duration(self.snapshot_timeout_ns),
        )
