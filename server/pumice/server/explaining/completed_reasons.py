"""Completes the reasons of a session with facts about the job."""

from __future__ import annotations

from dataclasses import replace

from pumice.core.model.group import QueueState
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.server.explaining.facts import Facts


def completed_reasons(facts: Facts, reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
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
