"""Converts the objects of a Schedule request, which are messages and manifests, to ops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pumice.core.model.pod import Pod
from pumice.manifests import TooManyObjectsError, translate_texts
from pumice.server import errors
from pumice.server.ops import OpReader
from pumice.server.state import ClusterState
from pumice.server.whatif.problems import Problems
from pumice.server.whatif.request_checks import RequestChecks
from pumice.server.wire import kind_type, kind_word
from pumice.server.wire.groups import QUEUE
from pumice.v1 import delta_pb2, group_pb2, object_pb2
from pumice.v1.scheduling_service_pb2 import ObjectSet, ScheduleRequest

_KINDS = {field.name: field.number for field in object_pb2.ClusterObject.DESCRIPTOR.fields}
# Maximum number of objects in an error.
MAX_REJECTED = 100
# Kinds that share one store, in which keys begin with the kind.
_WORKLOADS = {
    object_pb2.KIND_SERVICE: "Service",
    object_pb2.KIND_REPLICA_SET: "ReplicaSet",
    object_pb2.KIND_REPLICATION_CONTROLLER: "ReplicationController",
    object_pb2.KIND_STATEFUL_SET: "StatefulSet",
}


class _LiveNames:
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
        item = self._cache.stores.of(type_).get(f"{word}/{key}" if word else key)
        return "" if item is None else item.uid

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


class RequestObjects:
    """Applies the objects of a request to a state, and collects its jobs and problems."""

    def __init__(
        self, state: ClusterState, request: ScheduleRequest, max_objects: int | None = None
    ) -> None:
        self._state = state
        self._request = request
        self._max_objects = max_objects
        self._is_live = request.WhichOneof("source") == "cluster"
        self._names = _LiveNames(state)
        self._ops: list[delta_pb2.Op] = []
        # The manifest and the job of each object, by kind and uid.
        self._sources: dict[tuple[int, str], str] = {}
        self._jobs_of: dict[tuple[int, str], str] = {}
        self._queues: set[str] = set()
        self.problems = Problems()
        # Jobs with a PodGroup or a pod in the request, with the uids of these pods.
        self.jobs: dict[str, list[str]] = {}
        # Jobs with invalid objects.
        self.invalid_jobs: set[str] = set()
        # The uids of pods without a PodGroup, by key.
        self.loose_pods: dict[str, str] = {}
        self._checks = RequestChecks(state, self.problems)

    def apply(self, now_ns: int) -> None:
        """Applies the objects. Raises ObjectsRejectedError, unless invalid ones are skipped."""
        self._remove()
        request = self._request
        held = request.cluster.hypothetical if self._is_live else request.inline.objects
        for word, message in objects_in(held):
            self._add(word, message, "")
        for number, other in enumerate(held.other_objects):
            if other.WhichOneof("object") is None:
                self.problems.error(
                    "has no object, or one of a kind that this core does not know",
                    field=f"other_objects[{number}]",
                )
        self._add_manifests(held)
        self._add_default_queue()
        self._checks.add_warnings()
        seq = self._state.applied_seq
        rejected, _ = self._state.apply(OpReader().read_ops(seq + 1, self._ops), now_ns)
        self._report_rejected(rejected)

    def _remove(self) -> None:
        if not self._is_live:
            return
        refs = list(self._request.cluster.removed)
        for ref in refs:
            if not self._names.has(ref):
                kind = kind_word(ref.kind)
                self.problems.error(
                    f"the cluster has no {kind} with the uid {ref.uid!r}, so nothing was removed",
                    kind=kind,
                    field="removed",
                )
        for key in self._request.cluster.removed_keys:
            name = f"{key.namespace}/{key.name}" if key.namespace else key.name
            uid = self._names.uid_of(key.kind, name)
            if uid:
                refs.append(object_pb2.ObjectRef(kind=key.kind, uid=uid))
            else:
                kind = kind_word(key.kind)
                self.problems.error(
                    f"the cluster has no {kind} with this name, so nothing was removed",
                    kind=kind,
                    key=name,
                    field="removed_keys",
                )
        self._ops += [delta_pb2.Op(tombstone=ref) for ref in refs]

    def _add_manifests(self, objects: ObjectSet) -> None:
        texts = [
            (each.source or f"manifests[{n}]", each.text)
            for n, each in enumerate(objects.manifests)
        ]
        if not texts:
            return
        most = self._max_objects
        left = None if most is None else max(most - len(self._ops), 0)
        names = self._state.engine.cache.settings.scheduler_names
        try:
            found = translate_texts(texts, scheduler_name=names[0], max_objects=left)
        except TooManyObjectsError:
            assert most is not None
            raise errors.LimitError("objects of a request", most, most + 1) from None
        for item, source in zip(found.objects, found.sources, strict=True):
            word = item.WhichOneof("object")
            assert word is not None
            self._add(word, getattr(item, word), source)
        for error in found.errors:
            self.problems.add_manifest_error(error)
            if error.job:
                self._add_job(error.job)
                self.invalid_jobs.add(error.job)
        for ignored in found.ignored:
            self.problems.add_ignored(ignored)
        for note in found.notes:
            self.problems.add_note(note)
        if not (found.objects or found.errors or found.ignored):
            for source, _ in texts:
                self.problems.error("contains no objects", source=source)

    def _add(self, word: str, message: Any, source: str) -> None:
        kind = object_pb2.Kind.ValueType(_KINDS[word])
        key = _key(message)
        old = self._names.uid_of(kind, key) if self._is_live else ""
        if word == "queue":
            self._set_queue_state(message)
        if old and word in ("pod", "pod_group"):
            self._checks.note_replaced(kind_word(kind), key, source)
        if not message.uid:
            message.uid = old or key
        elif old and old != message.uid:
            self._ops.append(delta_pb2.Op(tombstone=object_pb2.ObjectRef(kind=kind, uid=old)))
        op = delta_pb2.Op()
        op.upsert.kind, op.upsert.uid, op.upsert.revision = kind, message.uid, 1
        getattr(op.upsert.object, word).CopyFrom(message)
        self._ops.append(op)
        if source:
            self._sources[kind, message.uid] = source
        self._note_job(word, message, kind)
        self._checks.add(word, message, source)

    def _note_job(self, word: str, message: Any, kind: object_pb2.Kind.ValueType) -> None:
        if word == "pod_group":
            job = _key(message)
        elif word == "pod" and message.group_name:
            job = f"{message.namespace}/{message.group_name}"
        else:
            if word == "pod":
                self.loose_pods[_key(message)] = message.uid
            return
        self._add_job(job)
        self._jobs_of[kind, message.uid] = job
        if word == "pod":
            self.jobs[job].append(message.uid)

    def _add_job(self, job: str) -> None:
        self.jobs.setdefault(job, [])

    def _set_queue_state(self, queue: group_pb2.Queue) -> None:
        """Sets a missing queue state: to the live one, or to open, as Volcano's controller does."""
        self._queues.add(queue.name)
        if queue.state != group_pb2.QUEUE_STATE_UNSPECIFIED:
            return
        live = self._state.engine.cache.queues.get(queue.name) if self._is_live else None
        queue.state = group_pb2.QUEUE_STATE_OPEN if live is None else QUEUE.write(live).state

    def _add_default_queue(self) -> None:
        name = self._state.engine.cache.settings.default_queue
        if self._is_live:
            return
        if name not in self._queues:
            self._add("queue", group_pb2.Queue(name=name, weight=1), "")
        if self.jobs and not any(op.upsert.kind == object_pb2.KIND_NODE for op in self._ops):
            self.problems.warn("the request contains no Node, so no pod can be placed")

    def _report_rejected(self, rejected: list[object_pb2.RejectedObject]) -> None:
        of_messages = [each for each in rejected if (each.kind, each.uid) not in self._sources]
        if of_messages and not self._request.skip_invalid:
            raise errors.ObjectsRejectedError(of_messages[:MAX_REJECTED], len(of_messages))
        alike: dict[tuple[str, ...], list[object_pb2.RejectedObject]] = {}
        for each in rejected:
            where = (each.kind, each.uid)
            source = self._sources.get(where, "")
            like = (source, kind_word(each.kind), each.field, each.reason)
            alike.setdefault(like, []).append(each)
            job = self._jobs_of.get(where)
            if job is not None:
                self.invalid_jobs.add(job)
        for (source, *_), found in alike.items():
            self.problems.add_rejected(found[0], source, len(found))


def objects_in(objects: ObjectSet) -> Iterator[tuple[str, Any]]:
    """The objects with the names of their kinds. They are not wrapped, which would copy them."""
    for word, items in (
        ("node", objects.nodes),
        ("queue", objects.queues),
        ("pod_group", objects.pod_groups),
        ("pod", objects.pods),
    ):
        for item in items:
            yield word, item
    for other in objects.other_objects:
        kind = other.WhichOneof("object")
        if kind is not None:
            yield kind, getattr(other, kind)


def _key(message: Any) -> str:
    namespace = getattr(message, "namespace", "")
    return f"{namespace}/{message.name}" if namespace else str(message.name)
