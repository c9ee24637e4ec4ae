"""The cluster of a trial with no pods except those of one job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pumice.core.cache.checkpoint import Checkpoint
from pumice.core.cache.jobs import Job
from pumice.core.decisions import Bind
from pumice.core.deltas import ClusterObject, Deleted, Upserted
from pumice.core.engine import Engine
from pumice.core.model.devices import ResourceClaim
from pumice.core.model.group import PodGroup
from pumice.core.model.reasons import Reason
from pumice.core.model.storage import VolumeAttachment
from pumice.server.explaining.reached_limits import with_limits
from pumice.server.state import ClusterState

# Objects that belong to pods, or show what pods use.
_OF_PODS = (PodGroup, ResourceClaim, VolumeAttachment)


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
