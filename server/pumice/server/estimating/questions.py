"""Forecasts of starts, which forks of a replica compute."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

from pumice.core.registry import Registry
from pumice.server import errors
from pumice.server.estimating.forward_run import Forecast, ForwardRun, RunLimits, Target
from pumice.server.estimating.levels import Level, RunTimeEstimates
from pumice.server.estimating.run_times import PastRuns
from pumice.server.explaining.facts import (
    Subject,
    candidate_names,
    find_job_id,
    find_task,
    nearest_names,
)
from pumice.server.state import ClusterState
from pumice.server.whatif.trial import empty_state, prepare
from pumice.v1.scheduling_service_pb2 import ScheduleRequest

# Number of jobs of a Schedule request whose starts are estimated.
MAX_ESTIMATED_JOBS = 100
# Share of the timeout for the computation; the rest is for the response.
_WORKING_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class EstimateQuestion:
    """A request for the start of one job or pod, or of the jobs of a Schedule request."""

    past: PastRuns
    horizon_ns: int
    # None: the jobs of the request.
    subject: Subject | None = None
    request: bytes = b""
    max_objects: int | None = None


@dataclass(frozen=True, slots=True)
class LevelForecast:
    """The forecast for one level."""

    forecast: Forecast
    now_ns: int
    based_on_seq: int
    # Names of pods, by uid.
    pods: dict[str, str] = field(default_factory=dict)


class HasState(Protocol):
    """A replica: the state of a cluster, or none where requests contain all their objects."""

    registry: Registry
    state: ClusterState | None


def forecast(
    replica: HasState, question: EstimateQuestion, level: Level, now_ns: int, seconds: float
) -> LevelForecast:
    """Computes the forecast for one level. It changes the state, so only a fork calls it.

    Raises UnknownSubjectError and the errors of a trial.
    """
    late = time.monotonic() + seconds * _WORKING_SHARE
    limits = RunLimits(question.horizon_ns, is_late=lambda: time.monotonic() > late)
    state = replica.state
    if question.subject is not None:
        assert state is not None
        return run_level(state, question, level, now_ns, limits)
    request = ScheduleRequest.FromString(question.request)
    if request.WhichOneof("source") == "inline" or state is None:
        state = empty_state(replica.registry)
    return run_request(state, request, question, level, now_ns, limits)


def run_level(
    state: ClusterState, question: EstimateQuestion, level: Level, now_ns: int, limits: RunLimits
) -> LevelForecast:
    assert question.subject is not None
    target, pod = find_target(state, question.subject)
    seq = state.applied_seq
    run = ForwardRun(state, RunTimeEstimates(question.past, level), now_ns, limits)
    pods = {target.pod_uid: pod} if pod else {}
    return LevelForecast(run.run([target]), now_ns, seq, pods)


def run_request(
    state: ClusterState,
    request: ScheduleRequest,
    question: EstimateQuestion,
    level: Level,
    now_ns: int,
    limits: RunLimits,
) -> LevelForecast:
    """Forecasts the jobs of the request, or all waiting jobs if the request contains no jobs."""
    seq = state.applied_seq
    asked, now_ns = prepare(state, request, now_ns, question.max_objects)
    jobs = state.engine.cache.jobs
    names = list(asked.jobs)
    if not names and not asked.loose_pods:
        names = [id_ for id_, job in sorted(jobs.items()) if job.group and job.index.pending]
    targets = [Target(name) for name in names if name in jobs][:MAX_ESTIMATED_JOBS]
    run = ForwardRun(state, RunTimeEstimates(question.past, level), now_ns, limits)
    return LevelForecast(run.run(targets), now_ns, seq)


def find_target(state: ClusterState, subject: Subject) -> tuple[Target, str]:
    """The target, and the name of its pod if it is one. Raises UnknownSubjectError."""
    cache = state.engine.cache
    if subject.is_pod:
        task = find_task(state.engine, subject)
        if task is not None:
            return Target(task.job_id, task.uid), task.name
    else:
        id_ = find_job_id(cache.jobs, subject)
        if id_ is not None:
            return Target(id_), ""
    near = nearest_names(subject.key, candidate_names(state.engine, subject))
    raise errors.UnknownSubjectError("pod" if subject.is_pod else "job", subject.key, near)
