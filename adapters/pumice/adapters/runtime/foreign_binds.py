"""Detects binds of our pods by another scheduler."""

import logging
from collections.abc import Callable, Collection
from typing import Final

from pumice.adapters.runtime.clock import Clock
from pumice.adapters.runtime.metrics import Metrics
from pumice.v1.decision_pb2 import Bind
from pumice.v1.object_pb2 import KIND_POD
from pumice.v1.pod_pb2 import POD_PHASE_PENDING, POD_PHASE_RUNNING, Pod
from pumice.v1.status_pb2 import Event

log = logging.getLogger(__name__)

_REASON: Final = "BoundByOtherScheduler"
# Interval between log lines and between events.
_INTERVAL_SECONDS: Final = 60.0
# Time for which binds of the previous leader may still be seen.
_HANDOVER_SECONDS: Final = 2.0


class ForeignBinds:
    """Counts binds of our pods by other schedulers while this adapter leads, and warns."""

    def __init__(
        self,
        scheduler_names: Collection[str],
        leads: Callable[[], bool],
        report: Callable[[Event], None],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._names, self._leads = frozenset(scheduler_names), leads
        self._report, self._clock, self._metrics = report, clock, metrics
        # Pods without a node, and the nodes that this adapter chose.
        self._pending: set[str] = set()
        self._decided: dict[str, str] = {}
        # Pods that were bound to these nodes and do not run yet.
        self._starting: set[str] = set()
        self._leads_since: float | None = None
        self._warned_at: float | None = None
        self._unreported = 0
        self.count = 0
        # The last such bind, for messages.
        self.last = ""

    def note_bind(self, order: Bind) -> None:
        """Notes a bind that this adapter is about to make, unless the pod was deleted."""
        if order.uid in self._pending:
            self._decided[order.uid] = order.node

    def note_pod(self, pod: Pod) -> bool:
        """Notes a version of a pod from the watch.

        Returns whether it only shows a bind of this adapter, or that the pod runs after it.
        """
        if not self._names or pod.spec.scheduler_name not in self._names:
            return False
        if not pod.node_name:
            self._pending.add(pod.uid)
            return False
        decided = self._decided.pop(pod.uid, "")
        if pod.uid in self._pending:
            self._pending.discard(pod.uid)
            if decided != pod.node_name and self._is_leading():
                self._warn(pod)
        return self._is_expected(pod, decided)

    def _is_expected(self, pod: Pod, decided: str) -> bool:
        is_bound = decided == pod.node_name and not pod.terminating
        if pod.phase == POD_PHASE_PENDING:
            if is_bound:
                self._starting.add(pod.uid)
            return is_bound
        was_bound = pod.uid in self._starting and not pod.terminating
        self._starting.discard(pod.uid)
        return pod.phase == POD_PHASE_RUNNING and (is_bound or was_bound)

    def forget_pod(self, uid: str) -> None:
        self._pending.discard(uid)
        self._starting.discard(uid)
        self._decided.pop(uid, None)

    def _is_leading(self) -> bool:
        """Whether this adapter has led long enough that a bind cannot be of the previous leader."""
        if not self._leads():
            self._leads_since = None
            return False
        if self._leads_since is None:
            self._leads_since = self._clock.now()
        return self._clock.now() - self._leads_since >= _HANDOVER_SECONDS

    def _warn(self, pod: Pod) -> None:
        self.count += 1
        self._unreported += 1
        self._metrics.count("foreign_binds")
        self.last = f"pod {pod.namespace}/{pod.name} to node {pod.node_name}"
        now = self._clock.now()
        if self._warned_at is not None and now - self._warned_at < _INTERVAL_SECONDS:
            return
        log.warning(
            "another scheduler binds pods of %s: %d since the last warning, such as %s; stop it,"
            " or the two place pods on the same resources",
            "/".join(sorted(self._names)),
            self._unreported,
            self.last,
        )
        self._warned_at, self._unreported = now, 0
        message = f"bound to {pod.node_name} by a scheduler that is not the leader"
        self._report(
            Event(
                kind=KIND_POD,
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                warning=True,
                reason=_REASON,
                message=message,
            )
        )
