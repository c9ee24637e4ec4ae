"""A cluster that a core serves: its stream, its state and its sessions.

Everything here runs on the owner's thread, one call at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pumice.core.decisions import Event, SessionResult, StatusChange
from pumice.server.cluster_view import ViewPublisher
from pumice.server.core_environment import CoreEnvironment
from pumice.server.drift import Drift
from pumice.server.estimating.learning import learn_ends
from pumice.server.estimating.run_times import RunTimes
from pumice.server.observers import Observers
from pumice.server.ops import NumberedOp, OpReader
from pumice.server.pause import Pause, is_same, required_pause
from pumice.server.records import SessionRecord, record
from pumice.server.reporting import ClusterReporter
from pumice.server.responses import UnconfirmedStatuses, write_ack, write_result, write_welcome
from pumice.server.session_timer import SessionTimer, gangs_are_complete
from pumice.server.state import NO_LARGE_OPS, ClusterState
from pumice.server.stream import AdapterStream
from pumice.server.wire import status_batches
from pumice.v1 import cluster_service_pb2, delta_pb2, object_pb2

_POD = object_pb2.KIND_POD
_Response = cluster_service_pb2.ConnectResponse
_Digests = list[delta_pb2.KindDigest]


@dataclass(slots=True)
class _Snapshot:
    """A snapshot of which the end marker has not arrived."""

    kinds: frozenset[int]
    # Ops of a snapshot of some kinds, which are applied at its end.
    ops: list[NumberedOp] = field(default_factory=list)
    large: dict[int, int] = field(default_factory=dict)


class ServedCluster:
    """One cluster: applies the messages of its stream, and runs its sessions."""

    def __init__(self, name: str, env: CoreEnvironment) -> None:
        self.name = name
        self._env = env
        self.state = ClusterState(env.registry, f"{env.core_id}-", env.clock.ticks_ns)
        self.complete = False
        self._reader = OpReader()
        self._identity = ("", 0)
        self._stream: AdapterStream | None = None
        self._snapshot: _Snapshot | None = None
        self._snapshot_due_ns: int | None = None
        # Decisions that the adapter still holds after a reconnect; all others are lost.
        self._held_decisions: frozenset[str] | None = None
        self._unconfirmed = UnconfirmedStatuses()
        self._configuration_results: list[cluster_service_pb2.ConfigurationResult] = []
        # The time at which a cluster without a stream is dropped.
        forget_ns = env.limits.forget_incomplete_ns
        self._drop_due_ns: int | None = env.clock.ticks_ns() + forget_ns
        self.is_abandoned = False
        # The limit that the cluster exceeded; empty: none.
        self._exceeded = ""
        self._drift = Drift(env.limits.snapshot_timeout_ns)
        self._timer = SessionTimer()
        self._had_snapshot = False
        self.observers, self.run_times = Observers(), RunTimes(env.run_times)
        self.views = ViewPublisher()
        self.reporter = ClusterReporter(name, env.metrics)
        # None: the cluster is scheduled. The loop reads it, so it is replaced and never changed.
        self.pause: Pause | None = required_pause(now_ns=env.clock.now_ns())

    # Streams.

    def attach(self, stream: AdapterStream) -> int | None:
        """Sends Welcome; returns the op to resume after. None: a snapshot is needed."""
        hello = stream.hello
        resume = self._can_resume(hello)
        self._stream, self._snapshot, self._drop_due_ns = stream, None, None
        self.is_abandoned = False
        self._drift.reconnected()
        self.state.engine.require_session()
        self._identity = (hello.incarnation, hello.epoch)
        ticks = self._env.clock.ticks_ns()
        self._snapshot_due_ns = None if resume else ticks + self._env.limits.snapshot_timeout_ns
        if resume:
            self._held_decisions = frozenset(hello.held_decision_ids)
            # Ops that are being sent are applied before the next session.
            self._timer.ran(ticks)
        else:
            self.complete = False
        self.state.set_capabilities(hello.capabilities)
        welcome = write_welcome(hello, self.state, self._env, resume=resume)
        stream.send(_Response(welcome=welcome))
        self.observers.on_connection(hello, welcome, self._env.clock.now_ns())
        if not resume:
            return None
        self._send_statuses(statuses=self._unconfirmed.all())
        return self.state.applied_seq

    def _can_resume(self, hello: cluster_service_pb2.Hello) -> bool:
        applied = self.state.applied_seq
        if not self.complete or self._identity != (hello.incarnation, hello.epoch):
            return False
        if hello.last_acknowledged_seq != applied:
            return hello.last_acknowledged_seq < applied
        return not self.state.sums.differing(hello.digests)

    def detach(self, stream: AdapterStream) -> None:
        if self._stream is stream:
            self.observers.on_connection(stream.hello, None, self._env.clock.now_ns())
            self._stream = None
            self._snapshot = None
            self._snapshot_due_ns = None
            limits = self._env.limits
            keep_ns = limits.keep_state_ns if self.complete else limits.forget_incomplete_ns
            self._drop_due_ns = self._env.clock.ticks_ns() + keep_ns
            if not self.complete:
                # An incomplete snapshot cannot be resumed.
                self._drop_state()

    def reset(self) -> AdapterStream | None:
        """Drops all but the configuration; returns the stream, which the caller must end."""
        stream = self._stream
        self._drop_state()
        if stream is not None:
            self.detach(stream)
        return stream

    def _drop_state(self) -> None:
        self.state = self.state.successor(1)
        self.complete = False
        self.views.clear()

    def publish_view(self) -> None:
        """Publishes a view to waiting readers."""
        self.views.publish(self.state if self.complete else None)

    # Batches.

    def apply_batch(
        self,
        stream: AdapterStream,
        batch: delta_pb2.DeltaBatch,
        last_seq: int,
        large: Mapping[int, int] = NO_LARGE_OPS,
    ) -> None:
        """Applies a batch without duplicate ops.

        Objects are read here and not on the loop, which must stay responsive.
        """
        if stream is not self._stream:
            return
        ops = self._reader.read_batch(batch)
        now_ns = self._env.clock.now_ns()
        rejected: list[object_pb2.RejectedObject] = []
        snapshot = self._snapshot
        if snapshot is not None and snapshot.kinds:
            snapshot.ops += ops
            snapshot.large.update(large)
            size = (len(snapshot.ops), sum(snapshot.large.values()))
        else:
            rejected = self._apply(ops, now_ns, large) if ops else []
            size = (self.state.sums.total(), self.state.large_objects.bytes)
        if self._is_too_large(*size):
            return
        self.observers.on_batch(batch, rejected, now_ns)
        self._observe_configurations(now_ns)
        warnings = [warning for op in ops for warning in op.warnings]
        self.reporter.warned(warnings)
        self._acknowledge(last_seq, rejected, warnings)

    def _is_too_large(self, objects: int, large_bytes: int) -> bool:
        """Checks the size of the cluster. Above a limit, ends the stream and drops the state."""
        error = self._env.limits.why_too_large(objects, large_bytes)
        if error is None:
            return False
        self._exceeded = f"{error}: nothing is scheduled"
        stream = self.reset()
        if stream is not None:
            stream.fail(error)
        return True

    def _apply(
        self, ops: list[NumberedOp], now_ns: int, large: Mapping[int, int]
    ) -> list[object_pb2.RejectedObject]:
        cache = self.state.engine.cache
        before = cache.placement_changes
        learn_ends(self.run_times, cache, ops, now_ns)
        self._unconfirmed.confirmed((one.kind, one.uid) for op in ops for one in op.each())
        rejected, results = self.state.apply(ops, now_ns, large)
        for result in results:
            self._configured(result)
        now = self.state.engine.cache
        if now is not cache or cache.placement_changes != before:
            self._timer.changed(self._env.clock.ticks_ns(), complete=gangs_are_complete(now))
        count = sum(op.last_seq - op.seq + 1 for op in ops)
        self.reporter.applied(count, rejected, len(self.state.quarantined))
        return rejected

    def _configured(self, result: cluster_service_pb2.ConfigurationResult) -> None:
        effective = self.state.effective
        source = "" if effective is None else effective.message.source
        self.reporter.configured(result, source, self._env.clock.now_ns())
        self._send(_Response(configuration_result=result))
        self._configuration_results.append(result)

    def _observe_configurations(self, now_ns: int) -> None:
        """Passes the results of configurations to the observers."""
        results, self._configuration_results = self._configuration_results, []
        for result in results:
            self.observers.on_configuration(result, now_ns)

    def _acknowledge(
        self,
        seq: int,
        rejected: list[object_pb2.RejectedObject],
        warnings: Sequence[object_pb2.ObjectWarning] = (),
    ) -> None:
        ack = write_ack(seq, rejected, warnings, self._env.limits.credit)
        self._send(_Response(ack=ack))

    def _send(self, *responses: _Response) -> None:
        if self._stream is not None:
            self._stream.send(*responses)

    # Snapshots and digests.

    def begin_snapshot(self, stream: AdapterStream, first_seq: int, kinds: list[int]) -> None:
        if stream is not self._stream:
            return
        ticks = self._env.clock.ticks_ns()
        self._snapshot = _Snapshot(frozenset(kinds))
        self._snapshot_due_ns = ticks + self._env.limits.snapshot_timeout_ns
        self.observers.on_snapshot_begin(first_seq, kinds, self._env.clock.now_ns())
        if not kinds:
            # The old state is dropped first, because two states would need twice the memory.
            self.state = self.state.successor(first_seq)
            self.complete = False
            self._held_decisions = None
            self._unconfirmed = UnconfirmedStatuses()

    def end_snapshot(self, stream: AdapterStream, seq: int, digests: _Digests) -> None:
        if stream is not self._stream or self._snapshot is None:
            return
        snapshot, self._snapshot, self._snapshot_due_ns = self._snapshot, None, None
        now_ns = self._env.clock.now_ns()
        rejected: list[object_pb2.RejectedObject] = []
        if snapshot.kinds:
            ops = self.state.resynced(snapshot.kinds, snapshot.ops, now_ns)
            rejected = self._apply(ops, now_ns, snapshot.large)
        self.observers.on_snapshot_end(seq, rejected, now_ns)
        self._observe_configurations(now_ns)
        self.state.applied_seq = max(self.state.applied_seq, seq)
        differing = self.state.sums.differing(digests, snapshot.kinds)
        to_resync = self._drift.snapshot_ended(
            snapshot.kinds, differing, self._env.clock.ticks_ns()
        )
        self._report_drift(differing, to_resync, f"after a snapshot at op {seq}")
        self._acknowledge(seq, rejected)
        if not snapshot.kinds:
            self.reporter.completed_snapshot()
            self._env.garbage.after_snapshot(replaced=self._had_snapshot)
            self._had_snapshot = True
            self.complete = True
            self._exceeded = ""
            self.state.engine.require_session()
            self._timer.restart()

    def compare_digests(self, stream: AdapterStream, seq: int, digests: _Digests) -> None:
        if stream is not self._stream or not self.complete or self._snapshot is not None:
            return
        if seq == self.state.applied_seq:
            differing = self.state.sums.differing(digests)
            to_resync = self._drift.compared(differing, self._env.clock.ticks_ns())
            self._report_drift(to_resync, to_resync, f"at op {seq}")

    def _report_drift(self, differing: list[int], to_resync: list[int], where: str) -> None:
        self.reporter.compared(differing, where, alarm=self._drift.alarm)
        if to_resync:
            kinds, reason = map(object_pb2.Kind.ValueType, to_resync), f"digests differ {where}"
            resync = cluster_service_pb2.Resync(kinds=kinds, reason=reason)
            self._send(_Response(resync=resync))

    # Pauses.

    def update_pause(self) -> bool:
        """Updates the pause; returns whether it changed."""
        old = self.pause
        new = required_pause(
            exceeded=self._exceeded,
            connected=self._stream is not None,
            complete=self.complete,
            configured=self.state.effective is not None,
            drifting=self._drift.paused_kinds,
            now_ns=self._env.clock.now_ns(),
        )
        if is_same(old, new):
            return False
        self.pause = new
        self._send_statuses(events=self.reporter.paused(old, new, self.state.engine))
        return True

    # Sessions.

    def next_due_ns(self) -> int | None:
        """The ticks at which the owner must call run_due(); None: not before another call."""
        if self._snapshot_due_ns is not None:
            return self._snapshot_due_ns
        if self._stream is None:
            return self._drop_due_ns
        effective = self.state.effective
        if not self._may_decide() or effective is None:
            return None
        return self._timer.due_ns(effective.period_ns, eager=effective.eager)

    @property
    def is_settled(self) -> bool:
        """Whether the state is complete, and no snapshot and no lost decision is pending."""
        return self.complete and self._snapshot is None and self._held_decisions is None

    def _may_decide(self) -> bool:
        ready = self._stream is not None and self.complete and self._snapshot is None
        return ready and not self._drift.paused

    def run_due(self) -> SessionRecord | None:
        """Does what is due: a timeout or a session. Returns the session if one ran."""
        clock = self._env.clock
        if self._snapshot_due_ns is not None and self._stream is not None:
            reason = cluster_service_pb2.GO_AWAY_REASON_TOO_SLOW
            self._stream.end(reason, "the snapshot took too long")
            self.detach(self._stream)
            return None
        if self._stream is None:
            self._drop_due_ns = None
            self.reset()
            self.is_abandoned = True
            return None
        now_ns, ticks_ns = clock.now_ns(), clock.ticks_ns()
        freed = [self._drop_lost(now_ns), self._expire(now_ns)]
        self._timer.ran(ticks_ns)
        if self.state.engine.can_skip(now_ns):
            if any(freed):
                self.observers.on_skipped_session(now_ns)
            self.reporter.skipped_session(now_ns)
            return None
        self.views.session_begins(self.state)
        result = self.state.session(now_ns)
        self.views.session_ended()
        return self._send_result(result, self._timer.ended(clock.ticks_ns()))

    def _drop_lost(self, now_ns: int) -> bool:
        """Drops decisions that were lost with a stream; returns whether there was a reconnect."""
        if self._held_decisions is None:
            return False
        lost = self.state.engine.forget_lost(self._held_decisions, now_ns)
        self._held_decisions = None
        self.reporter.lost_decisions(lost)
        return True

    def _expire(self, now_ns: int) -> bool:
        uids = self.state.expire(now_ns)
        if uids:
            self.reporter.expired_decisions(len(uids))
            resync = cluster_service_pb2.Resync(
                objects=[object_pb2.ObjectRef(kind=_POD, uid=uid) for uid in uids],
                reason="a decision expired without an outcome",
            )
            self._send(_Response(resync=resync))
        return bool(uids)

    def _send_statuses(
        self, statuses: tuple[StatusChange, ...] = (), events: tuple[Event, ...] = ()
    ) -> None:
        """Sends statuses and events that are not the result of a session."""
        result = SessionResult(self.state.engine.session, 0, statuses=statuses, events=events)
        epoch, size = self._identity[1], self._env.limits.batch_bytes
        batches = status_batches(result, epoch=epoch, batch_bytes=size)
        self._send(*(_Response(status_batch=batch) for batch in batches))

    def _send_result(self, result: SessionResult, duration_ns: int) -> SessionRecord:
        seq, size = self.state.applied_seq, self._env.limits.batch_bytes
        responses = write_result(result, self.state, epoch=self._identity[1], batch_bytes=size)
        self._send(*responses)
        self.observers.on_session(self.state, result, responses, duration_ns)
        self._unconfirmed.sent(result.statuses)
        made = record(
            result,
            duration_ns=duration_ns,
            based_on_seq=seq,
            config_hash=self.state.config_hash,
        )
        events = self.reporter.ran_session(result, duration_ns, self.state.engine)
        self._send_statuses(events=events)
        self._env.garbage.after_session()
        return made
