"""A binder and evictor that change nothing and wait for the other scheduler."""

from collections.abc import Callable

from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult
from pumice.adapters.shadow.comparison import Comparison
from pumice.v1.decision_pb2 import Bind, Evict
from pumice.v1.status_pb2 import Event, StatusChange

_NOT_DONE = "not applied, because this adapter is a shadow"


class ShadowBinder:
    """Binder and evictor of a shadow.

    The result of a decision is WAITING while it is compared, and then that the pod is elsewhere. The
    core assumes its decision for a moment, as if it scheduled the cluster, and then sees the actual
    state. No result is a failure, because after failures a core skips a job for some time, and
    would decide differently than without a shadow.
    """

    def __init__(
        self, comparison: Comparison, clock: Clock, recheck: Callable[[str], None]
    ) -> None:
        self._comparison, self._clock, self._recheck = comparison, clock, recheck

    async def bind(self, order: Bind) -> ApplyResult:
        left = self._comparison.propose_bind(order, self._clock.now())
        if left > 0:
            return _waiting(left)
        node = self._comparison.node_of(order.uid)
        self._recheck(order.uid)
        if node is None:
            return ApplyResult(ApplyCode.NOT_FOUND)
        # Another node than the decided one, or none, is not a failure.
        return ApplyResult(ApplyCode.PLACED, "" if node else _NOT_DONE, node)

    async def evict(self, order: Evict) -> ApplyResult:
        left = self._comparison.propose_eviction(order, self._clock.now())
        if left > 0:
            return _waiting(left)
        node = self._comparison.node_of(order.uid)
        is_evicted = self._comparison.is_evicted(order.uid)
        self._recheck(order.uid)
        if node is None:
            return ApplyResult(ApplyCode.NOT_FOUND)
        # For an eviction, too, PLACED is not a failure.
        return DONE if is_evicted else ApplyResult(ApplyCode.PLACED, _NOT_DONE, node)


class ShadowStatusUpdater:
    """Counts statuses and events instead of writing them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def write_status(self, change: StatusChange) -> ApplyResult:
        self._metrics.count("shadow_unwritten", what="status")
        return DONE

    async def write_event(self, event: Event) -> ApplyResult:
        self._metrics.count("shadow_unwritten", what="event")
        return DONE


def _waiting(left: float) -> ApplyResult:
    return ApplyResult(ApplyCode.WAITING, _NOT_DONE, retry_after_seconds=left)
