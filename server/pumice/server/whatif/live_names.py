"""Looks up objects of a live cluster by kind and name."""

from __future__ import annotations

from pumice.core.model.pod import Pod
from pumice.server.state import ClusterState
from pumice.server.wire import kind_type
from pumice.v1 import object_pb2

# Kinds that share one store, in which keys begin with the kind.
_WORKLOADS = {
    object_pb2.KIND_SERVICE: "Service",
    object_pb2.KIND_REPLICA_SET: "ReplicaSet",
    object_pb2.KIND_REPLICATION_CONTROLLER: "ReplicationController",
    object_pb2.KIND_STATEFUL_SET: "StatefulSet",
}


class LiveNames:
    """Looks up objects in the engine's cache."""

    def __init__(self, state: ClusterState) -> None:
        self._cache = state.engine.cache
        self._pods: dict[str, str] | None = None

    def uid_of(self, kind: int, key: str) -> str:
        """The uid of an object; empty: it does not exist."""
        type_ = kind_type(kind)
        if type_ is None:
            return ""
        if type_ is Pod:
            return self._pod_uids().get(key, "")
        word = _WORKLOADS.get(object_pb2.Kind.ValueType(kind))
        return self._cache.uid_named(type_, f"{word}/{key}" if word else key)

    def has(self, ref: object_pb2.ObjectRef) -> bool:
        """Whether an object with this kind and uid exists."""
        type_ = kind_type(ref.kind)
        if type_ is Pod:
            return ref.uid in self._cache.tasks or ref.uid in self._cache.foreign
        return type_ is not None and self._cache.stores.of(type_).by_uid(ref.uid) is not None

    def _pod_uids(self) -> dict[str, str]:
        if self._pods is None:
            foreign = self._cache.foreign.values()
            self._pods = {pod.key: pod.uid for pod in foreign}
            self._pods |= {task.key: task.uid for task in self._cache.tasks.values()}
        return self._pods
