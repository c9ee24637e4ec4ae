"""Settings of the runtime, with their defaults."""

from dataclasses import dataclass

from pumice.adapters.runtime.clock import Backoff

# Short: there is one adapter for each cluster, and nothing is scheduled without a stream.
_RECONNECT = Backoff(0.05, 0.4)
_REFUSED = Backoff(0.2, 30.0)
_APPLY = Backoff(0.2, 10.0)
_QUEUES = Backoff(0.1, 60.0)
_STATUS = Backoff(0.2, 30.0)


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """Settings of one adapter; the first fields identify it."""

    cluster: str
    adapter_id: str
    adapter_version: str = ""
    # Time that a batch waits for more ops.
    flush_seconds: float = 0.01
    # Time from Hello to Welcome.
    welcome_timeout_seconds: float = 10.0
    # Delays between streams: while the core is away, and after streams that the core ended.
    reconnect: Backoff = _RECONNECT
    refusal_backoff: Backoff = _REFUSED
    # Limit of apply calls, status writes and event writes in flight.
    calls_in_flight: int = 64
    # Time for one apply call, and for one decision with all retries, unless configured.
    call_timeout_seconds: float = 10.0
    apply_timeout_seconds: float = 60.0
    apply_tries: int = 5
    apply_backoff: Backoff = _APPLY
    # Before a snapshot: time for calls in flight.
    drain_timeout_seconds: float = 10.0
    resync_backoff: Backoff = _QUEUES
    cleanup_backoff: Backoff = _QUEUES
    status_backoff: Backoff = _STATUS
    status_tries: int = 10
    # Attempts for one event, and events that may wait; more are dropped and counted.
    event_tries: int = 12
    # Workers that write events.
    event_writers: int = 4
    event_queue_size: int = 50_000
    # Time before it is written that a pod waits, or that only counters or conditions of a PodGroup, or
    # what a queue has allocated, changed: most pods of a gang are bound, and more of them start, meanwhile.
    waiting_report_seconds: float = 0.0
    # When the world ends: time for the core to acknowledge the last ops.
    last_ops_timeout_seconds: float = 5.0
    # When the process is asked to end: time for gangs that have begun, then for reports of them.
    shutdown_timeout_seconds: float = 15.0
    report_timeout_seconds: float = 1.0
    # Without any configuration that the core accepts: schedule by the built-in default.
    default_configuration: bool = True
    # Pods of these schedulers are ours; binds of them by others are noticed.
    scheduler_names: tuple[str, ...] = ()
    # Time to watch for such binds before this adapter leads for the first time; 0: none.
    other_scheduler_check_seconds: float = 0.0
