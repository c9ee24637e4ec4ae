"""Answers of a core as plain values, with the message they were made from at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from pumice.client.reasons import summarized, told
from pumice.v1 import explanation_pb2, group_pb2, session_pb2
from pumice.v1.decision_pb2 import Decision
from pumice.v1.inspection_service_pb2 import JobInfo, NodeInfo, QueueInfo
from pumice.v1.reason_pb2 import Wait
from pumice.v1.scheduling_service_pb2 import ExplainResponse, ScheduleResponse
from pumice.v1.session_pb2 import QueueShare, SessionDetail


def time_of(message: Timestamp) -> datetime:
    return message.ToDatetime(tzinfo=UTC)


def phase_of(phase: group_pb2.PodGroupPhase.ValueType) -> str:
    """As Volcano spells it; empty for one that nobody has seen."""
    word = group_pb2.PodGroupPhase.Name(phase).removeprefix("POD_GROUP_PHASE_")
    return "" if word == "UNSPECIFIED" else word.capitalize()


def phase_named(word: str) -> group_pb2.PodGroupPhase.ValueType:
    """The phase that Volcano spells so; raises ValueError for a word that is none."""
    known = {phase_of(phase).lower(): phase for phase in group_pb2.PodGroupPhase.values() if phase}
    if word.lower() not in known:
        there = ", ".join(phase_of(phase) for phase in known.values())
        raise ValueError(f"{word!r} is no phase; allowed: {there}")
    return known[word.lower()]


@dataclass(frozen=True, slots=True)
class BindOrder:
    """A pod and the node it goes to."""

    pod: str
    node: str
    job: str


@dataclass(frozen=True, slots=True)
class EvictOrder:
    """A pod that has to go, and for whom."""

    pod: str
    node: str
    reason: str
    for_job: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that stays pending, and why, in words."""

    job: str
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """What a queue may have, has and wants."""

    queue: str
    deserved: Mapping[str, int]
    allocated: Mapping[str, int]
    requested: Mapping[str, int]
    share: float
    overused: bool

    @staticmethod
    def of(message: QueueShare) -> Share:
        return Share(
            message.name,
            dict(message.deserved),
            dict(message.allocated),
            dict(message.requested),
            message.share,
            message.overused,
        )


@dataclass(frozen=True, slots=True)
class Orders:
    """Decisions, told apart."""

    binds: tuple[BindOrder, ...] = ()
    evictions: tuple[EvictOrder, ...] = ()

    @staticmethod
    def of(decisions: Iterable[Decision], jobs: Mapping[str, str]) -> Orders:
        binds, evictions = [], []
        for decision in decisions:
            if decision.HasField("bind"):
                bind = decision.bind
                job = jobs.get(decision.gang_id, "")
                binds.append(BindOrder(f"{bind.namespace}/{bind.name}", bind.node, job))
            elif decision.HasField("evict"):
                evict = decision.evict
                pod = f"{evict.namespace}/{evict.name}"
                evictions.append(EvictOrder(pod, evict.node, evict.reason, evict.for_job))
        return Orders(tuple(binds), tuple(evictions))


def waiting_of(waits: Iterable[Wait]) -> tuple[Waiting, ...]:
    return tuple(
        Waiting(wait.job, tuple(told(reason) for reason in summarized(wait.reasons)))
        for wait in waits
    )


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """What would be decided."""

    binds: tuple[BindOrder, ...]
    evictions: tuple[EvictOrder, ...]
    waiting: tuple[Waiting, ...]
    queues_before: tuple[Share, ...]
    queues_after: tuple[Share, ...]
    # The op of the live cluster that the answer stands at; 0 for objects of the request.
    based_on_seq: int
    message: ScheduleResponse = field(repr=False)

    @staticmethod
    def of(message: ScheduleResponse) -> ScheduleResult:
        orders = Orders.of(message.decisions, {gang.id: gang.job for gang in message.gangs})
        return ScheduleResult(
            orders.binds,
            orders.evictions,
            waiting_of(message.waits),
            tuple(map(Share.of, message.queues_before)),
            tuple(map(Share.of, message.queues_after)),
            message.based_on_seq,
            message,
        )


@dataclass(frozen=True, slots=True)
class StageView:
    """One stage: what it is called, what it said, and why."""

    stage: str
    result: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PeriodView:
    """A reason and how long it held."""

    reason: str
    first_seen: datetime
    last_seen: datetime
    sessions: int
    current: bool


@dataclass(frozen=True, slots=True)
class ExplanationView:
    """Why a job or pod stands where it stands."""

    job: str
    pod: str
    queue: str
    phase: str
    sentence: str
    stages: tuple[StageView, ...]
    blocking_pod: str
    history: tuple[PeriodView, ...]
    based_on_seq: int
    session: int
    # A session was running, and nobody could look at nodes.
    without_nodes: bool
    message: explanation_pb2.Explanation = field(repr=False)

    @staticmethod
    def of(response: ExplainResponse) -> ExplanationView:
        message = response.explanation
        return ExplanationView(
            message.job,
            message.pod,
            message.queue,
            phase_of(message.phase),
            message.sentence,
            tuple(map(_stage, message.stages)),
            message.blocking_pod,
            tuple(map(_period, message.history)),
            response.based_on_seq,
            response.session,
            response.without_nodes,
            message,
        )


def _stage(message: explanation_pb2.StageExplanation) -> StageView:
    name = explanation_pb2.Stage.Name(message.stage).removeprefix("STAGE_")
    result = explanation_pb2.StageResult.Name(message.result).removeprefix("STAGE_RESULT_")
    words = tuple(told(reason) for reason in summarized(message.reasons))
    return StageView(name.lower(), result.lower().replace("_", " "), words)


def _period(message: explanation_pb2.ReasonPeriod) -> PeriodView:
    return PeriodView(
        told(message.reason),
        time_of(message.first_seen_time),
        time_of(message.last_seen_time),
        message.session_count,
        message.current,
    )


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session that ran, with all it decided."""

    number: int
    start: datetime
    seconds: float
    binds: tuple[BindOrder, ...]
    evictions: tuple[EvictOrder, ...]
    waiting_count: int
    # Sessions before it that were left out.
    skipped: int
    message: SessionDetail = field(repr=False)

    @staticmethod
    def of(message: SessionDetail, skipped: int = 0) -> SessionView:
        summary = message.summary
        orders = Orders.of(message.decisions, {gang.id: gang.job for gang in message.gangs})
        return SessionView(
            summary.session,
            time_of(summary.start_time),
            seconds_of(summary),
            orders.binds,
            orders.evictions,
            summary.wait_count,
            skipped,
            message,
        )


def seconds_of(summary: session_pb2.SessionSummary) -> float:
    return summary.duration.seconds + summary.duration.nanos / 1e9


__all__ = [
    "BindOrder",
    "EvictOrder",
    "ExplanationView",
    "JobInfo",
    "NodeInfo",
    "Orders",
    "PeriodView",
    "QueueInfo",
    "ScheduleResult",
    "SessionView",
    "Share",
    "StageView",
    "Waiting",
]
