"""Dispatches the messages of the core to the parts of the runtime."""

import logging
from collections.abc import Callable, Iterable

from pumice.adapters.runtime.apply import ApplyPool
from pumice.adapters.runtime.buffer import ResumeBuffer
from pumice.adapters.runtime.configurations import ConfigurationKeeper
from pumice.adapters.runtime.event_writer import EventWriter
from pumice.adapters.runtime.ledger import Ledger, Order, Refusal
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import KindNumber, shown_kind
from pumice.adapters.runtime.outbox import Outbox
from pumice.adapters.runtime.questions import QuestionAnswerer
from pumice.adapters.runtime.resync import ResyncQueue
from pumice.adapters.runtime.status_writer import StatusWriter
from pumice.v1.cluster_service_pb2 import (
    Ack,
    ConnectResponse,
    DecisionBatch,
    Resync,
    StatusBatch,
)
from pumice.v1.decision_pb2 import Decision

log = logging.getLogger(__name__)


class Inbox:
    """Receives the messages of one stream. While it is closed, it refuses decisions."""

    def __init__(
        self,
        epoch: int,
        buffer: ResumeBuffer,
        outbox: Outbox,
        ledger: Ledger,
        pool: ApplyPool,
        statuses: StatusWriter,
        events: EventWriter,
        resync: ResyncQueue,
        configurations: ConfigurationKeeper,
        questions: QuestionAnswerer,
        show_applied: Callable[[], None],
        metrics: Metrics,
    ) -> None:
        self._epoch = epoch
        self._buffer, self._outbox, self._ledger = buffer, outbox, ledger
        self._pool, self._resync = pool, resync
        self._statuses, self._events = statuses, events
        self._configurations, self._questions = configurations, questions
        self._show_applied, self._metrics = show_applied, metrics
        # Decisions that are based on earlier ops are stale; None: all decisions are.
        self._decisions_from: int | None = None
        self._wanted_kinds: set[KindNumber] = set()

    # Opening and closing.

    def open(self, from_seq: int) -> None:
        self._decisions_from = from_seq
        self._pool.resume()

    async def close(self, *, report: bool) -> None:
        """Prepares a snapshot: refuses decisions, and completes those that have begun, up to a limit.

        Afterwards the pods show every decision that was applied.
        """
        self._decisions_from = None
        parts = self._ledger.forget_incomplete()
        if report:
            self._refuse(parts)
        await self._pool.pause(report=report)
        self._show_applied()

    def drop_queued(self, *, fenced: bool) -> None:
        """Drops queued decisions after a stream. Unless fenced, completes those that have begun."""
        self._ledger.forget_incomplete()
        self._pool.drop_queued(report=False, complete_begun=not fenced)

    def forget_reported(self) -> None:
        """Closes all decisions, because a core that gets a snapshot needs no outcomes."""
        self._ledger.close(self._ledger.held_ids())

    # Messages.

    def handle(self, message: ConnectResponse) -> None:
        match message.WhichOneof("message"):
            case "decision_batch":
                self._handle_decisions(message.decision_batch)
            case "status_batch":
                self._handle_statuses(message.status_batch)
            case "resync":
                self._handle_resync(message.resync)
            case "question_batch":
                self._questions.add(message.question_batch.questions)
            case "configuration_result":
                self._configurations.handle_result(message.configuration_result)
            case _:
                # A type that this adapter does not know.
                self._metrics.count("unknown_messages")

    def handle_ack(self, ack: Ack) -> None:
        self._ledger.close(self._outbox.acknowledge(ack.applied_seq))
        for rejected in ack.rejected:
            kind = shown_kind(rejected.kind)
            self._metrics.count("rejected_objects", kind=kind)
            log.warning(
                "the core rejected %s %s: %s %s",
                kind,
                rejected.key or rejected.uid,
                rejected.field,
                rejected.reason,
            )

        for warning in ack.warnings:
            kind = shown_kind(warning.kind)
            self._metrics.count("unknown_values", kind=kind)
            name = warning.key or warning.uid
            log.warning("%s %s: %s %s", kind, name, warning.field, warning.message)

    def pop_wanted_kinds(self) -> list[KindNumber]:
        """Returns and clears the kinds of which the core requested a snapshot."""
        kinds = sorted(self._wanted_kinds)
        self._wanted_kinds.clear()
        return kinds

    def _handle_decisions(self, batch: DecisionBatch) -> None:
        if batch.epoch != self._epoch:
            self._metrics.count("ignored_batches")
            return
        if self._decisions_from is None or batch.based_on_seq < self._decisions_from:
            self._refuse(batch.decisions)
            return
        self._metrics.count("decisions", len(batch.decisions))
        before = self._ledger.duplicates
        for ready in self._ledger.add(batch.gangs, batch.decisions):
            match ready:
                case Order():
                    self._pool.submit(ready)
                case Refusal():
                    self._metrics.count("refused_gangs")
                    self._pool.refuse(ready)
        self._metrics.count("duplicate_decisions", self._ledger.duplicates - before)

    def _refuse(self, decisions: Iterable[Decision]) -> None:
        """Refuses decisions that are older than the snapshot."""
        stale = tuple(decisions)
        if stale:
            self._pool.refuse(Refusal(stale, "a snapshot was in progress"))

    def _handle_statuses(self, batch: StatusBatch) -> None:
        if batch.epoch != self._epoch:
            self._metrics.count("ignored_batches")
            return
        for change in batch.changes:
            self._statuses.add(change)
        for event in batch.events:
            self._events.add_from_core(event)

    def _handle_resync(self, resync: Resync) -> None:
        log.info("the core requests a resync: %s", resync.reason)
        self._metrics.count("resync_requests")
        self._wanted_kinds.update(resync.kinds)
        for ref in resync.objects:
            held = self._buffer.get(ref.kind, ref.uid)
            if held is None:
                self._outbox.tombstone(ref.kind, ref.uid, asked=True)
            else:
                self._resync.add(held.identity, "the core requested it")
