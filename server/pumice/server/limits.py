"""The limits of a core."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.server.errors import LimitError
from pumice.server.wire.times import duration
from pumice.v1 import cluster_service_pb2

_SECOND_NS = 1_000_000_000
# Only the number of smaller objects is limited.
LARGE_OBJECT_BYTES = 4096
LOWEST_PROTOCOL, HIGHEST_PROTOCOL = 1, 1


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on messages, streams, snapshots and queues."""

    max_message_bytes: int = 4 * 1024 * 1024
    # Enough for a request or response with a gang of ten thousand complete pods.
    frontend_message_bytes: int = 16 * 1024 * 1024
    # A request of any other method; the largest contains a configuration.
    small_request_bytes: int = 2 * 1024 * 1024
    batch_bytes: int = 512 * 1024
    # Ops, and bytes, that may be sent without acknowledgement. Above it the core stops reading.
    credit: int = 20_000
    credit_bytes: int = 8 * 1024 * 1024
    # Time within which a new stream must send Hello.
    hello_timeout_ns: int = 10 * _SECOND_NS
    # Objects of one cluster, and bytes of those objects that are larger than LARGE_OBJECT_BYTES.
    cluster_objects: int = 1_000_000
    large_object_bytes: int = 512 * 1024 * 1024
    digest_interval_ns: int = 30 * _SECOND_NS
    snapshot_timeout_ns: int = 300 * _SECOND_NS
    max_clusters: int = 256
    # Time for which the state of a cluster without a stream is kept.
    keep_state_ns: int = 3600 * _SECOND_NS
    # Time after which a cluster without a stream and without a complete snapshot is removed.
    forget_incomplete_ns: int = 60 * _SECOND_NS
    streams_per_peer: int = 64
    snapshots_per_peer: int = 16
    # Bytes that may be queued for an adapter that does not read.
    outgoing_bytes: int = 64 * 1024 * 1024
    # Time within which an adapter must read GoAway.
    go_away_ns: int = 2 * _SECOND_NS
    # Time that a stopping core waits for a running session.
    stop_ns: int = 5 * _SECOND_NS
    watchers: int = 100
    watcher_sessions: int = 100
    kept_sessions: int = 500
    # Trials: number that run at once and that wait; objects, sessions and time of one trial.
    trials_at_once: int = 4
    trials_waiting: int = 124
    # Bytes of all trial requests that are being served.
    trial_request_bytes: int = 256 * 1024 * 1024
    trial_objects: int = 50_000
    # Bytes of one object, or of the configuration, of a request.
    trial_object_bytes: int = 2 * 1024 * 1024
    trial_sessions: int = 1_000
    trial_timeout_ns: int = 30 * _SECOND_NS
    # Memory of a trial in addition to the memory that it shares with its replica; resource names of
    # all nodes of a request; and nodes times resource names.
    trial_memory_bytes: int = 512 * 1024 * 1024
    trial_resources: int = 1_000
    trial_cells: int = 5_000_000
    # Estimates of starts: number that run at once, with three forks each, and that wait.
    estimates_at_once: int = 1
    estimates_waiting: int = 32
    # CheckConfig: number of calls that run at once and that wait.
    checks_at_once: int = 2
    checks_waiting: int = 64
    # An epoch is a time in milliseconds. It may be this far in the future.
    epoch_ahead_ms: int = 60 * 1000
    # It may also be this far above the highest epoch of its cluster, as after elections that follow
    # each other while the clock is behind that epoch. A cluster is not moved ahead quickly by it.
    epochs_after_served: int = 100

    def why_too_large(self, objects: int, large_bytes: int) -> LimitError | None:
        """The limit that a cluster of this size exceeds; None: it is within the limits."""
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
