"""From objects of the API to events of the world: translated, filtered, and none of them lost."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from pumice.adapters.kubernetes.group_precedence import GroupPrecedence
from pumice.adapters.kubernetes.reflector import Head
from pumice.adapters.kubernetes.resources import POD_GROUPS, QUEUES, Resource
from pumice.adapters.kubernetes.selection import FILTERED, Selection, Source
from pumice.adapters.runtime.metrics import Metrics
from pumice.adapters.runtime.objects import shown_kind
from pumice.adapters.runtime.world import ObjectGone, ObjectSeen, WorldEvent
from pumice.manifests import ManifestError, decode
from pumice.v1.object_pb2 import KIND_PERSISTENT_VOLUME_CLAIM, ClusterObject
from pumice.v1.storage_pb2 import PersistentVolumeClaim

log = logging.getLogger(__name__)

# So many events may wait before lists and watches pause.
_MOST_WAITING: Final = 5000
_SHARED_KINDS: Final = {r: rank for kind in (POD_GROUPS, QUEUES) for rank, r in enumerate(kind)}


@dataclass(frozen=True, slots=True)
class InvalidObject:
    """An object that cannot be translated."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    problem: str


class WorldEventQueue:
    """Events of all resources in one row."""

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


class Memory:
    """What the adapter's own hands need to know of objects, as the watch last told it."""

    def __init__(self) -> None:
        # By namespace and name.
        self.claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        # Where objects are that are not of Volcano's own API group, by uid.
        self.places: dict[str, Resource] = {}


class ObjectStore:
    """The sink of one source: turns what comes into events, and remembers whom it told of."""

    def __init__(
        self,
        source: Source,
        queue: WorldEventQueue,
        selection: Selection,
        precedence: GroupPrecedence,
        memory: Memory,
        metrics: Metrics,
        on_bad: Callable[[InvalidObject], None],
    ) -> None:
        self._source, self._queue, self._selection = source, queue, selection
        self._precedence, self._memory = precedence, memory
        self._metrics, self._on_bad = metrics, on_bad
        self._kind = source.resource.kind
        self._rank = _SHARED_KINDS.get(source.resource)
        # Uid to namespace and name of everything that was told and not taken back.
        self._told: dict[str, tuple[str, str]] = {}
        self._listing: set[str] | None = None
        # The version of each object that could not be translated, told once.
        self._bad: dict[str, str] = {}

    # The store.

    def begin_list(self) -> None:
        self._listing = set()

    def upsert(self, head: Head, raw: msgspec.Raw) -> None:
        metadata = head.metadata
        if self._listing is not None:
            self._listing.add(metadata.uid)
        seen = ClusterObject()
        try:
            decode(self._kind, raw, seen)
        except ManifestError as error:
            self._set_aside(head, error)
            return
        if self._bad:
            self._bad.pop(metadata.uid, None)
        if self._kind in FILTERED:
            owners = metadata.owner_references
            if not self._selection.takes(seen, owners[0].name if owners else metadata.name):
                self._take_back(metadata.uid)
                return
        self._tell(metadata.uid, metadata.namespace, metadata.name, seen)

    def end_list(self) -> None:
        present, self._listing = self._listing or set(), None
        for uid in [uid for uid in self._told if uid not in present]:
            self._take_back(uid)
        for uid in [uid for uid in self._bad if uid not in present]:
            del self._bad[uid]

    def delete(self, head: Head) -> None:
        self._bad.pop(head.metadata.uid, None)
        self._take_back(head.metadata.uid)

    async def wait_for_space(self) -> None:
        await self._queue.wait_for_space()

    # What is told.

    def _tell(self, uid: str, namespace: str, name: str, seen: ClusterObject) -> None:
        key = self._told.get(uid)
        if key is None:
            key = self._told[uid] = (namespace, name)
        if self._rank is not None:
            if self._rank:
                self._memory.places[uid] = self._source.resource
            for event in self._precedence.put(self._kind, key, self._rank, uid, seen):
                self._queue.put(event)
            return
        if self._kind == KIND_PERSISTENT_VOLUME_CLAIM:
            self._memory.claims[key] = seen.persistent_volume_claim
        self._queue.put(ObjectSeen(seen))

    def _take_back(self, uid: str) -> None:
        key = self._told.pop(uid, None)
        if key is None:
            return
        if self._rank is not None:
            self._memory.places.pop(uid, None)
            for event in self._precedence.drop(self._kind, key, self._rank, uid):
                self._queue.put(event)
            return
        if self._kind == KIND_PERSISTENT_VOLUME_CLAIM:
            held = self._memory.claims.get(key)
            if held is not None and held.uid == uid:
                del self._memory.claims[key]
        self._queue.put(ObjectGone(self._kind, uid))

    def _set_aside(self, head: Head, error: ManifestError) -> None:
        """The last good version stays; people are told once of each bad one."""
        metadata = head.metadata
        if self._bad.get(metadata.uid) == metadata.resource_version:
            return
        self._bad[metadata.uid] = metadata.resource_version
        self._metrics.count("bad_objects", kind=shown_kind(self._kind))
        log.warning("an object was set aside: %s", error)
        problem = f"{error.field}: {error.problem}" if error.field else error.problem
        self._on_bad(
            InvalidObject(
                self._source.resource, metadata.namespace, metadata.name, metadata.uid, problem
            )
        )
