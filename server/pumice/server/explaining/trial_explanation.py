"""Explains a job or pod in a trial, which has no history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pumice.core.model.reasons import Reason
from pumice.server.explaining.completed_reasons import completed_reasons
from pumice.server.explaining.facts import Facts, Subject, find_job_id, gather_facts
from pumice.server.explaining.sentences import sentence_of
from pumice.server.explaining.stages import stages_of
from pumice.server.state import ClusterState
from pumice.v1 import explanation_pb2 as pb


def explain_in_trial(
    state: ClusterState,
    subject: Subject,
    waits: Mapping[str, tuple[Reason, ...]],
    now_ns: int,
) -> tuple[pb.Explanation, Facts]:
    """The explanation and its facts, which have no job and no pod for an unknown subject.

    ``waits`` has the reasons of the last session by job.
    """
    if not subject.is_pod:
        reasons = waits.get(find_job_id(state.engine.cache.jobs, subject) or "", ())
        named = next((reason.task for reason in reasons if reason.task), "")
        subject = replace(subject, waits=bool(reasons), blocking=named)
    facts = gather_facts(state, subject, now_ns)
    facts.reasons = completed_reasons(facts, waits.get(facts.job, ()))
    explanation = pb.Explanation(
        job=facts.job,
        pod=subject.name if subject.is_pod else "",
        queue=facts.queue,
        phase=facts.phase,
        blocking_pod=facts.blocking,
        nearest_nodes=facts.nearest,
        stages=stages_of(facts, facts.reasons),
        placements=facts.placements,
    )
    explanation.sentence = sentence_of(facts, explanation)
    return explanation, facts
