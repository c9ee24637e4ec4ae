"""Explain: the current facts about a job or pod, and the history of the job."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from pumice.core.decisions import Bind
from pumice.server import errors
from pumice.server.cluster_info import write_pause
from pumice.server.clusters import Cluster, Clusters
from pumice.server.core_environment import CoreEnvironment
from pumice.server.explaining.explanation import make_explanation, read_subject
from pumice.server.explaining.facts import (
    Facts,
    Subject,
    facts_from_view,
    gather_facts,
    nearest_names,
)
from pumice.server.explaining.job_history import JobHistory, PastEviction, ReasonPeriod
from pumice.server.explaining.sentences import sentence_of
from pumice.server.records import SessionRecord
from pumice.server.served import ServedCluster
from pumice.server.whatif.replica_pool import ReplicaPool
from pumice.server.wire import write_reason
from pumice.server.wire.times import timestamp
from pumice.v1 import explanation_pb2 as pb
from pumice.v1.scheduling_service_pb2 import ExplainRequest, ExplainResponse

_DEFAULT_NODES, MAX_NODES = 5, 100
# Number of explanations that one owner computes at once. More would delay its sessions.
MAX_OWNER_QUESTIONS = 2
_FACTS_SECONDS = 10.0
# Number of gang members that a replica may place before it examines a pod.
MAX_EARLIER_MEMBERS = 20_000
# Default time to wait for facts while a session runs.
_DEFAULT_WAIT_SECONDS = 0.02
MAX_WAIT_SECONDS = 30


class Explainer:
    """Explains jobs and pods from the replica of a cluster, which no session delays.

    Without a replica, the owner collects the facts. If a session keeps the owner busy for too long,
    the facts come from the last view, which lacks only the nodes.
    """

    def __init__(self, clusters: Clusters, env: CoreEnvironment, replicas: ReplicaPool) -> None:
        self._clusters = clusters
        self._env = env
        self._replicas = replicas
        self._owner_slots: dict[str, asyncio.Semaphore] = {}

    async def explain(self, request: ExplainRequest) -> ExplainResponse:
        subject = _read_subject(request)
        cluster = self._clusters.find(request.cluster)
        max_wait = _max_wait(request)
        subject = await asyncio.to_thread(_with_history, cluster, subject)
        facts = await self._gather(cluster, subject, max_wait)
        updated = await asyncio.to_thread(_with_history, cluster, subject)
        if updated != subject and not facts.without_nodes:
            # A session ended in between and names another blocking pod.
            facts = await self._gather(cluster, updated, max_wait)
        records = cluster.history.newest_first()
        return await asyncio.to_thread(_read, cluster, subject, facts, records)

    def forget(self, cluster: Cluster) -> None:
        self._owner_slots.pop(cluster.name, None)

    async def _gather(self, cluster: Cluster, subject: Subject, max_wait: float) -> Facts:
        now_ns = self._env.clock.now_ns()
        replica = self._replicas.ready(cluster)
        if replica is not None:
            with suppress(errors.TrialLostError):
                thorough = replace(subject, max_earlier=MAX_EARLIER_MEMBERS)
                return await replica.gather_facts(thorough, now_ns, _FACTS_SECONDS)
        owner_task = asyncio.create_task(self._ask_owner(cluster, subject, now_ns))
        try:
            await asyncio.wait({owner_task}, timeout=max_wait)
            facts = None if owner_task.done() else await _facts_from_view(cluster, subject)
            return await owner_task if facts is None else facts
        finally:
            owner_task.cancel()

    async def _ask_owner(self, cluster: Cluster, subject: Subject, now_ns: int) -> Facts:
        slots = self._owner_slots.setdefault(cluster.name, asyncio.Semaphore(MAX_OWNER_QUESTIONS))
        async with slots:
            facts = await cluster.owner.call(lambda served: _gather(served, subject, now_ns))
        if facts is None:
            raise errors.NotReadyError(cluster.name)
        return facts


async def _facts_from_view(cluster: Cluster, subject: Subject) -> Facts | None:
    """Facts from the last view while a session runs; None: no view, or the session has ended."""
    views = cluster.served.views
    view = views.during_session()
    if view is None:
        return None
    facts = await asyncio.to_thread(facts_from_view, view, subject)
    return facts if views.is_current(view) else None


def _gather(served: ServedCluster, subject: Subject, now_ns: int) -> Facts | None:
    """None: no complete snapshot."""
    return gather_facts(served.state, subject, now_ns) if served.complete else None


def _with_history(cluster: Cluster, subject: Subject) -> Subject:
    """Adds facts from the job histories to a subject."""
    with cluster.job_histories.lock:
        cluster.job_histories.apply_new()
        if subject.is_pod:
            return replace(
                subject, evicted=cluster.job_histories.eviction_of(subject.key) is not None
            )
        history = cluster.job_histories.of_name(subject.key)
    if history is None or not history.reasons:
        return replace(subject, waits=False, blocking="")
    named = next((reason.task for reason in history.reasons if reason.task), "")
    return replace(subject, waits=True, blocking=named)


def _read_subject(request: ExplainRequest) -> Subject:
    count = request.nearest_node_count
    subject = read_subject(request, nodes=count or _DEFAULT_NODES)
    if not 0 <= count <= MAX_NODES:
        problem = f"{count} is not between 0 and {MAX_NODES}"
        raise errors.RequestFieldError("nearest_node_count", problem)
    return subject


def _max_wait(request: ExplainRequest) -> float:
    if not request.HasField("max_wait"):
        return _DEFAULT_WAIT_SECONDS
    seconds = request.max_wait.seconds + request.max_wait.nanos / 1e9
    if not 0 <= seconds <= MAX_WAIT_SECONDS:
        problem = f"{seconds:g} s is not between 0 and {MAX_WAIT_SECONDS} s"
        raise errors.RequestFieldError("max_wait", problem)
    return seconds


def _read(
    cluster: Cluster, subject: Subject, facts: Facts, records: list[SessionRecord]
) -> ExplainResponse:
    with cluster.job_histories.lock:
        cluster.job_histories.apply_new()
        return _explained(cluster, subject, facts, records)


def _explained(
    cluster: Cluster, subject: Subject, facts: Facts, records: list[SessionRecord]
) -> ExplainResponse:
    histories = cluster.job_histories
    evicted = histories.eviction_of(subject.key) if subject.is_pod else None
    job = facts.job or (evicted.order.job if evicted is not None else "")
    if not subject.is_pod and not job:
        job = subject.key
    history = histories.of_job(job) if job else None
    known = bool(facts.job) or bool(facts.pod) or evicted is not None
    if not known and (subject.is_pod or history is None):
        kind = "pod" if subject.is_pod else "job"
        near = nearest_names(subject.key, facts.names)
        raise errors.UnknownSubjectError(kind, subject.key, near)
    facts.job = job
    reasons = history.reasons if history is not None else ()
    explanation = make_explanation(facts, subject, reasons)
    if history is not None:
        _add_history(explanation, history, subject)
    elif evicted is not None:
        explanation.evictions.append(_eviction(evicted))
    _add_placements(explanation, facts, history, records)
    explanation.sentence = sentence_of(facts, explanation)
    pause = cluster.served.pause
    if pause is not None:
        message = f"{pause.message[0].upper()}{pause.message[1:]}"
        explanation.sentence = f"{message}. {explanation.sentence}"
    return ExplainResponse(
        explanation=explanation,
        based_on_seq=facts.based_on_seq,
        session=facts.session,
        without_nodes=facts.without_nodes,
        pause=write_pause(cluster.served.pause),
    )


def _add_history(explanation: pb.Explanation, history: JobHistory, subject: Subject) -> None:
    explanation.history.extend(_period(period) for period in history.periods)
    explanation.evictions.extend(
        _eviction(evicted)
        for evicted in history.evictions
        if not subject.is_pod or evicted.pod == subject.key
    )


def _period(period: ReasonPeriod) -> pb.ReasonPeriod:
    return pb.ReasonPeriod(
        reason=write_reason(period.reason),
        first_seen_time=timestamp(period.first_ns),
        last_seen_time=timestamp(period.last_ns),
        session_count=period.sessions,
        current=period.current,
    )


def _eviction(evicted: PastEviction) -> pb.Eviction:
    order = evicted.order
    return pb.Eviction(
        pod=order.name,
        node=order.node,
        for_job=order.for_job,
        reason=order.reason,
        session=evicted.session,
        decision_time=timestamp(evicted.now_ns),
        decision_id=order.id,
    )


def _add_placements(
    explanation: pb.Explanation,
    facts: Facts,
    history: JobHistory | None,
    records: list[SessionRecord],
) -> None:
    wanted = {uid: name for name, uid in facts.placed_uids.items()}
    sessions = set(history.bound_in) if history is not None else set()
    decided: dict[str, tuple[SessionRecord, Bind]] = {}
    for kept in records:
        if kept.number in sessions and kept.result is not None:
            for decision in kept.result.decisions:
                if decision.uid in wanted and isinstance(decision, Bind):
                    decided.setdefault(wanted[decision.uid], (kept, decision))
    for placement in facts.placements:
        if placement.pod in decided:
            kept, bind = decided[placement.pod]
            placement.session = kept.number
            placement.decision_time.CopyFrom(kept.summary.start_time)
            placement.decision_id = bind.id
            placement.action = kept.result.action_of(bind) if kept.result is not None else ""
        explanation.placements.append(placement)
