"""A cluster that is being served: what its owner does with what the stream brings.

Everything here runs on the owner's thread, one call at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pumice.core.decisions import Event, SessionResult
from pumice.server.board import Board
from pumice.server.drift import Drift
from pumice.server.echoes import Unechoed
from pumice.server.limits import HIGHEST_PROTOCOL
from pumice.server.ops import NumberedOp, OpReader
from pumice.server.pacing import Pacer
from pumice.server.pause import Pause, PauseReason
from pumice.server.records import SessionRecord, record
from pumice.server.reporting import ClusterReporter
from pumice.server.state import ClusterState
from pumice.server.stream import AdapterStream
from pumice.server.surroundings import Surroundings
from pumice.server.tap import NoTap, Tap
from pumice.server.versions import own_version
from pumice.server.wire import READ_KINDS, decision_batches, kind_word, status_batches
from pumice.v1 import cluster_service_pb2, delta_pb2, object_pb2

_POD = object_pb2.KIND_POD
_Response = cluster_service_pb2.ConnectResponse
# In one Ack.
_MOST_WARNINGS = 100
_NO_ADAPTER = (PauseReason.NO_ADAPTER, "no adapter is connected: nothing is scheduled")


@dataclass(slots=True)
class _Snapshot:
    """One that has begun and not ended."""

    kinds: frozenset[int]
    # Of some kinds: kept until the end, so that a cut leaves nothing half done.
    ops: list[NumberedOp] = field(default_factory=list)


class ServedCluster:
    """State, stream and pace of one cluster."""

    def __init__(self, name: str, around: Surroundings) -> None:
        self.name = name
        self._around = around
        self._prefix = f"{around.core_id}-"
        self.state = ClusterState(around.registry, self._prefix)
        self.complete = False
        # Since when the configuration is in use, and its hash.
        self.configured_ns = 0
        self._configured_hash = ""
        self._reader = OpReader()
        self._identity = ("", 0)
        self._stream: AdapterStream | None = None
        self._snapshot: _Snapshot | None = None
        self._snapshot_due_ns: int | None = None
        # Decisions that an adapter which came back still holds; others are lost.
        self._held: frozenset[str] | None = None
        self._unechoed = Unechoed()
        self._answers: list[cluster_service_pb2.ConfigurationResult] = []
        # When what is held of a cluster that nobody streams is given up.
        self._give_up_due_ns: int | None = None
        self._drift = Drift(around.limits.snapshot_timeout_ns)
        self._pacer = Pacer()
        self._had_snapshot = False
        self.tap: Tap = NoTap()
        self.board = Board()
        self.reporter = ClusterReporter(name, around.metrics)
        # None: the cluster is scheduled. Read on the loop, replaced whole.
        self.pause: Pause | None = Pause(*_NO_ADAPTER, around.clock.now_ns())

    # The stream comes and goes.

    def attach(self, stream: AdapterStream) -> int | None:
        """Welcomes a stream; returns the op to resume after, None when a snapshot is needed."""
        hello = stream.hello
        resume = self._can_resume(hello)
        self._stream, self._snapshot, self._give_up_due_ns = stream, None, None
        self._drift.reconnected()
        self.state.engine.look_again()
        self._identity = (hello.incarnation, hello.epoch)
        ticks = self._around.clock.ticks_ns()
        self._snapshot_due_ns = None if resume else ticks + self._around.limits.snapshot_timeout_ns
        if resume:
            self._held = frozenset(hello.held_decision_ids)
            # Ops that were on their way come first.
            self._pacer.ran(ticks)
        else:
            self.complete = False
        self.state.set_capabilities(hello.capabilities)
        modes = cluster_service_pb2.WelcomeMode
        welcome = cluster_service_pb2.Welcome(
            core_id=self._around.core_id,
            protocol=min(HIGHEST_PROTOCOL, hello.max_protocol),
            mode=modes.WELCOME_MODE_RESUME if resume else modes.WELCOME_MODE_SNAPSHOT,
            resume_after_seq=self.state.applied_seq if resume else 0,
            limits=self._around.limits.write(),
            effective_config_hash=self.state.config_hash,
            core_version=own_version(),
            kinds=map(object_pb2.Kind.ValueType, sorted(READ_KINDS)),
        )
        stream.send(_Response(welcome=welcome))
        self.tap.connected(hello, welcome, self._around.clock.now_ns())
        if not resume:
            return None
        again = SessionResult(self.state.engine.session, 0, statuses=self._unechoed.all())
        self._send(*self._statuses(again))
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
            self.tap.connected(stream.hello, None, self._around.clock.now_ns())
            self._stream = None
            self._snapshot = None
            self._snapshot_due_ns = None
            limit_ns = self._around.limits.keep_state_ns
            self._give_up_due_ns = self._around.clock.ticks_ns() + limit_ns

    def reset(self) -> AdapterStream | None:
        """Drops all but the configuration; returns the stream, which has to be ended."""
        old, stream = self.state, self._stream
        self.state = ClusterState(self._around.registry, self._prefix)
        self.state.inherit(old)
        self.complete = False
        self.board.clear()
        if stream is not None:
            self.detach(stream)
        return stream

    def show(self) -> None:
        """Answers those who wait for a look at the board."""
        self.board.renew(self.state if self.complete else None)

    # What it brings.

    def take(self, stream: AdapterStream, batch: delta_pb2.DeltaBatch, last_seq: int) -> None:
        """A batch of which all is new, whole; sessions run before or after it.

        Objects are read here, not on the loop: it has to answer others meanwhile.
        """
        if stream is not self._stream:
            return
        ops = self._reader.batch(batch)
        now_ns = self._around.clock.now_ns()
        rejected: list[object_pb2.RejectedObject] = []
        if self._snapshot is not None and self._snapshot.kinds:
            self._snapshot.ops += ops
        elif ops:
            rejected = self._apply(ops, now_ns)
        self.tap.took(batch, rejected, now_ns)
        self._tell_answers(now_ns)
        warnings = [warning for op in ops for warning in op.warnings]
        self.reporter.warned(warnings)
        self._acknowledge(last_seq, rejected, warnings)

    def _apply(self, ops: list[NumberedOp], now_ns: int) -> list[object_pb2.RejectedObject]:
        cache = self.state.engine.cache
        before = cache.stirred
        self._unechoed.seen((one.kind, one.uid) for op in ops for one in op.each())
        rejected, results = self.state.apply(ops, now_ns)
        for result in results:
            self._configured(result)
        if self.state.engine.cache is not cache or cache.stirred != before:
            self._pacer.stirred(self._around.clock.ticks_ns())
        count = sum(op.last_seq - op.seq + 1 for op in ops)
        self.reporter.applied(count, rejected, len(self.state.quarantined))
        return rejected

    def _configured(self, result: cluster_service_pb2.ConfigurationResult) -> None:
        self.reporter.configured(result)
        if result.accepted and self._configured_hash != result.effective_config_hash:
            self._configured_hash = result.effective_config_hash
            self.configured_ns = self._around.clock.now_ns()
            self.reporter.changed_configuration(self.configured_ns)
        self._send(_Response(configuration_result=result))
        self._answers.append(result)

    def _tell_answers(self, now_ns: int) -> None:
        """To those who listen, after what was answered."""
        answers, self._answers = self._answers, []
        for result in answers:
            self.tap.configured(result, now_ns)

    def _acknowledge(
        self,
        seq: int,
        rejected: list[object_pb2.RejectedObject],
        warnings: Sequence[object_pb2.ObjectWarning] = (),
    ) -> None:
        credit, warnings = self._around.limits.credit, warnings[:_MOST_WARNINGS]
        ack = cluster_service_pb2.Ack(
            applied_seq=seq, rejected=rejected, credit=credit, warnings=warnings
        )
        self._send(_Response(ack=ack))

    def _send(self, *responses: _Response) -> None:
        if self._stream is not None:
            self._stream.send(*responses)

    # Snapshots and digests.

    def begin(self, stream: AdapterStream, first_seq: int, kinds: list[int]) -> None:
        if stream is not self._stream:
            return
        ticks = self._around.clock.ticks_ns()
        self._snapshot = _Snapshot(frozenset(kinds))
        self._snapshot_due_ns = ticks + self._around.limits.snapshot_timeout_ns
        self.tap.began(first_seq, kinds, self._around.clock.now_ns())
        if not kinds:
            # Two clusters' worth of memory at once would be too much: the old one goes first.
            self.state = self.state.successor(first_seq)
            self.complete = False
            self._held = None
            self._unechoed = Unechoed()

    def end(self, stream: AdapterStream, seq: int, digests: list[delta_pb2.KindDigest]) -> None:
        if stream is not self._stream or self._snapshot is None:
            return
        snapshot, self._snapshot, self._snapshot_due_ns = self._snapshot, None, None
        now_ns = self._around.clock.now_ns()
        rejected: list[object_pb2.RejectedObject] = []
        if snapshot.kinds:
            ops = self.state.resynced(snapshot.kinds, snapshot.ops, now_ns)
            rejected = self._apply(ops, now_ns)
        self.tap.ended(seq, rejected, now_ns)
        self._tell_answers(now_ns)
        self.state.applied_seq = max(self.state.applied_seq, seq)
        differing = self.state.sums.differing(digests, snapshot.kinds)
        ask = self._drift.snapshot_ended(snapshot.kinds, differing, self._around.clock.ticks_ns())
        self._told_drift(differing, ask, f"after a snapshot at op {seq}")
        self._acknowledge(seq, rejected)
        if not snapshot.kinds:
            self.reporter.completed_snapshot()
            self._around.garbage.after_snapshot(replaced=self._had_snapshot)
            self._had_snapshot = True
            self.complete = True
            self.state.engine.look_again()
            self._pacer.restart()

    def compare(self, stream: AdapterStream, seq: int, digests: list[delta_pb2.KindDigest]) -> None:
        if stream is not self._stream or not self.complete or self._snapshot is not None:
            return
        if seq == self.state.applied_seq:
            differing = self.state.sums.differing(digests)
            ask = self._drift.compared(differing, self._around.clock.ticks_ns())
            self._told_drift(ask, ask, f"at op {seq}")

    def _told_drift(self, differing: list[int], ask: list[int], where: str) -> None:
        self.reporter.compared(differing, where, alarm=self._drift.alarm)
        if ask:
            kinds = [object_pb2.Kind.ValueType(kind) for kind in ask]
            resync = cluster_service_pb2.Resync(kinds=kinds, reason=f"digests differ {where}")
            self._send(_Response(resync=resync))

    # Why nothing is scheduled.

    def update_pause(self) -> bool:
        """Notes whether the cluster is scheduled; true where that changed."""
        reason, message, kinds = self._pause_reason()
        old = self.pause
        if (reason, kinds) == ((None, ()) if old is None else (old.reason, old.kinds)):
            return False
        now_ns = self._around.clock.now_ns()
        self.pause = None if reason is None else Pause(reason, message, now_ns, kinds)
        self._send_events(self.reporter.paused(old, self.pause, self.state.engine))
        return True

    def _pause_reason(self) -> tuple[PauseReason | None, str, tuple[int, ...]]:
        if self._stream is None:
            return *_NO_ADAPTER, ()
        if not self.complete:
            message = "the snapshot is not complete: nothing is scheduled yet"
            return PauseReason.SNAPSHOT_INCOMPLETE, message, ()
        if self.state.effective is None:
            message = "no valid configuration: nothing is scheduled"
            return PauseReason.NO_CONFIGURATION, message, ()
        if self._drift.paused:
            kinds = tuple(self._drift.paused_kinds)
            words = ", ".join(kind_word(kind) for kind in kinds)
            message = f"adapter and core hold different objects ({words}): nothing is scheduled"
            return PauseReason.DRIFT, message, kinds
        return None, "", ()

    def _send_events(self, events: tuple[Event, ...]) -> None:
        if events:
            result = SessionResult(self.state.engine.session, 0, events=events)
            self._send(*self._statuses(result))

    # Sessions.

    def next_due_ns(self) -> int | None:
        """When the owner has to look again, in ticks; None: not before something comes."""
        if self._snapshot_due_ns is not None:
            return self._snapshot_due_ns
        if self._stream is None:
            return self._give_up_due_ns
        effective = self.state.effective
        if not self._may_decide() or effective is None:
            return None
        return self._pacer.due_ns(effective.period_ns, eager=effective.eager)

    @property
    def is_settled(self) -> bool:
        """Whole, and with nothing half done that is not in the state."""
        return self.complete and self._snapshot is None and self._held is None

    def _may_decide(self) -> bool:
        return (
            self._stream is not None
            and self.complete
            and self._snapshot is None
            and not self._drift.paused
        )

    def wake(self) -> SessionRecord | None:
        """The time has come for whatever is due; returns the session, if one ran."""
        clock = self._around.clock
        if self._snapshot_due_ns is not None and self._stream is not None:
            reason = cluster_service_pb2.GO_AWAY_REASON_TOO_SLOW
            self._stream.end(reason, "the snapshot took too long")
            self.detach(self._stream)
            return None
        if self._stream is None:
            self._give_up_due_ns = None
            self.reset()
            return None
        now_ns, ticks_ns = clock.now_ns(), clock.ticks_ns()
        freed = [self._forget_lost(now_ns), self._expire(now_ns)]
        if self.state.engine.can_skip(now_ns):
            if any(freed):
                self.tap.skipped(now_ns)
            self.reporter.skipped_session(now_ns)
            self._pacer.ran(ticks_ns)
            return None
        self._pacer.ran(ticks_ns)
        self.board.begins(self.state)
        result = self.state.session(now_ns)
        self.board.ended()
        return self._told_session(result, clock.ticks_ns() - ticks_ns)

    def _forget_lost(self, now_ns: int) -> bool:
        """Whether an adapter that came back was heard of what it lost."""
        if self._held is None:
            return False
        lost = self.state.engine.forget_lost(self._held, now_ns)
        self._held = None
        self.reporter.lost_decisions(lost)
        return True

    def _expire(self, now_ns: int) -> bool:
        uids = self.state.expire(now_ns)
        if uids:
            self.reporter.expired_decisions(len(uids))
            resync = cluster_service_pb2.Resync(
                objects=[_ref(_POD, uid) for uid in uids],
                reason="decided on, and no outcome came in time",
            )
            self._send(_Response(resync=resync))
        return bool(uids)

    def _statuses(self, result: SessionResult) -> list[_Response]:
        epoch, size = self._identity[1], self._around.limits.batch_bytes
        batches = status_batches(result, epoch=epoch, batch_bytes=size)
        return [_Response(status_batch=batch) for batch in batches]

    def _told_session(self, result: SessionResult, duration_ns: int) -> SessionRecord:
        epoch, seq = self._identity[1], self.state.applied_seq
        size = self._around.limits.batch_bytes
        batches = decision_batches(result, epoch=epoch, based_on_seq=seq, batch_bytes=size)
        responses = [_Response(decision_batch=batch) for batch in batches]
        responses += self._statuses(result)
        self._send(*responses)
        self.tap.ran(self.state, result, responses, duration_ns)
        self._unechoed.told(result.statuses)
        made = record(
            result,
            duration_ns=duration_ns,
            based_on_seq=seq,
            config_hash=self.state.config_hash,
        )
        self._send_events(self.reporter.ran_session(result, duration_ns, self.state.engine))
        self._around.garbage.after_session()
        return made


def _ref(kind: int, uid: str) -> object_pb2.ObjectRef:
    return object_pb2.ObjectRef(kind=object_pb2.Kind.ValueType(kind), uid=uid)
