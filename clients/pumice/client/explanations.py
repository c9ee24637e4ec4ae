"""Explanations: why a job or pod waits, or why it is on its node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from pumice.client.clusters import Pause
from pumice.client.enums import PodGroupPhase, Stage, StageResult, member_of
from pumice.client.estimates import StartEstimate
from pumice.client.reasons import Reason
from pumice.client.values import Value, time_from
from pumice.v1 import explanation_pb2, group_pb2
from pumice.v1.scheduling_service_pb2 import ExplainResponse


@dataclass(frozen=True, slots=True)
class StageExplanation(Value):
    """The result of one stage in the last session."""

    stage: Stage
    result: StageResult
    reasons: tuple[Reason, ...]

    @staticmethod
    def from_proto(message: explanation_pb2.StageExplanation) -> StageExplanation:
        return StageExplanation(
            stage=member_of(Stage, explanation_pb2.Stage.DESCRIPTOR, message.stage),
            result=member_of(StageResult, explanation_pb2.StageResult.DESCRIPTOR, message.result),
            reasons=tuple(map(Reason.from_proto, message.reasons)),
        )


@dataclass(frozen=True, slots=True)
class ReasonPeriod(Value):
    """A reason and the period during which it held without interruption."""

    reason: Reason
    first_seen_time: datetime | None
    last_seen_time: datetime | None
    session_count: int
    # Whether the reason still holds.
    current: bool

    @staticmethod
    def from_proto(message: explanation_pb2.ReasonPeriod) -> ReasonPeriod:
        return ReasonPeriod(
            reason=Reason.from_proto(message.reason),
            first_seen_time=time_from(message.first_seen_time),
            last_seen_time=time_from(message.last_seen_time),
            session_count=message.session_count,
            current=message.current,
        )


@dataclass(frozen=True, slots=True)
class ResourceShortage(Value):
    """A resource that a node lacks for a pod, in the units of the protocol."""

    resource: str
    need: int
    have: int


@dataclass(frozen=True, slots=True)
class NearestNode(Value):
    """A node on which a pod almost fits, and what it lacks."""

    node: str
    shortages: tuple[ResourceShortage, ...]
    # Other reasons of the predicates.
    reasons: tuple[str, ...]

    @staticmethod
    def from_proto(message: explanation_pb2.NearestNode) -> NearestNode:
        shortages = (ResourceShortage(s.resource, s.need, s.have) for s in message.shortages)
        return NearestNode(message.node, tuple(shortages), tuple(message.reasons))


@dataclass(frozen=True, slots=True)
class PluginScore(Value):
    """The part of a node's score from one plugin."""

    plugin: str
    score: float


@dataclass(frozen=True, slots=True)
class ScoredNode(Value):
    """A node with its score."""

    node: str
    score: float
    parts: tuple[PluginScore, ...]

    @staticmethod
    def from_proto(message: explanation_pb2.ScoredNode) -> ScoredNode:
        parts = tuple(PluginScore(part.plugin, part.score) for part in message.parts)
        return ScoredNode(message.node, message.score, parts)


@dataclass(frozen=True, slots=True)
class Placement(Value):
    """The reasons why a pod is on its node: the scores of the feasible nodes."""

    pod: str
    node: ScoredNode
    runners_up: tuple[ScoredNode, ...]
    feasible_node_count: int
    session: int
    decision_time: datetime | None
    # The action that placed the pod.
    action: str

    @staticmethod
    def from_proto(message: explanation_pb2.Placement) -> Placement:
        return Placement(
            pod=message.pod,
            node=ScoredNode.from_proto(message.node),
            runners_up=tuple(map(ScoredNode.from_proto, message.runners_up)),
            feasible_node_count=message.feasible_node_count,
            session=message.session,
            decision_time=time_from(message.decision_time),
            action=message.action,
        )


@dataclass(frozen=True, slots=True)
class Eviction(Value):
    """An eviction in the past."""

    pod: str
    node: str
    for_job: str
    reason: str
    session: int
    decision_time: datetime | None

    @staticmethod
    def from_proto(message: explanation_pb2.Eviction) -> Eviction:
        return Eviction(
            pod=message.pod,
            node=message.node,
            for_job=message.for_job,
            reason=message.reason,
            session=message.session,
            decision_time=time_from(message.decision_time),
        )


@dataclass(frozen=True, slots=True)
class Explanation(Value):
    """Why a job or pod waits, or why it is on its node."""

    # ``namespace/name`` of the PodGroup.
    job: str
    # Empty if the explanation is for the whole job.
    pod: str
    queue: str
    phase: PodGroupPhase
    # The explanation in one sentence.
    sentence: str
    stages: tuple[StageExplanation, ...]
    # The pod that holds the job back; empty if there is none.
    blocking_pod: str
    nearest_nodes: tuple[NearestNode, ...]
    # The oldest first.
    history: tuple[ReasonPeriod, ...]
    placements: tuple[Placement, ...]
    evictions: tuple[Eviction, ...]
    based_on_seq: int
    session: int
    # Whether no nodes were examined, because a session was running.
    without_nodes: bool
    # None if the cluster is scheduled.
    pause: Pause | None
    # None if no estimate was requested.
    start_estimate: StartEstimate | None = None

    @staticmethod
    def from_proto(response: ExplainResponse) -> Explanation:
        return replace(
            Explanation.of_trial(response.explanation, response.based_on_seq),
            session=response.session,
            without_nodes=response.without_nodes,
            pause=Pause.from_proto(response.pause) if response.HasField("pause") else None,
            start_estimate=StartEstimate.from_proto(response.start_estimate)
            if response.HasField("start_estimate")
            else None,
        )

    @staticmethod
    def of_trial(message: explanation_pb2.Explanation, based_on_seq: int) -> Explanation:
        """The explanation of a hypothetical job."""
        return Explanation(
            job=message.job,
            pod=message.pod,
            queue=message.queue,
            phase=member_of(PodGroupPhase, group_pb2.PodGroupPhase.DESCRIPTOR, message.phase),
            sentence=message.sentence,
            stages=tuple(map(StageExplanation.from_proto, message.stages)),
            blocking_pod=message.blocking_pod,
            nearest_nodes=tuple(map(NearestNode.from_proto, message.nearest_nodes)),
            history=tuple(map(ReasonPeriod.from_proto, message.history)),
            placements=tuple(map(Placement.from_proto, message.placements)),
            evictions=tuple(map(Eviction.from_proto, message.evictions)),
            based_on_seq=based_on_seq,
            session=0,
            without_nodes=False,
            pause=None,
            start_estimate=None,
        )
