"""Hands that touch nothing: they note what they were told to do, and wait for somebody else to."""

from collections.abc import Callable

from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.world import DONE, ApplyCode, ApplyResult
from pumice.adapters.shadow.comparison import Comparison
from pumice.v1.decision_pb2 import Bind, Evict
from pumice.v1.status_pb2 import Event, StatusChange

_NOT_DONE = "only a shadow: nobody carried it out"


class ShadowHands:
    """Binder and evictor.

    A decision is answered with "under way" until it has stood its time, then with "the pod is
    elsewhere": so the core takes its own decision for true for a moment, as it would if it ran the
    cluster, and then sees the cluster as it is. No answer is ever a failure, because failures make
    jobs cool down and the core would decide otherwise than it would without a shadow.
    """

    def __init__(
        self, comparison: Comparison, clock: Clock, look_again: Callable[[str], None]
    ) -> None:
        self._comparison, self._clock, self._look_again = comparison, clock, look_again

    async def bind(self, order: Bind) -> ApplyResult:
        left = self._comparison.propose_bind(order, self._clock.now())
        if left > 0:
            return _under_way(left)
        node = self._comparison.node_of(order.uid)
        self._look_again(order.uid)
        if node is None:
            return ApplyResult(ApplyCode.NOT_FOUND)
        # A node that is not the one decided on, be it none, is no failure.
        return ApplyResult(ApplyCode.PLACED, "" if node else _NOT_DONE, node)

    async def evict(self, order: Evict) -> ApplyResult:
        left = self._comparison.propose_eviction(order, self._clock.now())
        if left > 0:
            return _under_way(left)
        node = self._comparison.node_of(order.uid)
        is_evicted = self._comparison.is_evicted(order.uid)
        self._look_again(order.uid)
        if node is None:
            return ApplyResult(ApplyCode.NOT_FOUND)
        # For an eviction, too, "the pod is on a node" is no failure.
        return DONE if is_evicted else ApplyResult(ApplyCode.PLACED, _NOT_DONE, node)


class ShadowStatusUpdater:
    """Takes statuses and events and lets them fall."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def write_status(self, change: StatusChange) -> ApplyResult:
        self._metrics.count("shadow_unwritten", what="status")
        return DONE

    async def write_event(self, event: Event) -> ApplyResult:
        self._metrics.count("shadow_unwritten", what="event")
        return DONE


def _under_way(left: float) -> ApplyResult:
    return ApplyResult(ApplyCode.WAITING, _NOT_DONE, retry_after_seconds=left)
