"""Verdicts on waiting jobs, from the reasons in the cluster and in an empty cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pumice.core.cache.checkpoint import Checkpoint
from pumice.core.cache.jobs import Job
from pumice.core.decisions import Bind
from pumice.core.deltas import ClusterObject, Deleted, Upserted
from pumice.core.engine import Engine
from pumice.core.model.devices import ResourceClaim
from pumice.core.model.group import PodGroup
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.model.resources import Resources
from pumice.core.model.storage import VolumeAttachment
from pumice.server.explaining.reached_limits import with_limits
from pumice.server.state import ClusterState
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
# Objects that belong to pods, or show what pods use.
_OF_PODS = (PodGroup, ResourceClaim, VolumeAttachment)


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


class EmptyCluster:
    """A copy of a cluster with its nodes, queues and configuration, but without pods."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        live = state.engine
        self._engine = Engine(live.configuration, live.cache.settings, live.registry)
        self._engine.restore(Checkpoint(0, tuple(_without_pods(live))))

    def why_not(self, job: Job, now_ns: int) -> tuple[Reason, ...]:
        """Why no pod of a job would be placed in the empty cluster; empty: some pod would."""
        added = [*self._objects_of(job)]
        self._engine.apply([Upserted(each) for each in added], now_ns)
        result = self._engine.schedule(now_ns)
        waits = [wait for wait in result.waits if wait.job == job.id]
        if any(isinstance(each, Bind) for each in result.decisions):
            waits = []
        reasons = [
            each for wait in with_limits(self._engine, waits, now_ns) for each in wait.reasons
        ]
        self._engine.forget_all(now_ns)
        self._engine.apply([Deleted(type(each), each.uid) for each in added], now_ns)
        return tuple(reasons)

    def _objects_of(self, job: Job) -> Iterator[ClusterObject]:
        if job.group is not None:
            yield job.group
        tasks = list(job.index.tasks.values())
        names = {
            f"{task.pod.namespace}/{claim.claim_name}"
            for task in tasks
            for claim in task.pod.spec.resource_claims
        }
        yield from self._claims(names)
        for task in tasks:
            yield task.pod

    def _claims(self, keys: Iterable[str]) -> Iterator[ResourceClaim]:
        claims = self._state.engine.cache.devices.claims
        for key in sorted(keys):
            claim = claims.get(key)
            if claim is not None:
                yield claim


def _without_pods(engine: Engine) -> Iterator[ClusterObject]:
    for store in engine.cache.stores:
        for item in store:
            if not isinstance(item, _OF_PODS):
                yield item
