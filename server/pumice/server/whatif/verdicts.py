"""Verdicts from the reasons of sessions: with the cluster as it is, and with an empty one."""

from __future__ import annotations

from collections.abc import Iterable

from pumice.core.cache.jobs import Job
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.resources import Resources
from pumice.v1 import job_result_pb2 as pb

# Neither time nor room ends these.
_HELD = frozenset(
    {
        ReasonCode.QUEUE_MISSING,
        ReasonCode.QUEUE_NOT_OPEN,
        ReasonCode.GANG_INVALID,
        ReasonCode.GATED,
        ReasonCode.PLUGIN_FAULT,
        ReasonCode.CAPABILITY_MISSING,
        ReasonCode.TOPOLOGY_NOT_READY,
        ReasonCode.TIER_UNKNOWN,
    }
)
_LIMITS = frozenset({ReasonCode.QUEUE_QUOTA, ReasonCode.QUEUE_OVERUSED, ReasonCode.NAMESPACE_QUOTA})
_ROOM = frozenset(
    {
        ReasonCode.NO_NODE_FITS,
        ReasonCode.NO_DOMAIN_FITS,
        ReasonCode.NO_LABEL_DOMAIN_FITS,
        ReasonCode.GANG_SHORT,
        ReasonCode.CLUSTER_OVERCOMMITTED,
    }
)


def held_back(reasons: Iterable[Reason]) -> bool:
    """Whether somebody must change something before the job can start."""
    return any(reason.code in _HELD for reason in reasons)


def limited(reasons: Iterable[Reason], total: Resources) -> bool:
    """Whether a limit of a queue or namespace holds the job back.

    A queue without a limit of its own may have the whole cluster; that is not a limit here.
    """
    found = [reason for reason in reasons if reason.code in _LIMITS]
    limits = [limit for reason in found for limit in reason.limits]
    if not limits or any(reason.code is not ReasonCode.QUEUE_QUOTA for reason in found):
        return bool(found)
    return any(limit.allowed < total.get(limit.resource) for limit in limits)


def verdict_of(job: Job, alone: tuple[Reason, ...], total: Resources) -> pb.JobVerdict.ValueType:
    """The verdict for a job that would wait in an empty cluster, too."""
    if held_back(alone):
        return pb.JOB_VERDICT_HELD
    if limited(alone, total):
        return pb.JOB_VERDICT_ABOVE_LIMIT
    codes = {reason.code for reason in alone}
    # Volumes and devices that others hold may become free, and missing claims may come.
    specs = [task.pod.spec for task in job.index.tasks.values()]
    claims = any(spec.volumes or spec.resource_claims for spec in specs)
    never = not claims and codes & (_ROOM | _LIMITS)
    return pb.JOB_VERDICT_NEVER_FITS if never else pb.JOB_VERDICT_NOT_NOW
