"""Events of a what-if run, ordered by time, and the resulting ops for the core."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from pumice.v1 import decision_pb2, delta_pb2, object_pb2
from pumice.v1.configuration_pb2 import Configuration


class EventHeap:
    """Planned events; simultaneous events happen in the order in which they were planned."""

    def __init__(self, start_ns: int) -> None:
        self.now_ns = start_ns
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0

    def at(self, at_ns: int, action: Callable[..., None], *arguments: Any) -> None:
        """Plans an event; an event in the past happens now."""
        self._count += 1
        heapq.heappush(self._heap, (max(at_ns, self.now_ns), self._count, action, arguments))

    def after(self, delay_ns: int, action: Callable[..., None], *arguments: Any) -> None:
        self.at(self.now_ns + delay_ns, action, *arguments)

    def next_ns(self) -> int | None:
        """The time of the next event; None if there is none."""
        return self._heap[0][0] if self._heap else None

    def run_until(self, until_ns: int) -> None:
        while self._heap and self._heap[0][0] <= until_ns:
            self.now_ns, _, action, arguments = heapq.heappop(self._heap)
            action(*arguments)
        self.now_ns = until_ns


class PendingOps:
    """Changes of the cluster that the core has not received yet."""

    def __init__(self) -> None:
        self._ops: list[delta_pb2.Op] = []

    def take(self) -> list[delta_pb2.Op]:
        ops, self._ops = self._ops, []
        return ops

    def configure(self, configuration: Configuration) -> None:
        self._ops.append(delta_pb2.Op(configuration=configuration))

    def upsert(self, item: object_pb2.ClusterObject) -> None:
        field = item.WhichOneof("object") or ""
        # The number of the field is the number of the kind.
        number = item.DESCRIPTOR.fields_by_name[field].number
        upsert = delta_pb2.Upsert(
            kind=object_pb2.Kind.ValueType(number),
            uid=getattr(item, field).uid,
            revision=1,
            object=item,
        )
        self._ops.append(delta_pb2.Op(upsert=upsert))

    def delete(self, kind: int, uid: str) -> None:
        ref = object_pb2.ObjectRef(kind=object_pb2.Kind.ValueType(kind), uid=uid)
        self._ops.append(delta_pb2.Op(tombstone=ref))

    def refuse(self, decision: decision_pb2.Decision) -> None:
        code = decision_pb2.OUTCOME_CODE_CONFLICT
        outcome = decision_pb2.Outcome(decision_id=decision.id, code=code)
        self._ops.append(delta_pb2.Op(outcome=outcome))
