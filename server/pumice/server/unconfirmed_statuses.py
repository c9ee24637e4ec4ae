"""Statuses that were sent and not yet confirmed. A broken stream may have lost them."""

from __future__ import annotations

from collections.abc import Iterable

from pumice.core.decisions import (
    NodeShardStatusChanged,
    PodConditionChanged,
    PodGateLifted,
    PodGroupStatusChanged,
    QueueStatusChanged,
    StatusChange,
)
from pumice.v1 import object_pb2

_KINDS: dict[type[StatusChange], int] = {
    PodGroupStatusChanged: object_pb2.KIND_POD_GROUP,
    QueueStatusChanged: object_pb2.KIND_QUEUE,
    PodConditionChanged: object_pb2.KIND_POD,
    NodeShardStatusChanged: object_pb2.KIND_NODE_SHARD,
    PodGateLifted: object_pb2.KIND_POD,
}


class UnconfirmedStatuses:
    """The last status sent for each object, until an update of the object arrives."""

    def __init__(self) -> None:
        self._by_object: dict[tuple[int, str], StatusChange] = {}

    def sent(self, changes: Iterable[StatusChange]) -> None:
        for change in changes:
            self._by_object[_KINDS[type(change)], change.uid] = change

    def confirmed(self, objects: Iterable[tuple[int, str]]) -> None:
        if self._by_object:
            for key in objects:
                self._by_object.pop(key, None)

    def all(self) -> tuple[StatusChange, ...]:
        return tuple(self._by_object.values())
