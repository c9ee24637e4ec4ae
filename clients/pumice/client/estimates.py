"""Estimated starts of jobs and pods."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pumice.client.clusters import Pause
from pumice.client.enums import StartOutcome, member_of
from pumice.client.reasons import Reason
from pumice.client.values import Value, seconds_from, time_from
from pumice.v1 import estimate_pb2
from pumice.v1.scheduling_service_pb2 import EstimateStartResponse


@dataclass(frozen=True, slots=True)
class RunTimeBasis(Value):
    """The number of pods whose run times were used, by source of the run time."""

    annotation_count: int
    # Run times of earlier pods of the same job, or of jobs of the same name.
    history_count: int
    queue_count: int
    assumed_count: int
    # Pods of services, which are assumed not to end.
    endless_count: int
    # Invalid annotations, which have no effect.
    problems: tuple[str, ...]

    @staticmethod
    def from_proto(message: estimate_pb2.RunTimeBasis) -> RunTimeBasis:
        return RunTimeBasis(
            annotation_count=message.annotation_count,
            history_count=message.history_count,
            queue_count=message.queue_count,
            assumed_count=message.assumed_count,
            endless_count=message.endless_count,
            problems=tuple(message.problems),
        )


@dataclass(frozen=True, slots=True)
class StartEstimate(Value):
    """The start of a job or pod, for short, likely and long run times of the other pods."""

    # ``namespace/name`` of the PodGroup.
    job: str
    # Empty if the estimate is for the job, which starts when its minimum of pods has nodes.
    pod: str
    outcome: StartOutcome
    # The estimate in plain language.
    sentence: str
    # None if not within the horizon, or never.
    earliest_time: datetime | None
    expected_time: datetime | None
    latest_time: datetime | None
    horizon_seconds: float
    # The end of the run with likely run times, if it found no start; otherwise None.
    reached_time: datetime | None
    basis: RunTimeBasis
    # Why the job or pod still waits at the end of that run.
    reasons: tuple[Reason, ...]
    # Faults of plugins during the runs.
    faults: tuple[str, ...]
    # None if the cluster is scheduled. The estimate ignores a pause.
    pause: Pause | None = None

    @staticmethod
    def from_proto(
        message: estimate_pb2.StartEstimate, pause: Pause | None = None
    ) -> StartEstimate:
        return StartEstimate(
            job=message.job,
            pod=message.pod,
            outcome=member_of(StartOutcome, estimate_pb2.StartOutcome.DESCRIPTOR, message.outcome),
            sentence=message.sentence,
            earliest_time=time_from(message.earliest_time),
            expected_time=time_from(message.expected_time),
            latest_time=time_from(message.latest_time),
            horizon_seconds=seconds_from(message.horizon),
            reached_time=time_from(message.reached_time),
            basis=RunTimeBasis.from_proto(message.basis),
            reasons=tuple(map(Reason.from_proto, message.reasons)),
            faults=tuple(message.faults),
            pause=pause,
        )

    @staticmethod
    def from_response(response: EstimateStartResponse) -> StartEstimate:
        pause = Pause.from_proto(response.pause) if response.HasField("pause") else None
        return StartEstimate.from_proto(response.estimate, pause)
