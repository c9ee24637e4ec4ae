"""A core in this process, without server and clock, for simulations, tests and benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from pumice.core.configuration import DEFAULT_CONFIGURATION
from pumice.core.decisions import SessionResult
from pumice.core.registry import PluginRefusedError, Registry
from pumice.recordings import Recording
from pumice.server.configuration import ConfigurationRefusedError, configuration_text
from pumice.server.configuration_check import check
from pumice.server.errors import ObjectsRejectedError
from pumice.server.explaining.reached_limits import with_limits
from pumice.server.ops import OpReader
from pumice.server.plugins import installed_registry, registry_with
from pumice.server.replaying import excerpts
from pumice.server.replaying.comparison import Comparison, compare, depart
from pumice.server.replaying.differences import Difference
from pumice.server.replaying.excerpts import Excerpt
from pumice.server.session_timer import gangs_are_complete
from pumice.server.state import ClusterState
from pumice.server.whatif.trial import run_inline
from pumice.server.wire import (
    write_decisions,
    write_event,
    write_fault,
    write_status,
    write_upsert,
    write_wait,
)
from pumice.v1 import (
    cluster_service_pb2,
    configuration_pb2,
    decision_pb2,
    delta_pb2,
    inspection_service_pb2,
    object_pb2,
    reason_pb2,
    recording_pb2,
    scheduling_service_pb2,
    status_pb2,
)

__all__ = [
    "Comparison",
    "ConfigurationRefusedError",
    "Difference",
    "Excerpt",
    "Left",
    "LocalCore",
    "LocalSession",
    "ObjectsRejectedError",
    "PluginRefusedError",
    "built_in_configuration",
    "check_configuration",
    "compare_recording",
    "cut_before",
    "excerpt",
    "leave_recording",
    "registry_with",
    "schedule_inline",
]


def schedule_inline(
    request: scheduling_service_pb2.ScheduleRequest, now_ns: int
) -> scheduling_service_pb2.ScheduleResponse:
    """The response of Schedule to a request with inline objects, without a server.

    Raises ConfigurationRefusedError and ObjectsRejectedError.
    """
    return run_inline(request, installed_registry(), now_ns)


def compare_recording(
    recording: Recording,
    *,
    scheduler_conf: str | None = None,
    session: int = 0,
    until_ns: int | None = None,
    statuses: bool = True,
    allow_refused: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Comparison:
    """Replays a recording, each session on the recorded state, and returns the differences.

    ``scheduler_conf`` replaces the recorded configurations. ``session`` is the only session to
    compare. Raises RecordingError for a recorded configuration that this installation refuses; with
    ``allow_refused`` such a configuration is skipped.
    """
    return compare(
        recording,
        installed_registry(),
        scheduler_conf=scheduler_conf,
        session=session,
        until_ns=until_ns,
        statuses=statuses,
        allow_refused=allow_refused,
        progress=progress,
    )


def excerpt(recording: Recording, session: int) -> Excerpt:
    """The cluster before a recorded session. Raises RecordingError if the session is missing."""
    return excerpts.cut_session(recording, installed_registry(), session)


def cut_before(
    entries: Iterable[recording_pb2.RecordingEntry], from_ns: int, source: str
) -> Iterator[recording_pb2.RecordingEntry]:
    """A checkpoint, and the entries from the first session at or after a time.

    Raises RecordingError if there is no such session.
    """
    return excerpts.cut_before(entries, installed_registry(), from_ns, source)


def built_in_configuration() -> str:
    """The text of the default configuration."""
    return configuration_text(DEFAULT_CONFIGURATION)


def check_configuration(
    configuration: configuration_pb2.Configuration,
) -> inspection_service_pb2.CheckConfigResponse:
    """Checks a configuration, and describes each line."""
    return check(configuration, installed_registry())


@dataclass(frozen=True, slots=True)
class LocalSession:
    """The results of one session, as messages of the protocol."""

    number: int
    now_ns: int
    decisions: list[decision_pb2.Decision] = field(default_factory=list)
    gangs: list[decision_pb2.Gang] = field(default_factory=list)
    statuses: list[status_pb2.StatusChange] = field(default_factory=list)
    events: list[status_pb2.Event] = field(default_factory=list)
    waits: list[reason_pb2.Wait] = field(default_factory=list)
    faults: list[reason_pb2.PluginFault] = field(default_factory=list)
    # Counts of work done, by name.
    work: dict[str, int] = field(default_factory=dict)


class LocalCore:
    """A core with one cluster. Callers apply objects as messages, and run each session."""

    def __init__(
        self,
        configuration: configuration_pb2.Configuration | None = None,
        registry: Registry | None = None,
    ) -> None:
        """Raises ConfigurationRefusedError for an invalid configuration."""
        self._state = ClusterState(installed_registry() if registry is None else registry)
        self._reader = OpReader()
        self._seq = 0
        self._now_ns = 0
        result = self.configure(configuration or configuration_pb2.Configuration())
        if not result.accepted:
            raise ConfigurationRefusedError(tuple(result.problems))

    @classmethod
    def of(cls, state: ClusterState) -> Self:
        """A core that continues with a state. The caller must not use the state any more."""
        core = cls()
        core._state, core._seq = state, state.applied_seq
        return core

    @property
    def configuration(self) -> configuration_pb2.Configuration:
        """The configuration in use."""
        effective = self._state.effective
        return configuration_pb2.Configuration() if effective is None else effective.message

    def configure(
        self, configuration: configuration_pb2.Configuration
    ) -> cluster_service_pb2.ConfigurationResult:
        """Uses a configuration. An invalid one is refused, and the last valid one stays in use."""
        return self._state.configure(configuration)

    def upsert(self, *objects: object_pb2.ClusterObject) -> list[object_pb2.RejectedObject]:
        """Applies objects; returns the rejected ones."""
        return self._apply(
            [
                delta_pb2.Op(upsert=write_upsert(item, self._seq + number))
                for number, item in enumerate(objects, 1)
            ]
        )

    def delete(self, *refs: object_pb2.ObjectRef) -> None:
        self._apply([delta_pb2.Op(tombstone=ref) for ref in refs])

    def report(self, *outcomes: decision_pb2.Outcome, now_ns: int | None = None) -> None:
        """Applies outcomes of decisions; the default time is that of the last session."""
        if now_ns is not None:
            self._now_ns = now_ns
        self._apply([delta_pb2.Op(outcome=outcome) for outcome in outcomes])

    def bring(self, *data: delta_pb2.PluginData) -> list[object_pb2.RejectedObject]:
        """Applies plugin data: measured usage, or answers of extenders. Returns rejected data."""
        return self._apply([delta_pb2.Op(plugin_data=one) for one in data])

    def apply(self, ops: Sequence[delta_pb2.Op], now_ns: int) -> list[object_pb2.RejectedObject]:
        """Applies ops of any type, in order; returns the rejected objects."""
        self._now_ns = now_ns
        return self._apply(ops)

    def _apply(self, ops: Sequence[delta_pb2.Op]) -> list[object_pb2.RejectedObject]:
        numbered = self._reader.read_ops(self._seq + 1, ops)
        rejected, _ = self._state.apply(numbered, self._now_ns)
        self._seq += len(ops)
        return rejected

    def session(self, now_ns: int) -> LocalSession:
        self._now_ns = now_ns
        return _written(self._state.session(now_ns))

    def waits(self) -> list[reason_pb2.Wait]:
        """The waits of the last session, with the current amounts of queue limits."""
        engine = self._state.engine
        return [write_wait(wait) for wait in with_limits(engine, engine.waits, self._now_ns)]

    @property
    def placement_changes(self) -> int:
        """A counter that grows with every change that may allow a placement."""
        return self._state.engine.cache.placement_changes

    @property
    def gangs_are_complete(self) -> bool:
        """Whether each gang that changed since the last session is complete."""
        return gangs_are_complete(self._state.engine.cache)

    def next_wake(self, now_ns: int) -> int | None:
        """The next time at which a decision may change without any op; None: never."""
        return self._state.engine.next_wake(now_ns)


def _written(result: SessionResult) -> LocalSession:
    gangs, decisions = write_decisions(result.decisions)
    return LocalSession(
        result.session,
        result.now_ns,
        decisions,
        gangs,
        [write_status(change) for change in result.statuses],
        [write_event(event) for event in result.events],
        [write_wait(wait) for wait in result.waits],
        [write_fault(fault) for fault in result.faults],
        dict(result.work),
    )


@dataclass(frozen=True, slots=True)
class Left:
    """A core that departed from a recording, with the first session that decided differently."""

    # Number of sessions that began before this one.
    before: int
    session: LocalSession
    core: LocalCore


def leave_recording(
    entries: Iterable[recording_pb2.RecordingEntry],
    *,
    scheduler_conf: str | None = None,
    at: int | None = None,
    at_faults: bool = False,
    allow_refused: bool = False,
    source: str = "the recording",
) -> Left | None:
    """Replays a recording until a session decides differently; None: no session does.

    ``scheduler_conf`` replaces the recorded configurations. ``at`` is a number of sessions after
    which the replay stops in any case. ``at_faults`` also stops it after a session in which a
    plugin or action raises. Raises RecordingError for a recorded configuration that this
    installation refuses; with ``allow_refused`` such a configuration is skipped.
    """
    found = depart(
        entries,
        installed_registry(),
        scheduler_conf,
        at=at,
        at_faults=at_faults,
        allow_refused=allow_refused,
        source=source,
    )
    if found is None:
        return None
    return Left(found.before, _written(found.result), LocalCore.of(found.state))
