"""The environment of a core: identity, clock, limits, plugins and metrics."""

from __future__ import annotations

from dataclasses import dataclass, field
from secrets import token_hex
from time import time_ns

from pumice.core.registry import Registry
from pumice.server.clock import Clock, SystemClock
from pumice.server.estimating.run_times import RunTimes
from pumice.server.garbage import GarbageControl
from pumice.server.limits import Limits
from pumice.server.metrics import Metrics
from pumice.server.plugins import installed_registry
from pumice.server.recording.files import RecordingOptions

_MINUTE_NS = 60 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class ReplicaOptions:
    """When replica processes start and end."""

    # Start with the cluster and never end; otherwise start at the first request.
    at_start: bool = False
    # Time after which an idle replica ends; 0: never.
    idle_ns: int = 10 * _MINUTE_NS


@dataclass(frozen=True, slots=True)
class CoreEnvironment:
    """Values that all clusters and services of one core share."""

    core_id: str = field(default_factory=lambda: token_hex(8))
    started_ns: int = field(default_factory=time_ns)
    clock: Clock = field(default_factory=SystemClock)
    limits: Limits = field(default_factory=Limits)
    registry: Registry = field(default_factory=installed_registry)
    metrics: Metrics = field(default_factory=Metrics)
    garbage: GarbageControl = field(default_factory=GarbageControl)
    # None: no files are recorded.
    recording: RecordingOptions | None = None
    replicas: ReplicaOptions = field(default_factory=ReplicaOptions)
    # Run times of pods, from recordings, for estimates of starts.
    run_times: RunTimes = field(default_factory=RunTimes)
