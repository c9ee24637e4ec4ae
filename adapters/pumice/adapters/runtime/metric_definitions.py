"""The metrics of an adapter: name, help text and labels of each.

Names here lack the prefix `pumice_adapter_`, and counters their suffix `_total`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

PREFIX: Final = "pumice_adapter_"


@dataclass(frozen=True, slots=True)
class Series:
    """The metrics of one kind of process: help text, labels and buckets by name."""

    prefix: str
    counters: Mapping[str, tuple[str, tuple[str, ...]]]
    gauges: Mapping[str, tuple[str, tuple[str, ...]]]
    histograms: Mapping[str, tuple[str, tuple[str, ...], tuple[float, ...]]]


_CALL_BUCKETS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_WATCH_BUCKETS: Final = (1.0, 5.0, 30.0, 60.0, 120.0, 300.0, 600.0, 700.0)

COUNTERS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "api_retries": ("Calls to the API server that were repeated, by error.", ("error",)),
    "apply_calls": ("Attempts to apply a decision, by result.", ("verb", "result")),
    "bad_objects": ("Objects rejected because a field is invalid.", ("kind",)),
    "batches": ("Batches of deltas sent to the core.", ()),
    "bookmarks": ("Bookmarks received by watches.", ("resource",)),
    "coalesced_statuses": ("Statuses replaced by a newer one before they were written.", ("kind",)),
    "configurations": ("Configurations with a result of the core.", ("accepted",)),
    "credential_reloads": ("Reloads of credentials after the API server refused them.", ()),
    "decisions": ("Decisions received from the core.", ()),
    "drain_timeouts": ("Times that calls in flight did not end within the drain timeout.", ()),
    "dropped_decisions": ("Decisions dropped before they were applied.", ("verb",)),
    "dropped_events": ("Kubernetes events that were not written, by cause.", ("cause",)),
    "duplicate_decisions": ("Decisions received more than once.", ()),
    "elections": ("Times that this process became the leader.", ()),
    "event_writes": ("Attempts to write a Kubernetes event, by result.", ("kind", "result")),
    "events": ("Changes of objects passed to the core.", ("kind",)),
    "expired_lists": ("Lists begun again because a page token expired.", ("resource",)),
    "foreign_binds": ("Binds of our pods by another scheduler while this adapter leads.", ()),
    "ignored_batches": ("Decision batches ignored because they were stale.", ()),
    "lease_failures": ("Failed attempts to acquire or renew the lease.", ()),
    "lists": ("Complete lists of a resource.", ("resource",)),
    "malformed_objects": ("Objects omitted because they are malformed.", ()),
    "ops": ("Deltas sent to the core.", ()),
    "outcomes": ("Outcomes reported to the core.", ("verb", "code")),
    "oversized_objects": ("Objects omitted because they exceed the message size.", ()),
    "questions": ("Questions of plugins asked over HTTP, by result.", ("result",)),
    "read_backs": ("Pods read back before a repeated attempt.", ("verb",)),
    "refused_gangs": ("Gangs refused because a member changed.", ()),
    "rejected_objects": ("Objects that the core rejected.", ("kind",)),
    "unknown_values": ("Values in objects that the core does not know.", ("kind",)),
    "relists": ("Lists begun because a watch could not continue.", ("resource",)),
    "repeated_events": ("Kubernetes events counted on an event that was already written.", ()),
    "resignations": ("Times that the leader released the lease because of its core.", ()),
    "resync_failures": ("Failed reads of objects to resync.", ("kind",)),
    "resync_requests": ("Resyncs that the core requested.", ()),
    "resyncs": ("Objects queued to be read again.", ("kind",)),
    "shadow_unwritten": ("Writes that a shadow did not make.", ("what",)),
    "snapshots": ("Snapshots sent to the core.", ("kinds",)),
    "status_writes": ("Attempts to write a status, by result.", ("kind", "result")),
    "stream_ends": ("Ended streams, by the next step.", ("next",)),
    "streams": ("Streams opened to the core.", ("mode",)),
    "terminating_namespaces": ("Writes refused because the namespace is terminating.", ("call",)),
    "unchanged_objects": ("Updates of objects that changed nothing.", ()),
    "unknown_messages": ("Messages of the core of an unknown type.", ()),
    "usage_polls": ("Polls of the usage of nodes, by result.", ("result",)),
    "volume_timeouts": ("Volume reservations given up after the time limit.", ()),
    "claim_undos": ("Resource claims released, by result.", ("result",)),
    "lock_undos": ("Locks of nodes released, by result.", ("result",)),
    "volume_undos": ("Volume reservations undone, by result.", ("result",)),
    "watch_failures": ("Watches that ended with an error, by code.", ("resource", "code")),
    "watches": ("Watches opened.", ("resource",)),
}

GAUGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "apply_queue_length": ("Decisions that wait for their first or next attempt.", ()),
    "check_ok": ("1: the health check passes, 0: it fails.", ("check",)),
    "configuration_refused": ("1: the core refused the wanted configuration.", ()),
    "configuration_since_seconds": ("Unix time at which the configuration came into use.", ()),
    "core_silence_seconds": ("Seconds since the core last worked for this adapter.", ()),
    "event_queue_length": ("Kubernetes events that wait to be written.", ()),
    "leads": ("1: this process is the leader.", ()),
    "missing_rights": (
        "Namespaces in which a right is missing; calls that need it are withheld.",
        ("right",),
    ),
    "resync_queue_length": ("Objects that wait to be read again.", ()),
    "claim_reservations": ("Pods with resource claims that are not finished.", ()),
    "lock_reservations": ("Pods with locks of nodes that are not finished.", ()),
    "volume_reservations": ("Pods with volume reservations that are not finished.", ()),
    "watch_queue_length": ("Changes received by watches that the runtime has not processed.", ()),
}

HISTOGRAMS: Final[dict[str, tuple[str, tuple[str, ...], tuple[float, ...]]]] = {
    "api_request_duration_seconds": (
        "Time of a call to the API server, watches excluded.",
        ("method", "resource", "code"),
        _CALL_BUCKETS,
    ),
    "apply_duration_seconds": (
        "Time from the first attempt to apply a decision to its final outcome.",
        ("verb", "code"),
        _CALL_BUCKETS,
    ),
    "list_duration_seconds": (
        "Time of a complete list of a resource.",
        ("resource",),
        _CALL_BUCKETS,
    ),
    "watch_duration_seconds": ("Time that a watch was open.", ("resource",), _WATCH_BUCKETS),
}

ADAPTER_SERIES: Final = Series(PREFIX, COUNTERS, GAUGES, HISTOGRAMS)
