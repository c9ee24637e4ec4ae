"""Locks of nodes: the device plugin of a node serves one pod at a time.

A lock is an annotation of the node with a time. The adapter sets it before it binds a pod, and the
device plugin removes it when the pod has its cards. A lock is void after five minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from pumice.core.cache.nodes import NodeTable
from pumice.core.cache.tasks import TaskClass
from pumice.core.model.status import TaskStatus

LOCKED = "node has been locked within 5 minutes"
_VALID_NS = 5 * 60 * 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BINDING = TaskStatus.BINDING


class NodeLocks:
    """The nodes that are locked in a session: by their annotation, or by a pod that is being bound."""

    def __init__(
        self,
        names: tuple[str, ...],
        table: NodeTable,
        now_ns: int,
        concerns: Callable[[TaskClass], bool],
    ) -> None:
        self._names = names
        self._table, self._now_ns, self._concerns = table, now_ns, concerns
        # By row: the pod that was placed in this session.
        self._taken: dict[int, str] = {}
        # By row: when the lock of the annotation ends.
        self.ends: dict[int, int] = {}

    def holds(self, row: int) -> bool:
        if row in self._taken:
            return True
        entry = self._table.rows[row]
        said = {} if entry.node is None else entry.node.annotations
        for text in filter(None, map(said.get, self._names)):
            end = _end_ns(text)
            if end is None or end > self._now_ns:
                self.ends[row] = self._now_ns + _VALID_NS if end is None else end
                return True
        return any(
            task.status is _BINDING and self._concerns(task.class_) for task in entry.tasks.values()
        )

    def reserve(self, row: int, pod_uid: str) -> None:
        self._taken[row] = pod_uid

    def unreserve(self, row: int, pod_uid: str) -> None:
        if self._taken.get(row) == pod_uid:
            del self._taken[row]


def _end_ns(text: str) -> int | None:
    """When a lock ends; None: the time cannot be read, and the lock holds, as in Volcano."""
    try:
        since = datetime.fromisoformat(text)
    except ValueError:
        return None
    if since.tzinfo is None:
        return None
    microseconds = (since - _EPOCH) // timedelta(microseconds=1)
    return microseconds * 1_000 + _VALID_NS
