"""Forecasts of starts, which forks of a replica compute."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

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
from pumice.server.whatif.replica import Replica
from pumice.server.whatif.trial import empty_state, prepare
from pumice.v1.scheduling_service_pb2 import ScheduleRequest

# Number of jobs of a Schedule request whose starts are estimated.
MAX_ESTIMATED_JOBS = 100
# Share of the timeout for the computation; the rest is for the response.
_WORKING_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class ForecastRequest:
    """A request for the start of one job or pod, or of the jobs of a Schedule request."""

    past: PastRuns
    horizon_ns: int
    # None: the jobs of the Schedule request.
    subject: Subject | None = None
    schedule_request: bytes = b""
    max_objects: int | None = None


@dataclass(frozen=True, slots=True)
class LevelForecast:
    """The forecast for one level."""

    forecast: Forecast
    now_ns: int
    based_on_seq: int
    # Names of pods, by uid.
    pods: dict[str, str] = field(default_factory=dict)


def forecast(
    replica: Replica, request: ForecastRequest, level: Level, now_ns: int, seconds: float
) -> LevelForecast:
    """Computes the forecast for one level. It changes the state, so only a fork calls it.

    Raises UnknownSubjectError and the errors of a trial.
    """
    late = time.monotonic() + seconds * _WORKING_SHARE
    limits = RunLimits(request.horizon_ns, is_late=lambda: time.monotonic() > late)
    state = replica.state
    if request.subject is not None:
        assert state is not None
        return _forecast_subject(state, request, level, now_ns, limits)
    schedule = ScheduleRequest.FromString(request.schedule_request)
    if schedule.WhichOneof("source") == "inline" or state is None:
        state = empty_state(replica.registry)
    return _forecast_schedule(state, schedule, request, level, now_ns, limits)


def _forecast_subject(
    state: ClusterState, request: ForecastRequest, level: Level, now_ns: int, limits: RunLimits
) -> LevelForecast:
    assert request.subject is not None
    target, pod = _find_target(state, request.subject)
    seq = state.applied_seq
    run = ForwardRun(state, RunTimeEstimates(request.past, level), now_ns, limits)
    pods = {target.pod_uid: pod} if pod else {}
    return LevelForecast(run.run([target]), now_ns, seq, pods)


def _forecast_schedule(
    state: ClusterState,
    schedule: ScheduleRequest,
    request: ForecastRequest,
    level: Level,
    now_ns: int,
    limits: RunLimits,
) -> LevelForecast:
    """Forecasts the jobs of a Schedule request, or all waiting jobs if it contains no jobs."""
    seq = state.applied_seq
    objects, now_ns = prepare(state, schedule, now_ns, request.max_objects)
    jobs = state.engine.cache.jobs
    names = list(objects.jobs)
    if not names and not objects.loose_pods:
        names = [id_ for id_, job in sorted(jobs.items()) if job.group and job.index.pending]
    targets = [Target(name) for name in names if name in jobs][:MAX_ESTIMATED_JOBS]
    run = ForwardRun(state, RunTimeEstimates(request.past, level), now_ns, limits)
    return LevelForecast(run.run(targets), now_ns, seq)


def _find_target(state: ClusterState, subject: Subject) -> tuple[Target, str]:
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
