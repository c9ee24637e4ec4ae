"""Decisions that were applied, but that no version of their pod shows yet.

The watch reports a bind or an eviction some time after the call, and until then the core relies on its
assumption. A core that gets a snapshot has no assumptions. If the snapshot did not show these
decisions, the core would bind the pods again, or evict others in their place.
"""

from pumice.v1.decision_pb2 import Bind, Evict
from pumice.v1.object_pb2 import ClusterObject


class UnseenDecisions:
    """Remembers decisions from their first call until a version of the pod shows them."""

    def __init__(self) -> None:
        # By the uid of the pod: the bind, None before its outcome; whether the eviction was applied.
        self._binds: dict[str, Bind | None] = {}
        self._evictions: dict[str, bool] = {}

    def __len__(self) -> int:
        return len(self._binds) + len(self._evictions)

    def begin(self, order: Bind | Evict) -> None:
        """Notes a decision before its call: the watch may be faster than the response."""
        if isinstance(order, Bind):
            self._binds.setdefault(order.uid, None)
        else:
            self._evictions.setdefault(order.uid, False)

    def end(self, order: Bind | Evict, *, is_applied: bool) -> None:
        """Notes the outcome of a decision, unless the pod has shown it already."""
        if not is_applied:
            (self._binds if isinstance(order, Bind) else self._evictions).pop(order.uid, None)
        elif isinstance(order, Evict):
            if order.uid in self._evictions:
                self._evictions[order.uid] = True
        elif order.uid in self._binds:
            self._binds[order.uid] = order

    def forget(self, uid: str) -> None:
        """Forgets the decisions about a pod that was deleted."""
        self._binds.pop(uid, None)
        self._evictions.pop(uid, None)

    def applied_uids(self) -> list[str]:
        """The pods with a decision that was applied and not seen."""
        bound = [uid for uid, order in self._binds.items() if order is not None]
        evicted = [uid for uid, is_applied in self._evictions.items() if is_applied]
        return list(dict.fromkeys((*bound, *evicted)))

    def complete(self, version: ClusterObject) -> ClusterObject:
        """A version of a pod, completed by the applied decisions that it does not show.

        A pod never loses its node or its deletion, so a version without them is older than the
        decision. Decisions that the version shows are forgotten.
        """
        pod = version.pod
        if pod.node_name:
            self._binds.pop(pod.uid, None)
        if pod.terminating:
            self._evictions.pop(pod.uid, None)
        bind, is_evicted = self._binds.get(pod.uid), self._evictions.get(pod.uid, False)
        if bind is None and not is_evicted:
            return version
        completed = ClusterObject()
        completed.CopyFrom(version)
        if bind is not None:
            completed.pod.node_name = bind.node
            completed.pod.annotations.update(bind.annotations)
        if is_evicted:
            completed.pod.terminating = True
        return completed
