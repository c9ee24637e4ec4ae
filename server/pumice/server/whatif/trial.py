"""A trial: applies the objects of a request to a state, runs sessions and returns the result.

It changes the state, so a caller that still needs the state passes a copy.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import replace

from pumice.core.decisions import Bind, PodGroupStatusChanged, SessionResult
from pumice.core.deltas import Deleted, Delta, Upserted
from pumice.core.model.pod import Pod, PodPhase
from pumice.core.registry import Registry
from pumice.server.configuration import DEFAULT_PERIOD_NS, ConfigurationRefusedError
from pumice.server.explaining.reached_limits import with_limits
from pumice.server.overview import shares_of
from pumice.server.records import record
from pumice.server.state import ClusterState
from pumice.server.whatif.job_results import JobResults, TrialDecisions
from pumice.server.whatif.request_objects import RequestObjects
from pumice.server.wire import (
    write_decisions,
    write_fault,
    write_status,
    write_wait,
)
from pumice.v1 import configuration_pb2, status_pb2
from pumice.v1.scheduling_service_pb2 import ScheduleRequest, ScheduleResponse

_SECOND_NS = 1_000_000_000
# Maximum number of waits in a response.
MAX_WAITS = 5_000


def run_inline(
    request: ScheduleRequest, registry: Registry, now_ns: int, max_objects: int | None = None
) -> ScheduleResponse:
    """Runs an inline request, which contains all its objects."""
    return run_trial(empty_state(registry), request, now_ns, max_objects)


def empty_state(registry: Registry) -> ClusterState:
    """The state of a cluster without objects, for an inline request."""
    state = ClusterState(registry)
    _configure(state, configuration_pb2.Configuration())
    return state


def prepare(
    state: ClusterState, request: ScheduleRequest, now_ns: int, max_objects: int | None = None
) -> tuple[RequestObjects, int]:
    """Applies a request to a state; returns its objects and the time of its first session."""
    if request.HasField("configuration"):
        _configure(state, _merged(state, request.configuration))
    if request.HasField("session_time"):
        now_ns = request.session_time.seconds * _SECOND_NS + request.session_time.nanos
    objects = RequestObjects(state, request, max_objects)
    objects.apply(now_ns)
    return objects, now_ns


def run_trial(
    state: ClusterState, request: ScheduleRequest, now_ns: int, max_objects: int | None = None
) -> ScheduleResponse:
    """Runs a request. Raises ObjectsRejectedError, ConfigurationRefusedError and LimitError."""
    live = request.WhichOneof("source") == "cluster"
    based_on_seq = state.applied_seq if live else 0
    objects, now_ns = prepare(state, request, now_ns, max_objects)
    response = ScheduleResponse(
        request_id=request.request_id, based_on_seq=based_on_seq, config_hash=state.config_hash
    )
    if not request.decisions_only:
        response.queues_before.extend(state.engine.inspect(shares_of, now_ns))
    decisions = TrialDecisions()
    last_ns = _run_sessions(state, request, response, decisions, now_ns)
    own = objects.jobs if request.own_only and (objects.jobs or objects.loose_pods) else None
    waits = [wait for wait in state.engine.waits if own is None or wait.job in own]
    waits = list(with_limits(state.engine, waits[:MAX_WAITS], last_ns))
    response.waits.extend(map(write_wait, waits))
    results = JobResults(state, objects, decisions, last_ns)
    response.jobs.extend(results.all())
    response.explanations.extend(results.explained(request.explained))
    response.problems.extend(objects.problems.all())
    if own is not None:
        _keep_own(response, own)
    if not request.decisions_only:
        response.queues_after.extend(shares_of(state.engine))
    return response


def _configure(state: ClusterState, message: configuration_pb2.Configuration) -> None:
    result = state.configure(message)
    if not result.accepted:
        raise ConfigurationRefusedError(tuple(result.problems))


def _merged(
    state: ClusterState, configuration: configuration_pb2.Configuration
) -> configuration_pb2.Configuration:
    """The configuration of the cluster, with the set fields of ``configuration`` replaced."""
    merged = configuration_pb2.Configuration()
    if state.effective is not None:
        merged.CopyFrom(state.effective.message)
    for field, _ in configuration.ListFields():
        merged.ClearField(field.name)  # type: ignore[arg-type]
    merged.MergeFrom(configuration)
    return merged


# Sessions.


def _run_sessions(
    state: ClusterState,
    request: ScheduleRequest,
    response: ScheduleResponse,
    decisions: TrialDecisions,
    now_ns: int,
) -> int:
    """Runs sessions, and adds their results to the response; returns the time of the last one."""
    statuses: dict[tuple[str, str, str], status_pb2.StatusChange] = {}
    effective = state.effective
    period_ns = effective.period_ns if effective is not None else DEFAULT_PERIOD_NS
    most = max(1, request.max_sessions)
    for number in range(most):
        at_ns = now_ns + number * period_ns
        started = time.perf_counter_ns()
        result = state.session(at_ns)
        duration_ns = time.perf_counter_ns() - started
        _add_result(response, state, result, duration_ns)
        decisions.add(result)
        if not request.decisions_only:
            for change in result.statuses:
                uid = getattr(change, "uid", "")
                statuses[type(change).__name__, uid, change.name] = write_status(change)
        if number + 1 == most or _is_quiet(result):
            break
        state.engine.apply(_apply_decisions(state, result), at_ns)
    response.statuses.extend(statuses.values())
    return at_ns


def _keep_own(response: ScheduleResponse, own: Collection[str]) -> None:
    """Removes decisions and statuses of other jobs."""
    gangs = [gang for gang in response.gangs if gang.job in own]
    ids = {gang.id for gang in gangs}
    decisions = [
        each
        for each in response.decisions
        if each.gang_id in ids or (each.HasField("evict") and each.evict.for_job in own)
    ]
    statuses = [each for each in response.statuses if _job_of(each) in own]
    del response.gangs[:], response.decisions[:], response.statuses[:]
    response.gangs.extend(gangs)
    response.decisions.extend(decisions)
    response.statuses.extend(statuses)


def _job_of(change: status_pb2.StatusChange) -> str:
    """The job of a PodGroup status; empty: another status."""
    group = change.pod_group
    return f"{group.namespace}/{group.name}" if change.HasField("pod_group") else ""


def _is_quiet(result: SessionResult) -> bool:
    phases = any(isinstance(change, PodGroupStatusChanged) for change in result.statuses)
    return not result.decisions and not phases


def _add_result(
    response: ScheduleResponse, state: ClusterState, result: SessionResult, duration_ns: int
) -> None:
    gangs, decisions = write_decisions(result.decisions)
    response.gangs.extend(gangs)
    response.decisions.extend(decisions)
    response.faults.extend(write_fault(fault) for fault in result.faults)
    made = record(
        result,
        duration_ns=duration_ns,
        based_on_seq=response.based_on_seq,
        config_hash=state.config_hash,
    )
    response.sessions.append(made.summary)


def _apply_decisions(state: ClusterState, result: SessionResult) -> Iterable[Delta]:
    """The effects of decisions on the next session: bound pods run, evicted pods are deleted."""
    deltas: list[Delta] = []
    for decision in result.decisions:
        task = state.engine.cache.tasks.get(decision.uid)
        if task is None:
            continue
        if isinstance(decision, Bind):
            pod = replace(task.pod, node_name=decision.node, phase=PodPhase.RUNNING)
            deltas.append(Upserted(pod))
        else:
            deltas.append(Deleted(Pod, decision.uid))
    return deltas
