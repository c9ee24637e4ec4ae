"""The store of a reflector: translates objects, selects those of this scheduler, queues events."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from pumice.adapters.kubernetes.confirmations import BindConfirmations
from pumice.adapters.kubernetes.errors import one_line
from pumice.adapters.kubernetes.group_precedence import GroupPrecedence
from pumice.adapters.kubernetes.object_head import Head, HeadMetadata
from pumice.adapters.kubernetes.object_index import ObjectIndex, group_version
from pumice.adapters.kubernetes.resources import POD_GROUPS, QUEUES, Resource
from pumice.adapters.kubernetes.selection import FILTERED, Selection, Source
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import shown_kind
from pumice.adapters.runtime.world import ObjectGone, ObjectSeen, WorldEvent
from pumice.manifests import ManifestError, decode
from pumice.v1.object_pb2 import (
    KIND_NAMESPACE,
    KIND_PERSISTENT_VOLUME,
    KIND_PERSISTENT_VOLUME_CLAIM,
    KIND_POD,
    KIND_POD_GROUP,
    ClusterObject,
)

log = logging.getLogger(__name__)

# With more waiting events than this, lists and watches pause.
_MOST_WAITING: Final = 5000
_SHARED_KINDS: Final = {r: rank for kind in (POD_GROUPS, QUEUES) for rank, r in enumerate(kind)}

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class InvalidObject:
    """An object that cannot be translated."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    problem: str


class WorldEventQueue:
    """The events of all resources, in the order in which they came."""

    def __init__(self) -> None:
        self._events: deque[WorldEvent] = deque()
        self._filled = asyncio.Event()
        self._drained = asyncio.Event()

    def put(self, event: WorldEvent) -> None:
        self._events.append(event)
        self._filled.set()

    def __len__(self) -> int:
        return len(self._events)

    async def wait_for_space(self) -> None:
        while len(self._events) > _MOST_WAITING:
            self._drained.clear()
            await self._drained.wait()

    async def __aiter__(self) -> AsyncIterator[WorldEvent]:
        while True:
            while self._events:
                yield self._events.popleft()
            self._drained.set()
            self._filled.clear()
            await self._filled.wait()


class ObjectStore:
    """The store of one source. It remembers only which objects the runtime knows."""

    def __init__(
        self,
        source: Source,
        queue: WorldEventQueue,
        selection: Selection,
        precedence: GroupPrecedence,
        index: ObjectIndex,
        metrics: Metrics,
        on_invalid: Callable[[InvalidObject], None],
        confirmations: BindConfirmations | None = None,
    ) -> None:
        self._source, self._queue, self._selection = source, queue, selection
        self._precedence, self._index = precedence, index
        self._metrics, self._on_invalid = metrics, on_invalid
        self._kind = source.resource.kind
        self._confirmations = confirmations if self._kind == KIND_POD else None
        self._rank = _SHARED_KINDS.get(source.resource)
        # Namespace and name of each object that the runtime knows, by uid.
        self._known: dict[str, _Key] = {}
        # The uids of a list that is not complete yet.
        self._listing: set[str] | None = None
        # The version of each object that could not be translated, by uid.
        self._invalid: dict[str, str] = {}
        # Known pods without a node, and pods withheld because their namespace is terminating.
        self._unbound: set[str] = set()
        self._withheld: dict[str, tuple[_Key, ClusterObject]] = {}
        if self._kind == KIND_POD:
            index.terminating.listeners.append(self._namespace_changed)

    # Calls of the reflector.

    def begin_list(self) -> None:
        self._listing = set()
        if self._confirmations is not None:
            self._confirmations.forget_all(self._handle)

    def upsert(self, head: Head, raw: msgspec.Raw) -> None:
        if self._listing is not None:
            self._listing.add(head.metadata.uid)
        elif self._confirmations is not None and self._confirmations.keep(head, raw, self._handle):
            return
        self._handle(head, raw)

    def end_list(self, version: str) -> None:
        present, self._listing = self._listing or set(), None
        for held in (self._known, self._withheld):
            for uid in [uid for uid in held if uid not in present]:
                self._withdraw(uid)
        for uid in [uid for uid in self._invalid if uid not in present]:
            del self._invalid[uid]

    def delete(self, head: Head) -> None:
        self._invalid.pop(head.metadata.uid, None)
        self._withdraw(head.metadata.uid)

    async def wait_for_space(self) -> None:
        await self._queue.wait_for_space()

    # Events for the runtime.

    def _handle(self, head: Head, raw: msgspec.Raw) -> None:
        metadata = head.metadata
        seen = ClusterObject()
        try:
            decode(self._kind, raw, seen, group=self._source.resource.group)
        except ManifestError as error:
            self._report(metadata, error)
            return
        except Exception as error:
            # An object must not stop the others, whatever it holds.
            self._report(metadata, ManifestError(f"{type(error).__name__}: {one_line(error)}"))
            return
        if self._invalid:
            self._invalid.pop(metadata.uid, None)
        if self._is_selected(metadata, seen):
            self._index.restore_status(metadata.uid, seen)
            self._index_object(metadata, seen, raw)
            self._announce(metadata.uid, (metadata.namespace, metadata.name), seen)
        else:
            self._withdraw(metadata.uid)

    def _is_selected(self, metadata: HeadMetadata, item: ClusterObject) -> bool:
        if self._kind not in FILTERED:
            return True
        owners = metadata.owner_references
        return self._selection.selects(item, owners[0].name if owners else metadata.name)

    def _announce(self, uid: str, key: _Key, item: ClusterObject) -> None:
        if self._kind == KIND_POD and not item.pod.node_name:
            if key[0] in self._index.terminating:
                self._withdraw(uid)
                self._withheld[uid] = (key, item)
                return
            self._unbound.add(uid)
        else:
            self._unbound.discard(uid)
            self._withheld.pop(uid, None)
        key = self._known.setdefault(uid, key)
        if self._rank is None:
            self._queue.put(ObjectSeen(item))
            return
        for event in self._precedence.put(self._kind, key, self._rank, uid, item):
            self._queue.put(event)

    def _withdraw(self, uid: str) -> None:
        if self._confirmations is not None:
            self._confirmations.forget(uid)
        self._unbound.discard(uid)
        self._withheld.pop(uid, None)
        key = self._known.pop(uid, None)
        if key is None:
            return
        self._unindex(uid, key)
        if self._rank is None:
            self._queue.put(ObjectGone(self._kind, uid))
            return
        for event in self._precedence.drop(self._kind, key, self._rank, uid):
            self._queue.put(event)

    def _namespace_changed(self, namespace: str) -> None:
        """Withdraws pods that cannot be bound, or announces those of a new namespace."""
        if namespace in self._index.terminating:
            for uid in [uid for uid in self._unbound if self._known[uid][0] == namespace]:
                self._withdraw(uid)
            return
        for uid, (key, seen) in list(self._withheld.items()):
            if key[0] == namespace:
                self._announce(uid, key, seen)

    def _report(self, metadata: HeadMetadata, error: ManifestError) -> None:
        """Reports each invalid version once. The last valid version stays in use."""
        if self._invalid.get(metadata.uid) == metadata.resource_version:
            return
        # A client may write invalid versions again and again: only the first is a warning.
        level = logging.DEBUG if metadata.uid in self._invalid else logging.WARNING
        self._invalid[metadata.uid] = metadata.resource_version
        self._metrics.count("bad_objects", kind=shown_kind(self._kind))
        log.log(level, "an object is invalid and was ignored: %s", error)
        problem = f"{error.field}: {error.problem}" if error.field else error.problem
        self._on_invalid(
            InvalidObject(
                self._source.resource, metadata.namespace, metadata.name, metadata.uid, problem
            )
        )

    # The index of writers.

    def _index_object(self, metadata: HeadMetadata, item: ClusterObject, raw: msgspec.Raw) -> None:
        if self._rank:
            self._index.resources[metadata.uid] = self._source.resource
        if self._kind == KIND_POD_GROUP:
            try:
                self._index.groups[metadata.uid] = group_version(raw)
            except msgspec.MsgspecError:
                # Its conditions are not objects: the writer reads the PodGroup before it writes.
                self._index.groups.pop(metadata.uid, None)
        elif self._kind == KIND_PERSISTENT_VOLUME_CLAIM:
            key = (metadata.namespace, metadata.name)
            self._index.claims[key] = item.persistent_volume_claim
        elif self._kind == KIND_PERSISTENT_VOLUME:
            volume = item.persistent_volume
            if volume.claim_uid:
                self._index.volume_claims[volume.name] = volume.claim_uid
            else:
                self._index.volume_claims.pop(volume.name, None)
        elif self._kind == KIND_NAMESPACE:
            is_terminating = metadata.deletion_timestamp is not None
            self._index.terminating.update(metadata.name, metadata.uid, is_terminating)

    def _unindex(self, uid: str, key: _Key) -> None:
        self._index.resources.pop(uid, None)
        if self._kind == KIND_POD_GROUP:
            self._index.groups.pop(uid, None)
            self._index.native_statuses.pop(uid, None)
        elif self._kind == KIND_PERSISTENT_VOLUME_CLAIM:
            held = self._index.claims.get(key)
            if held is not None and held.uid == uid:
                del self._index.claims[key]
        elif self._kind == KIND_PERSISTENT_VOLUME:
            self._index.volume_claims.pop(key[1], None)
        elif self._kind == KIND_NAMESPACE:
            self._index.terminating.remove(key[1], uid)
