"""Replays a recording in an engine, entry by entry, and returns its sessions.

Every session runs on the recorded state: after a session that decided differently, the recorded
decisions are assumed before the replay continues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pumice.core.cache.assumptions import Assumption
from pumice.core.cache.storage import VolumeReservation
from pumice.core.cache.tasks import Task
from pumice.core.decisions import (
    Bind,
    Decision,
    PodGroupStatusChanged,
    QueueStatusChanged,
    SessionResult,
    given_by,
)
from pumice.core.errors import InputError
from pumice.core.model.group import PodGroup
from pumice.core.model.status import TaskStatus
from pumice.core.registry import Registry
from pumice.recordings import RecordingError
from pumice.server.recording import checkpoints
from pumice.server.state import ClusterState
from pumice.server.stream_follower import StreamFollower
from pumice.server.wire import ObjectReader, read_decision, read_gang
from pumice.server.wire.groups import PHASE_NUMBERS, read_pod_group_status
from pumice.v1 import (
    cluster_service_pb2,
    configuration_pb2,
    decision_pb2,
    delta_pb2,
    recording_pb2,
    status_pb2,
)


class PlaybackError(RecordingError):
    """A recording with an entry that contradicts the earlier entries."""


class ConfigurationLostError(RecordingError):
    """A recorded configuration that this installation refuses, often for a missing plugin."""


@dataclass(slots=True)
class RecordedSession:
    """The recorded decisions and statuses of a session."""

    number: int
    now_ns: int
    decisions: list[decision_pb2.Decision] = field(default_factory=list)
    gangs: dict[str, decision_pb2.Gang] = field(default_factory=dict)
    statuses: list[status_pb2.StatusChange] = field(default_factory=list)
    faults: int = 0


@dataclass(frozen=True, slots=True)
class PlayedSession:
    """The recorded and the replayed result of a session."""

    recorded: RecordedSession
    replayed: SessionResult
    # Whether the effects of the two results differ.
    departs: bool = False


class Playback:
    """One replay of one recording."""

    def __init__(
        self,
        registry: Registry,
        scheduler_conf: str | None = None,
        *,
        adopts: bool = True,
        allow_refused: bool = True,
        source: str = "the recording",
    ) -> None:
        """``scheduler_conf`` replaces the recorded configurations.

        ``adopts``: if a session decides differently, the recorded decisions are assumed. Otherwise
        the new ones stay, and the replay must end there.
        ``allow_refused``: a recorded configuration that this installation refuses is skipped.
        Otherwise it raises ConfigurationLostError.
        """
        self._allow_refused = allow_refused
        self._registry = registry
        self._scheduler_conf = scheduler_conf
        self._adopts, self._source = adopts, source
        self._objects = ObjectReader()
        self._prefix = ""
        self._stream = self._follow(ClusterState(registry))
        # Problems of configurations that were accepted by the recorded core and are refused here.
        self.refused: list[str] = []
        # Number of problems before the last configuration.
        self._kept_refusals = 0
        self._parts: list[recording_pb2.RecordingCheckpoint] = []
        self._running: RecordedSession | None = None

    @property
    def state(self) -> ClusterState:
        """The state after the last entry."""
        return self._stream.state

    def _follow(self, state: ClusterState) -> StreamFollower:
        """A follower of the recorded stream, from a state on."""
        return StreamFollower(state)

    def sessions(self, entries: Iterable[recording_pb2.RecordingEntry]) -> Iterator[PlayedSession]:
        """The sessions, each after it ran. A session without a recorded end is omitted."""
        for entry in entries:
            played = self.play(entry)
            if played is not None:
                yield played

    def play(self, entry: recording_pb2.RecordingEntry) -> PlayedSession | None:
        """Replays an entry; returns the session that the entry ends, if it ends one.

        Raises PlaybackError for an entry that contradicts the earlier entries.
        """
        try:
            return self._play(entry)
        except InputError as error:
            where = f"after session {self.state.engine.session}: {error}"
            raise PlaybackError(self._source, f"cannot be replayed {where}") from error

    def _play(self, entry: recording_pb2.RecordingEntry) -> PlayedSession | None:
        now_ns = entry.entry_time.ToNanoseconds()
        match entry.WhichOneof("entry"):
            case "header":
                self._header(entry.header)
            case "checkpoint":
                self._checkpoint(entry.checkpoint)
            case "connection":
                self._connection(entry.connection)
            case "snapshot_begin":
                begin = entry.snapshot_begin
                self._stream.begin_snapshot(begin.first_seq, begin.kinds)
            case "delta_batch":
                self._batch(entry.delta_batch, now_ns)
            case "snapshot_end":
                if self._stream.end_snapshot(entry.snapshot_end.seq, now_ns):
                    self._note_refusals()
            case "configuration_result" if not entry.configuration_result.accepted:
                # The recorded core refused it, too.
                del self.refused[self._kept_refusals :]
            case "configuration_result" if self.refused[self._kept_refusals :]:
                self._check_refusals()
            case _:
                return self._session_entry(entry)
        return None

    def _check_refusals(self) -> None:
        """Raises ConfigurationLostError, unless refused configurations are allowed."""
        if not self._allow_refused:
            text = next(iter(self.refused[self._kept_refusals :] or self.refused), "")
            whose = "was recorded with" if self._scheduler_conf is None else "is replayed with"
            problem = f"{whose} a configuration that is refused here: {text}"
            raise ConfigurationLostError(self._source, problem)

    def _session_entry(self, entry: recording_pb2.RecordingEntry) -> PlayedSession | None:
        match entry.WhichOneof("entry"):
            case "tick" if entry.tick.skipped:
                self.drop_old_decisions(entry.tick.session_time.ToNanoseconds())
            case "tick":
                self._running = RecordedSession(
                    entry.tick.session, entry.tick.session_time.ToNanoseconds()
                )
            case "decision_batch" if self._running:
                batch = entry.decision_batch
                self._running.decisions += batch.decisions
                self._running.gangs |= {gang.id: gang for gang in batch.gangs}
            case "status_batch" if self._running:
                self._running.statuses += entry.status_batch.changes
            case "session_end" if self._running:
                recorded, self._running = self._running, None
                recorded.faults = len(entry.session_end.faults)
                return self._run(recorded)
            case _:
                pass
        return None

    # Input.

    def _header(self, header: recording_pb2.RecordingHeader) -> None:
        """Handles the start of a core. Incomplete entries of a crashed core are dropped."""
        self._parts, self._running = [], None
        self._stream.disconnect()
        self._prefix = f"{header.core_id}-"

    def _checkpoint(self, part: recording_pb2.RecordingCheckpoint) -> None:
        self._parts.append(part)
        if len(self._parts) < part.part_count:
            return
        parts, self._parts = self._parts, []
        parts[0].configuration.CopyFrom(self._replaced_configuration(parts[0].configuration))
        self._stream = self._follow(ClusterState(self._registry, self._prefix))
        checkpoints.restore(self.state, parts, self._objects)
        self._note_refusals()
        if self.state.refused is not None:
            self._check_refusals()

    def _replaced_configuration(
        self, recorded: configuration_pb2.Configuration
    ) -> configuration_pb2.Configuration:
        if self._scheduler_conf is None:
            return recorded
        other = configuration_pb2.Configuration()
        other.CopyFrom(recorded)
        other.scheduler_conf = self._scheduler_conf
        return other

    def _note_refusals(self) -> None:
        self._kept_refusals = len(self.refused)
        if self.state.refused is not None:
            for problem in self.state.refused_problems:
                if problem.warning:
                    continue
                text = f"line {problem.line}: {problem.path}: {problem.problem}"
                if text not in self.refused:
                    self.refused.append(text)

    def _connection(self, connection: recording_pb2.RecordingConnection) -> None:
        self._stream.disconnect()
        if connection.HasField("hello"):
            self.state.set_capabilities(connection.hello.capabilities)
            mode = connection.welcome.mode
            if mode == cluster_service_pb2.WELCOME_MODE_RESUME:
                self._stream.resume(connection.hello.held_decision_ids)

    def _batch(self, batch: delta_pb2.DeltaBatch, now_ns: int) -> None:
        if self._scheduler_conf is not None:
            for op in batch.ops:
                if op.HasField("configuration"):
                    op.configuration.CopyFrom(self._replaced_configuration(op.configuration))
        if self._stream.apply_batch(batch, now_ns):
            self._note_refusals()

    def drop_old_decisions(self, now_ns: int) -> None:
        """Drops lost and expired decisions, as a core does before every session."""
        self._stream.drop_old_decisions(now_ns)

    # Sessions.

    def _run(self, recorded: RecordedSession) -> PlayedSession:
        self.drop_old_decisions(recorded.now_ns)
        engine = self.state.engine
        # The number may jump where the recorded core dropped its state after an error.
        engine.session = recorded.number - 1
        groups, queues = engine.cache.groups.by_key(), engine.cache.queues.by_key()
        result = self.state.session(recorded.now_ns)
        departs = _effects(recorded, groups) != _effects_of(result, groups)
        if departs and not self._adopts:
            return PlayedSession(recorded, result, departs)
        if departs or [d.id for d in result.decisions] != [d.id for d in recorded.decisions]:
            for change in result.statuses:
                match change:
                    case PodGroupStatusChanged():
                        key = f"{change.namespace}/{change.name}"
                        engine.cache.assume_status(engine.cache.jobs[key], groups[key].status)
                    case QueueStatusChanged():
                        engine.cache.assume_queue(change.name, queues[change.name].allocated)
            self._adopt(recorded, result)
        return PlayedSession(recorded, result, departs)

    def _adopt(self, recorded: RecordedSession, result: SessionResult) -> None:
        """Undoes the decisions of the replay, and assumes the recorded ones."""
        cache = self.state.engine.cache
        for decision in result.decisions:
            assumed = cache.assumptions.get(decision.id)
            task = cache.tasks.get(decision.uid)
            if assumed is not None:
                cache.assumptions.close(assumed)
                if task is not None:
                    cache.pod_updates.restore(task)
        gangs = {id_: read_gang(gang) for id_, gang in recorded.gangs.items()}
        for message in recorded.decisions:
            order = read_decision(message, gangs)
            if order is not None and order.uid in cache.tasks:
                self._assume(order, cache.tasks[order.uid], recorded.now_ns)
        for change in recorded.statuses:
            if change.HasField("pod_group"):
                job = cache.jobs.get(f"{change.pod_group.namespace}/{change.pod_group.name}")
                if job is not None:
                    cache.assume_status(job, read_pod_group_status(change.pod_group.status))
            elif change.HasField("queue"):
                amounts = tuple(sorted(change.queue.allocated.items()))
                cache.assume_queue(change.queue.name, amounts)

    def _assume(self, decision: Decision, task: Task, now_ns: int) -> None:
        cache = self.state.engine.cache
        status = TaskStatus.BINDING if isinstance(decision, Bind) else TaskStatus.RELEASING
        assumed = Assumption(decision.id, decision.uid, task.job_id, status, decision.node, now_ns)
        if isinstance(decision, Bind):
            assumed.annotations = decision.annotations
        cache.pod_updates.assume(assumed)
        self._reserve_volumes(decision)
        self._reserve_devices(decision)

    def _reserve_devices(self, decision: Decision) -> None:
        if isinstance(decision, Bind) and decision.claims:
            reservations = self.state.engine.cache.devices.reservations
            reservations.reserve(decision.uid, given_by(decision))
            reservations.close({decision.uid})

    def _reserve_volumes(self, decision: Decision) -> None:
        if not isinstance(decision, Bind) or not decision.volumes:
            return
        cache, namespace = self.state.engine.cache, decision.namespace
        given: dict[str, VolumeReservation] = {}
        for choice in decision.volumes:
            key = f"{namespace}/{choice.claim}"
            claim = cache.storage.claims.get(key)
            if not choice.volume_name:
                given[key] = VolumeReservation(key, node=decision.node)
            elif claim is not None:
                name = choice.volume_name
                given[name] = VolumeReservation(key, claim.uid, name)
        cache.storage.reservations.reserve(decision.uid, given)
        cache.storage.reservations.close({decision.uid})


# Placements of pods and admissions of jobs. Nothing else affects later sessions.
_Effects = tuple[set[tuple[str, str, bool]], dict[str, int]]


def _effects(recorded: RecordedSession, before: dict[str, PodGroup]) -> _Effects:
    orders = {
        (d.bind.uid, d.bind.node, True)
        if d.HasField("bind")
        else (d.evict.uid, d.evict.node, False)
        for d in recorded.decisions
    }
    groups = (change.pod_group for change in recorded.statuses if change.HasField("pod_group"))
    phases = {f"{group.namespace}/{group.name}": int(group.status.phase) for group in groups}
    return orders, _changed(phases, before)


def _effects_of(result: SessionResult, before: dict[str, PodGroup]) -> _Effects:
    phases = {
        f"{change.namespace}/{change.name}": int(PHASE_NUMBERS[change.status.phase])
        for change in result.statuses
        if isinstance(change, PodGroupStatusChanged)
    }
    orders = {(d.uid, d.node, isinstance(d, Bind)) for d in result.decisions}
    return orders, _changed(phases, before)


def _changed(phases: dict[str, int], before: dict[str, PodGroup]) -> dict[str, int]:
    return {
        key: phase
        for key, phase in phases.items()
        if key not in before or phase != PHASE_NUMBERS[before[key].status.phase]
    }
