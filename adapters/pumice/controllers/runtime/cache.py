"""A cache of the objects of one watch, which also knows the results of our own writes.

A reflector fills the cache. The result of a write is put into it at once, so that the next reconcile
sees it; an event of the watch that is older than what the cache holds changes nothing. A deleted
object stays deleted, even while older events of it arrive.
"""

import logging
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, TypeVar

import msgspec

from pumice.adapters.kubernetes.object_head import UNREADABLE, Head
from pumice.adapters.runtime.metrics import Metrics
from pumice.controllers.runtime.objects import Manifest, Watched, shown_key
from pumice.controllers.runtime.watches import Change, IndexFunction, Watch

log = logging.getLogger(__name__)

W = TypeVar("W", bound=Watched)

Key = tuple[str, str]
_NONE: Final[dict[Key, None]] = {}


class ObjectCache(Generic[W]):
    """The objects of one watch by namespace and name, with indexes."""

    def __init__(self, watch: Watch[W], metrics: Metrics) -> None:
        self.watch = watch
        # Called with every change, in order.
        self.listeners: list[Callable[[Change[W]], None]] = []
        self._decoder = watch.decoder()
        self._metrics = metrics
        self._items: dict[Key, W] = {}
        self._functions: dict[str, IndexFunction] = {}
        self._indexes: dict[str, dict[Hashable, dict[Key, None]]] = {}
        # Uids of objects that we deleted, until the watch says so too.
        self._deleted: set[str] = set()
        # Keys of the list that is being read; None: no list.
        self._listing: set[Key] | None = None
        # The newest version that the watch has reached.
        self._reached = 0
        self.add_indexes(watch)

    def add_indexes(self, watch: Watch[W]) -> None:
        """Adds the indexes of another controller's watch."""
        for name, function in watch.indexes.items():
            if name not in self._functions:
                self._functions[name] = function
                self._indexes[name] = {}
                for key, seen in self._items.items():
                    self._index(name, key, seen)

    # Reading.

    def get(self, namespace: str, name: str) -> W | None:
        return self._items.get((namespace, name))

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[W]:
        return iter(self._items.values())

    def by(self, index: str, value: Hashable) -> list[W]:
        """The objects with a value in an index, ordered by namespace and name."""
        return [self._items[key] for key in sorted(self._indexes[index].get(value, _NONE))]

    # Results of our own writes.

    def assume(self, raw: bytes | msgspec.Raw) -> None:
        """Takes an object from the answer to a write."""
        try:
            seen = self._decoder.decode(raw)
        except UNREADABLE as error:
            log.error("an answer about %s cannot be read: %s", self.watch.source.shown, error)
            return
        self._assume(seen)

    def assume_created(self, body: Manifest) -> None:
        """Takes an object that was created, with the metadata that the API server gave it."""
        metadata = body["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        if key not in self._items and not self.watch.selects(metadata.get("labels")):
            return
        try:
            seen = msgspec.convert(body, self.watch.type)
        except UNREADABLE as error:
            log.error("an answer about %s cannot be read: %s", self.watch.source.shown, error)
            return
        self._assume(seen)

    def _assume(self, seen: W) -> None:
        metadata = seen.metadata
        if not metadata.resource_version:
            # The API server answers so when another deletion of the object was faster than ours.
            self.assume_deleted(metadata.key, metadata.uid)
            return
        if metadata.key not in self._items and self._has_passed(metadata.resource_version):
            # The watch or a list was faster than the answer: the object is deleted again.
            return
        if metadata.key in self._items or self.watch.selects(metadata.labels):
            self._put(seen)

    def _has_passed(self, version: str) -> bool:
        return version.isdecimal() and int(version) <= self._reached

    def _reach(self, version: str) -> None:
        if version.isdecimal():
            self._reached = max(self._reached, int(version))

    def assume_deleted(self, key: Key, uid: str) -> None:
        """Takes the answer to a deletion that was complete."""
        held = self._items.get(key)
        if held is not None and held.metadata.uid == uid:
            self._deleted.add(uid)
            self._remove(key, held)

    # The store of a reflector.

    def begin_list(self) -> None:
        self._listing = set()

    def upsert(self, head: Head, raw: msgspec.Raw) -> None:
        named = head.metadata
        self._reach(named.resource_version)
        held = self._items.get((named.namespace, named.name))
        if held is not None and self._listing is None:
            known = held.metadata
            if (known.uid, known.resource_version) == (named.uid, named.resource_version):
                # The answer to our own write had it.
                return
        try:
            seen = self._decoder.decode(raw)
        except UNREADABLE as error:
            # The object counts as absent until it can be read.
            self._metrics.count("bad_objects", kind=self.watch.resource.name)
            name = shown_key((head.metadata.namespace, head.metadata.name))
            log.error("%s %s was left out: %s", self.watch.resource.name, name, error)
            return
        if self._listing is not None:
            self._listing.add(seen.metadata.key)
        self._put(seen)

    def end_list(self, version: str) -> None:
        self._reach(version)
        listed, self._listing = self._listing or set(), None
        for key, held in list(self._items.items()):
            # What is newer than the list was written while the list was read.
            is_newer = bool(version) and not self._has_passed(held.metadata.resource_version)
            if key not in listed and not is_newer:
                self._remove(key, held)
        self._deleted.clear()

    def delete(self, head: Head) -> None:
        metadata = head.metadata
        self._reach(metadata.resource_version)
        self._deleted.discard(metadata.uid)
        key = (metadata.namespace, metadata.name)
        held = self._items.get(key)
        if held is not None and held.metadata.uid == metadata.uid:
            self._remove(key, held)

    async def wait_for_space(self) -> None:
        """Returns at once: listeners only add keys to queues."""

    # Changes.

    def _put(self, seen: W) -> None:
        metadata = seen.metadata
        if metadata.uid in self._deleted:
            return
        key = metadata.key
        old = self._items.get(key)
        if old is not None and old.metadata.uid != metadata.uid:
            # Its deletion was missed, or the event is older than the new object.
            if not _is_newer(metadata.resource_version, old.metadata.resource_version):
                return
            self._remove(key, old)
            old = None
        if old is not None and not _is_newer(
            metadata.resource_version, old.metadata.resource_version
        ):
            return
        self._items[key] = seen
        for name, function in self._functions.items():
            if old is not None:
                if list(function(old)) == list(function(seen)):
                    continue
                self._unindex(name, key, old)
            self._index(name, key, seen)
        self._notify(Change(self.watch, old, seen))

    def _remove(self, key: Key, held: W) -> None:
        del self._items[key]
        for name in self._functions:
            self._unindex(name, key, held)
        self._notify(Change(self.watch, held, None))

    def _notify(self, change: Change[W]) -> None:
        for listener in self.listeners:
            listener(change)

    def _index(self, name: str, key: Key, seen: W) -> None:
        values = self._indexes[name]
        for value in self._functions[name](seen):
            values.setdefault(value, {})[key] = None

    def _unindex(self, name: str, key: Key, seen: W) -> None:
        values = self._indexes[name]
        for value in self._functions[name](seen):
            keys = values.get(value)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del values[value]


def _is_newer(version: str, held: str) -> bool:
    """Compares resource versions, which are numbers of one order for all objects of a resource."""
    if version.isdecimal() and held.isdecimal():
        return int(version) > int(held)
    return version != held
