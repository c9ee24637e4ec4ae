"""Reasons as sessions gave them, made clearer by what is known besides."""

from __future__ import annotations

from dataclasses import replace

from pumice.core.model.group import QueueState
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.server.explaining.sight import Sight


def clarified(sight: Sight, reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """The same reasons; pods behind gates are named, a closed queue is called closed, and of a
    full one it is said what it is full of.
    """
    found = [_with_limits(sight, _queue_as_it_is(sight, reason)) for reason in reasons]
    if sight.gated and not any(reason.code is ReasonCode.GATED for reason in found):
        found.append(Reason("core", ReasonCode.GATED, task=sight.gated, subjects=sight.gates))
    return tuple(dict.fromkeys(found))


def _queue_as_it_is(sight: Sight, reason: Reason) -> Reason:
    """A queue that is not open refuses pods in the same way as one that is full."""
    shut = sight.queue_state not in (None, QueueState.OPEN)
    if reason.code is not ReasonCode.QUEUE_QUOTA or reason.subjects or not shut:
        return reason
    return Reason(reason.author, ReasonCode.QUEUE_NOT_OPEN, subjects=(sight.queue,))


def _with_limits(sight: Sight, reason: Reason) -> Reason:
    if reason.code is not ReasonCode.QUEUE_QUOTA or reason.limits:
        return reason
    if reason.task and reason.task != sight.blocking:
        return reason
    limits = sight.limits.of_reason(reason)
    return replace(reason, limits=limits) if limits else reason
