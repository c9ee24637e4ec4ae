"""Verdicts on waiting jobs, from the reasons in the cluster and in an empty cluster."""

from __future__ import annotations

from collections.abc import Iterable

from pumice.core.cache.jobs import Job
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.resources import Resources
from pumice.v1 import job_result_pb2 as pb

# Reasons that neither time nor free resources resolve.
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
_RESOURCES = frozenset(
    {
        ReasonCode.NO_NODE_FITS,
        ReasonCode.NO_DOMAIN_FITS,
        ReasonCode.NO_LABEL_DOMAIN_FITS,
        ReasonCode.GANG_SHORT,
        ReasonCode.CLUSTER_OVERCOMMITTED,
    }
)


def is_held(reasons: Iterable[Reason]) -> bool:
    """Whether the job cannot start until a user or operator changes something."""
    return any(reason.code in _HELD for reason in reasons)


def is_limited(reasons: Iterable[Reason], total: Resources) -> bool:
    """Whether a limit of a queue or namespace holds the job back.

    A queue without a limit of its own may use the whole cluster, which does not count as a limit.
    """
    found = [reason for reason in reasons if reason.code in _LIMITS]
    limits = [limit for reason in found for limit in reason.limits]
    if not limits or any(reason.code is not ReasonCode.QUEUE_QUOTA for reason in found):
        return bool(found)
    return any(limit.allowed < total.get(limit.resource) for limit in limits)


def verdict_of(job: Job, alone: tuple[Reason, ...], total: Resources) -> pb.JobVerdict.ValueType:
    """The verdict on a job that would also wait in an empty cluster."""
    if is_held(alone):
        return pb.JOB_VERDICT_HELD
    if is_limited(alone, total):
        return pb.JOB_VERDICT_ABOVE_LIMIT
    codes = {reason.code for reason in alone}
    # Volumes and devices may become free, and missing claims may be created.
    specs = [task.pod.spec for task in job.index.tasks.values()]
    claims = any(spec.volumes or spec.resource_claims for spec in specs)
    never = not claims and codes & (_RESOURCES | _LIMITS)
    return pb.JOB_VERDICT_NEVER_FITS if never else pb.JOB_VERDICT_NOT_NOW
