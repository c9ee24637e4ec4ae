"""Makes explanations of jobs and pods from facts and reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pumice.core.model.group import QueueState
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.server import errors
from pumice.server.explaining.facts import Facts, Subject, find_job_id, gather_facts
from pumice.server.explaining.sentences import sentence_of
from pumice.server.explaining.stages import stages_of
from pumice.server.state import ClusterState
from pumice.v1 import explanation_pb2 as pb
from pumice.v1.scheduling_service_pb2 import EstimateStartRequest, ExplainRequest


def read_subject(request: ExplainRequest | EstimateStartRequest, nodes: int) -> Subject:
    """The job or pod that a request names. Raises RequestFieldError."""
    which = request.WhichOneof("subject")
    if which is None:
        raise errors.RequestFieldError("subject", "is missing; set job or pod")
    named = request.job if which == "job" else request.pod
    for field in ("namespace", "name"):
        value = getattr(named, field)
        if not value or "/" in value:
            problem = f"{value!r} is not a name: it contains '/'" if value else "is missing"
            raise errors.RequestFieldError(f"{which}.{field}", problem)
    return Subject(named.namespace, named.name, which == "pod", nodes)


def make_explanation(facts: Facts, subject: Subject, reasons: tuple[Reason, ...]) -> pb.Explanation:
    """An explanation without history, placements and sentence; completes the reasons."""
    facts.reasons = _completed_reasons(facts, reasons)
    return pb.Explanation(
        job=facts.job,
        pod=subject.name if subject.is_pod else "",
        queue=facts.queue,
        phase=facts.phase,
        blocking_pod=facts.blocking,
        nearest_nodes=facts.nearest,
        stages=stages_of(facts, facts.reasons),
    )


def _completed_reasons(facts: Facts, reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """Adds gated pods, closed queues, and the limits of full queues."""
    found = [_with_limits(facts, _with_queue_state(facts, reason)) for reason in reasons]
    if facts.gated and not any(reason.code is ReasonCode.GATED for reason in found):
        found.append(Reason("core", ReasonCode.GATED, task=facts.gated, subjects=facts.gates))
    return tuple(dict.fromkeys(found))


def _with_queue_state(facts: Facts, reason: Reason) -> Reason:
    """A session gives the same reason for a closed queue and for a full one."""
    closed = facts.queue_state not in (None, QueueState.OPEN)
    if reason.code is not ReasonCode.QUEUE_QUOTA or reason.subjects or not closed:
        return reason
    return Reason(reason.author, ReasonCode.QUEUE_NOT_OPEN, subjects=(facts.queue,))


def _with_limits(facts: Facts, reason: Reason) -> Reason:
    if reason.code is not ReasonCode.QUEUE_QUOTA or reason.limits:
        return reason
    if reason.task and reason.task != facts.blocking:
        return reason
    limits = facts.limits.of_reason(reason)
    return replace(reason, limits=limits) if limits else reason


def explain_in_trial(
    state: ClusterState,
    subject: Subject,
    waits: Mapping[str, tuple[Reason, ...]],
    now_ns: int,
) -> tuple[pb.Explanation, Facts]:
    """Explains a job or pod in a trial. The facts of an unknown one have no job and no pod.

    ``waits`` has the reasons of the last session by job.
    """
    if not subject.is_pod:
        reasons = waits.get(find_job_id(state.engine.cache.jobs, subject) or "", ())
        named = next((reason.task for reason in reasons if reason.task), "")
        subject = replace(subject, waits=bool(reasons), blocking=named)
    facts = gather_facts(state, subject, now_ns)
    explanation = make_explanation(facts, subject, waits.get(facts.job, ()))
    explanation.placements.extend(facts.placements)
    explanation.sentence = sentence_of(facts, explanation)
    return explanation, facts
