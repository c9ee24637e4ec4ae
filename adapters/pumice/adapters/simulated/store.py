"""The objects of a simulated cluster, and watches of them."""

import asyncio
from collections.abc import AsyncGenerator, Iterator

from pumice.adapters.runtime.objects import KindNumber, ObjectKey, identity
from pumice.adapters.runtime.world import ObjectGone, ObjectSeen, Reading, Synced, WorldEvent
from pumice.v1.object_pb2 import KIND_POD, ClusterObject
from pumice.v1.pod_pb2 import Pod


class ObjectStore:
    """Objects by kind and uid. A change replaces the message; no message is modified."""

    def __init__(self) -> None:
        self._objects: dict[ObjectKey, ClusterObject] = {}
        self._names: dict[tuple[KindNumber, str, str], str] = {}
        self._versions: dict[ObjectKey, int] = {}
        self._pods_on: dict[str, set[str]] = {}
        self._version = 0
        self._watchers: list[asyncio.Queue[WorldEvent | None]] = []
        self._is_closed = False

    def put(self, cluster_object: ClusterObject) -> None:
        found = identity(cluster_object)
        key = (found.kind, found.uid)
        self._version += 1
        self._remove_from_node(self._objects.get(key))
        self._objects[key] = cluster_object
        if found.kind == KIND_POD and cluster_object.pod.node_name:
            self._pods_on.setdefault(cluster_object.pod.node_name, set()).add(found.uid)
        self._names[found.kind, found.namespace, found.name] = found.uid
        self._versions[key] = self._version
        self._notify(ObjectSeen(cluster_object))

    def remove(self, kind: KindNumber, uid: str) -> None:
        removed = self._objects.pop((kind, uid), None)
        if removed is None:
            return
        del self._versions[kind, uid]
        self._remove_from_node(removed)
        found = identity(removed)
        if self._names.get((kind, found.namespace, found.name)) == uid:
            del self._names[kind, found.namespace, found.name]
        self._notify(ObjectGone(kind, uid))

    def get(self, kind: KindNumber, uid: str) -> ClusterObject | None:
        return self._objects.get((kind, uid))

    def read(self, kind: KindNumber, namespace: str, name: str) -> Reading:
        uid = self._names.get((kind, namespace, name))
        if uid is None:
            return Reading(None)
        return Reading(self._objects[kind, uid], str(self._versions[kind, uid]))

    def copy(self, kind: KindNumber, uid: str) -> ClusterObject | None:
        """A copy to modify and put back."""
        held = self._objects.get((kind, uid))
        if held is None:
            return None
        copied = ClusterObject()
        copied.CopyFrom(held)
        return copied

    def of_kind(self, kind: KindNumber) -> Iterator[ClusterObject]:
        return (held for key, held in self._objects.items() if key[0] == kind)

    def pods_on(self, node: str) -> list[Pod]:
        """The pods of a node, sorted by uid."""
        return [self._objects[KIND_POD, uid].pod for uid in sorted(self._pods_on.get(node, ()))]

    async def watch(self, *first: WorldEvent) -> AsyncGenerator[WorldEvent]:
        """Yields some events, all objects, Synced, and every change until the store is closed."""
        changes: asyncio.Queue[WorldEvent | None] = asyncio.Queue()
        present = [ObjectSeen(held) for held in self._objects.values()]
        self._watchers.append(changes)
        try:
            for event in (*first, *present, Synced()):
                yield event
            while not (self._is_closed and changes.empty()):
                change = await changes.get()
                if change is None:
                    return
                yield change
        finally:
            self._watchers.remove(changes)

    def close(self) -> None:
        self._is_closed = True
        for watcher in self._watchers:
            watcher.put_nowait(None)

    def _remove_from_node(self, item: ClusterObject | None) -> None:
        if item is not None and item.pod.node_name:
            self._pods_on[item.pod.node_name].discard(item.pod.uid)

    def _notify(self, event: WorldEvent) -> None:
        for watcher in self._watchers:
            watcher.put_nowait(event)
