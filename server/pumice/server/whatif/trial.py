"""A trial: adds and removes objects, runs sessions and returns the result. A pure function.

It changes the state that it is given: a caller that needs the state runs the trial on a copy.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from google.protobuf.duration_pb2 import Duration

from pumice.core.decisions import Bind, PodGroupStatusChanged, SessionResult
from pumice.core.deltas import Deleted, Delta, Upserted
from pumice.core.model.pod import Pod, PodPhase
from pumice.core.registry import Registry
from pumice.server import errors
from pumice.server.configuration import DEFAULT_PERIOD_NS, ConfigurationRefusedError
from pumice.server.explaining.reached_limits import with_limits
from pumice.server.ops import OpReader
from pumice.server.overview import shares_of
from pumice.server.records import record
from pumice.server.state import ClusterState
from pumice.server.wire import (
    kind_type,
    write_decisions,
    write_fault,
    write_status,
    write_wait,
)
from pumice.v1 import configuration_pb2, delta_pb2, object_pb2, status_pb2
from pumice.v1.scheduling_service_pb2 import ObjectSet, ScheduleRequest, ScheduleResponse

_SECOND_NS = 1_000_000_000
_KINDS = {field.name: field.number for field in object_pb2.ClusterObject.DESCRIPTOR.fields}
# Objects and jobs that an answer lists at most.
MAX_REJECTED = 100
MAX_WAITS = 5_000


def run_inline(request: ScheduleRequest, registry: Registry, now_ns: int) -> ScheduleResponse:
    """Runs a request that contains all its objects."""
    state = ClusterState(registry)
    _configured(state, configuration_pb2.Configuration())
    return run_trial(state, request, now_ns)


def run_trial(state: ClusterState, request: ScheduleRequest, now_ns: int) -> ScheduleResponse:
    """Raises ObjectsRejectedError and ConfigurationRefusedError."""
    if request.HasField("configuration"):
        _configured(state, _merged(state, request.configuration))
    live = request.WhichOneof("source") == "cluster"
    if request.HasField("session_time"):
        now_ns = request.session_time.seconds * _SECOND_NS + request.session_time.nanos
    based_on_seq = state.applied_seq if live else 0
    _add_objects(state, request, now_ns)
    response = ScheduleResponse(
        request_id=request.request_id, based_on_seq=based_on_seq, config_hash=state.config_hash
    )
    if not request.decisions_only:
        response.queues_before.extend(state.engine.look(shares_of, now_ns))
    _run_sessions(state, request, response, now_ns)
    if not request.decisions_only:
        response.queues_after.extend(shares_of(state.engine))
    return response


def _configured(state: ClusterState, message: configuration_pb2.Configuration) -> None:
    result = state.configure(message)
    if not result.accepted:
        raise ConfigurationRefusedError(tuple(result.problems))


def _merged(
    state: ClusterState, given: configuration_pb2.Configuration
) -> configuration_pb2.Configuration:
    """The configuration of the cluster with the given fields replaced."""
    merged = configuration_pb2.Configuration()
    if state.effective is not None:
        merged.CopyFrom(state.effective.message)
    for field, _ in given.ListFields():
        merged.ClearField(field.name)  # type: ignore[arg-type]
    merged.MergeFrom(given)
    return merged


# Objects.


def objects_in(held: ObjectSet) -> Iterator[tuple[str, Any]]:
    """Objects with the name of their kind; not wrapped, because that would copy them."""
    for word, items in (
        ("node", held.nodes),
        ("queue", held.queues),
        ("pod_group", held.pod_groups),
        ("pod", held.pods),
    ):
        for item in items:
            yield word, item
    for other in held.other_objects:
        kind = other.WhichOneof("object")
        if kind is not None:
            yield kind, getattr(other, kind)


def _add_objects(state: ClusterState, request: ScheduleRequest, now_ns: int) -> None:
    live = request.WhichOneof("source") == "cluster"
    held = request.cluster.hypothetical if live else request.inline.objects
    known = _Known(state) if live else None
    ops: list[delta_pb2.Op] = []
    if live:
        ops += [delta_pb2.Op(tombstone=ref) for ref in request.cluster.removed]
    for word, message in objects_in(held):
        kind = object_pb2.Kind.ValueType(_KINDS[word])
        old = known.uid_of(word, message) if known is not None else ""
        if not message.uid:
            message.uid = old or _key(message)
        elif old and old != message.uid:
            ops.append(delta_pb2.Op(tombstone=object_pb2.ObjectRef(kind=kind, uid=old)))
        op = delta_pb2.Op()
        op.upsert.kind, op.upsert.uid, op.upsert.revision = kind, message.uid, 1
        getattr(op.upsert.object, word).CopyFrom(message)
        ops.append(op)
    seq = state.applied_seq
    rejected, _ = state.apply(OpReader().number(seq + 1, ops), now_ns)
    if rejected:
        raise errors.ObjectsRejectedError(rejected[:MAX_REJECTED], len(rejected))


def _key(message: Any) -> str:
    namespace = getattr(message, "namespace", "")
    return f"{namespace}/{message.name}" if namespace else str(message.name)


class _Known:
    """Uids of the objects of a live cluster, by name."""

    def __init__(self, state: ClusterState) -> None:
        self._cache = state.engine.cache
        self._pods: dict[str, str] | None = None

    def uid_of(self, word: str, message: Any) -> str:
        if word == "pod":
            if self._pods is None:
                tasks = self._cache.tasks.values()
                self._pods = {task.key: task.uid for task in tasks}
            return self._pods.get(_key(message), "")
        type_ = kind_type(_KINDS[word])
        if type_ is None or word in {"service", "replica_set"}:
            return ""
        return self._cache.uid_named(type_, _key(message))


# Sessions.


def _run_sessions(
    state: ClusterState, request: ScheduleRequest, response: ScheduleResponse, now_ns: int
) -> None:
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
        if not request.decisions_only:
            for change in result.statuses:
                uid = getattr(change, "uid", "")
                statuses[type(change).__name__, uid, change.name] = write_status(change)
        if number + 1 == most or _is_quiet(result):
            break
        state.engine.apply(_apply_decisions(state, result), at_ns)
    del response.waits[:]
    waits = with_limits(state.engine, state.engine.waits[:MAX_WAITS], at_ns)
    response.waits.extend(map(write_wait, waits))
    response.statuses.extend(statuses.values())


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
    """What the next session of the trial sees: bound pods run, evicted pods are deleted."""
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


def nanoseconds(message: Duration) -> int:
    return message.seconds * _SECOND_NS + message.nanos
