"""The metrics of the controllers. Names here lack the prefix, and those of counters also the suffix."""

from typing import Final

from pumice.adapters.runtime.metric_definitions import COUNTERS, GAUGES, HISTOGRAMS, Series

PREFIX: Final = "pumice_controllers_"
# Metrics of parts that the controllers share with the adapter.
_SHARED: Final = (
    "api_retries",
    "bad_objects",
    "bookmarks",
    "credential_reloads",
    "drain_timeouts",
    "dropped_events",
    "elections",
    "expired_lists",
    "lease_failures",
    "lists",
    "malformed_objects",
    "relists",
    "repeated_events",
    "terminating_namespaces",
    "watch_failures",
    "watches",
)
_SHARED_GAUGES: Final = ("check_ok", "event_queue_length", "leads", "missing_rights")
_SHARED_HISTOGRAMS: Final = (
    "api_request_duration_seconds",
    "list_duration_seconds",
    "watch_duration_seconds",
)

CONTROLLER_COUNTERS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "acts": ("Writes to the API server, by result.", ("verb", "resource", "result")),
    "reconciles": ("Reconciled keys, by result.", ("controller", "result")),
}
CONTROLLER_GAUGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "queue_length": ("Keys that wait to be reconciled.", ("controller",)),
}
CONTROLLER_HISTOGRAMS: Final[dict[str, tuple[str, tuple[str, ...], tuple[float, ...]]]] = {
    "job_start_duration_seconds": (
        "Time from the creation of a Job to its first phase Running.",
        (),
        (1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 10800, 43200),
    ),
}

CONTROLLER_SERIES: Final = Series(
    PREFIX,
    {name: COUNTERS[name] for name in _SHARED} | CONTROLLER_COUNTERS,
    {name: GAUGES[name] for name in _SHARED_GAUGES} | CONTROLLER_GAUGES,
    {name: HISTOGRAMS[name] for name in _SHARED_HISTOGRAMS} | CONTROLLER_HISTOGRAMS,
)
