"""Settings of the runtime, with their defaults."""

from dataclasses import dataclass

from pumice.adapters.runtime.clock import Backoff

# Short, because there is one adapter per cluster, and nothing is scheduled without a stream.
_RECONNECT = Backoff(0.05, 0.4)
_REFUSED = Backoff(0.2, 30.0)
_APPLY = Backoff(0.2, 10.0)
_RESYNC = Backoff(0.1, 60.0)
_STATUS = Backoff(0.2, 30.0)


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """Settings of one adapter. The first fields identify it."""

    cluster: str
    adapter_id: str
    adapter_version: str = ""
    # Time that a batch waits for more ops.
    flush_seconds: float = 0.01
    # Time from Hello to Welcome.
    welcome_timeout_seconds: float = 10.0
    # Delays between streams: while the core is unreachable, and after the core ended a stream.
    reconnect: Backoff = _RECONNECT
    refusal_backoff: Backoff = _REFUSED
    # Limit of apply calls, status writes and event writes in flight.
    calls_in_flight: int = 64
    # Timeout of one apply call, and default timeout of one decision with all retries.
    call_timeout_seconds: float = 10.0
    apply_timeout_seconds: float = 60.0
    apply_tries: int = 5
    apply_backoff: Backoff = _APPLY
    # Time for calls in flight before a snapshot.
    drain_timeout_seconds: float = 10.0
    resync_backoff: Backoff = _RESYNC
    status_backoff: Backoff = _STATUS
    # Attempts for one event.
    event_tries: int = 12
    # Number of workers that write events.
    event_writers: int = 4
    event_queue_size: int = 50_000
    # Delay of conditions of waiting pods, of counters and conditions of PodGroups, and of the
    # allocation of queues. Within this time most pods of a gang are bound.
    waiting_report_seconds: float = 0.0
    # Time for the core to acknowledge the last ops when the world ends.
    last_ops_timeout_seconds: float = 5.0
    # Time for gangs that have begun, and then for their reports, when the process stops.
    shutdown_timeout_seconds: float = 15.0
    report_timeout_seconds: float = 1.0
    # Whether the built-in default is used if no configuration is valid.
    default_configuration: bool = True
    # Names of our schedulers. Binds of their pods by other schedulers are detected.
    scheduler_names: tuple[str, ...] = ()
    # Time to watch for such binds before this adapter leads for the first time.
    other_scheduler_check_seconds: float = 0.0
