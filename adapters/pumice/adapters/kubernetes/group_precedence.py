"""Precedence of objects of the same name in the groups of Volcano, kube-batch and Kubernetes."""

from pumice.adapters.runtime.objects import KindNumber
from pumice.adapters.runtime.world import ObjectGone, ObjectSeen, WorldEvent
from pumice.v1.object_pb2 import ClusterObject

_Key = tuple[KindNumber, str, str]


class GroupPrecedence:
    """Of several objects with the same name, passes on that of the group with the lowest rank."""

    def __init__(self) -> None:
        self._held: dict[_Key, dict[int, tuple[str, ClusterObject]]] = {}

    def put(
        self, kind: KindNumber, name: tuple[str, str], rank: int, uid: str, item: ClusterObject
    ) -> list[WorldEvent]:
        """Adds an object of a group; returns the events to publish."""
        held = self._held.setdefault((kind, *name), {})
        first = min(held, default=rank)
        events: list[WorldEvent] = []
        if first > rank:
            events.append(ObjectGone(kind, held[first][0]))
        old = held.get(rank)
        if old is not None and old[0] != uid and first == rank:
            # Another object now has the name, and the deletion of the old one was missed.
            events.append(ObjectGone(kind, old[0]))
        held[rank] = (uid, item)
        if first >= rank:
            events.append(ObjectSeen(item))
        return events

    def drop(
        self, kind: KindNumber, name: tuple[str, str], rank: int, uid: str
    ) -> list[WorldEvent]:
        """Removes an object of a group; returns the events to publish."""
        held = self._held.get((kind, *name), {})
        if rank not in held or held[rank][0] != uid:
            return []
        was_seen = rank == min(held)
        del held[rank]
        if not held:
            del self._held[(kind, *name)]
        if not was_seen:
            return []
        events: list[WorldEvent] = [ObjectGone(kind, uid)]
        if held:
            events.append(ObjectSeen(held[min(held)][1]))
        return events
