"""The result of Schedule: a result for each job, and the problems of the request."""

from __future__ import annotations

from dataclasses import dataclass

from pumice.client.amounts import amount
from pumice.client.enums import JobVerdict, Severity, member_of
from pumice.client.errors import ErrorDetails, NotFoundError
from pumice.client.estimates import StartEstimate
from pumice.client.explanations import Explanation
from pumice.client.problems import Problem
from pumice.client.reasons import PluginFault, Reason, Wait
from pumice.client.sessions import Bind, Decisions, Evict, QueueShare, SessionSummary
from pumice.client.values import Value
from pumice.v1 import decision_pb2, job_result_pb2
from pumice.v1.scheduling_service_pb2 import ScheduleResponse


@dataclass(frozen=True, slots=True)
class Shortage(Value):
    """A resource that is missing for a job or pod, in the units of the protocol."""

    resource: str
    wanted: int
    free: int
    # The total of the node, or the limit of the queue or namespace.
    limit: int
    # The pod that requests it; empty for the job.
    pod: str
    # The place of the shortage: ``node``, ``largest node``, ``queue`` or ``quota``.
    place: str
    # The name of the node, queue or ResourceQuota; empty if no node has the resource.
    name: str

    @staticmethod
    def from_proto(message: job_result_pb2.Shortage) -> Shortage:
        place = message.WhichOneof("place")
        return Shortage(
            resource=message.resource,
            wanted=message.wanted,
            free=message.free,
            limit=message.limit,
            pod=message.pod,
            place=place.replace("_", " ") if place else "",
            name=getattr(message, place) if place else "",
        )

    def __str__(self) -> str:
        wanted, free, limit = (
            amount(self.resource, each) for each in (self.wanted, self.free, self.limit)
        )
        where = " ".join(part for part in (self.place, self.name) if part)
        return f"{self.resource}: {wanted} wanted, {free} free of {limit} ({where})"


@dataclass(frozen=True, slots=True)
class PlacedPod(Value):
    """A pod, as ``namespace/name``, and its node."""

    pod: str
    node: str


@dataclass(frozen=True, slots=True)
class JobResult(Value):
    """The result of one job."""

    # ``namespace/name`` of the PodGroup, or of a pod without a PodGroup.
    job: str
    queue: str
    verdict: JobVerdict
    sentence: str
    placed: tuple[PlacedPod, ...]
    # Pods that stay pending.
    pending_count: int
    reasons: tuple[Reason, ...]
    # The missing amounts.
    shortages: tuple[Shortage, ...]
    # Pods that would be evicted for the job.
    evictions: tuple[Evict, ...]
    # Why the job waits; None if it does not wait, or was not explained.
    explanation: Explanation | None
    # None if no estimate was requested.
    start_estimate: StartEstimate | None

    @staticmethod
    def from_proto(message: job_result_pb2.JobResult, based_on_seq: int) -> JobResult:
        explained = message.HasField("explanation")
        enum = job_result_pb2.JobVerdict.DESCRIPTOR
        return JobResult(
            job=message.job,
            queue=message.queue,
            verdict=member_of(JobVerdict, enum, message.verdict),
            sentence=message.sentence,
            placed=tuple(PlacedPod(each.pod, each.node) for each in message.placed),
            pending_count=message.pending_count,
            reasons=tuple(map(Reason.from_proto, message.reasons)),
            shortages=tuple(map(Shortage.from_proto, message.shortages)),
            evictions=tuple(map(_evict, message.evictions)),
            explanation=(
                Explanation.of_trial(message.explanation, based_on_seq) if explained else None
            ),
            start_estimate=StartEstimate.from_proto(message.start_estimate)
            if message.HasField("start_estimate")
            else None,
        )

    @property
    def is_placed(self) -> bool:
        """Whether all pods of the job have a node."""
        return self.verdict is JobVerdict.PLACED


def explanation_from_trial(message: ScheduleResponse) -> Explanation:
    """The only explanation of a response. Raises NotFoundError if the job or pod does not exist."""
    explanation = message.explanations[0]
    if not explanation.job and not explanation.pod:
        problem = next(each for each in message.problems if each.field == "explained")
        near = tuple(name for name in problem.allowed.split(", ") if name)
        details = ErrorDetails(nearest_names=near)
        raise NotFoundError(f"{problem.kind} {problem.key} {problem.problem}", details)
    return Explanation.of_trial(explanation, message.based_on_seq)


def _evict(message: decision_pb2.Evict) -> Evict:
    pod = f"{message.namespace}/{message.name}"
    return Evict(pod, message.node, message.reason, message.for_job)


@dataclass(frozen=True, slots=True)
class ScheduleResult(Value):
    """The decisions for a manifest. Binds, evictions and waits are those of its jobs."""

    jobs: tuple[JobResult, ...]
    # The problems of the request, errors first.
    problems: tuple[Problem, ...]
    binds: tuple[Bind, ...]
    evictions: tuple[Evict, ...]
    waits: tuple[Wait, ...]
    faults: tuple[PluginFault, ...]
    queues_before: tuple[QueueShare, ...]
    queues_after: tuple[QueueShare, ...]
    sessions: tuple[SessionSummary, ...]
    # The last change of the live cluster that the result includes; 0 without a cluster.
    based_on_seq: int
    config_hash: str
    request_id: str

    @staticmethod
    def from_proto(message: ScheduleResponse) -> ScheduleResult:
        decisions = Decisions.from_proto(message.decisions, message.gangs)
        seq = message.based_on_seq
        return ScheduleResult(
            jobs=tuple(JobResult.from_proto(each, seq) for each in message.jobs),
            problems=tuple(map(Problem.from_proto, message.problems)),
            binds=decisions.binds,
            evictions=decisions.evictions,
            waits=tuple(map(Wait.from_proto, message.waits)),
            faults=tuple(map(PluginFault.from_proto, message.faults)),
            queues_before=tuple(map(QueueShare.from_proto, message.queues_before)),
            queues_after=tuple(map(QueueShare.from_proto, message.queues_after)),
            sessions=tuple(map(SessionSummary.from_proto, message.sessions)),
            based_on_seq=seq,
            config_hash=message.config_hash,
            request_id=message.request_id,
        )

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Problems because of which a part of the request was left out."""
        return tuple(each for each in self.problems if each.severity is Severity.ERROR)

    @property
    def waiting(self) -> tuple[JobResult, ...]:
        """Jobs with pods that would not be placed."""
        return tuple(each for each in self.jobs if each.pending_count or not each.is_placed)

    @property
    def is_placed(self) -> bool:
        """Whether no part of the request was left out, and all pods of all jobs have a node."""
        return not self.errors and not self.waiting
