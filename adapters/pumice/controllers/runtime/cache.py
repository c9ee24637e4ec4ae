"""A cache of the objects of one watch, which also holds the results of this process's own writes.

A reflector fills the cache. The result of a write is put into the cache at once, so that the next
reconcile observes it. A watch event that is older than the cached object changes nothing. A deleted
object stays deleted, even if older watch events of it arrive.
"""

import logging
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, TypeVar

import msgspec

from pumice.adapters.kubernetes.object_head import UNREADABLE, Head
from pumice.adapters.runtime.metrics import Metrics
from pumice.controllers.runtime.objects import ApiObject, Key, Manifest, shown_key
from pumice.controllers.runtime.watches import Change, IndexFunction, Watch

log = logging.getLogger(__name__)

W = TypeVar("W", bound=ApiObject)

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
        # Uids of objects that this process deleted, until the watch reports the deletion.
        self._deleted: set[str] = set()
        # Keys of the list that is being read; None: no list is being read.
        self._listing: set[Key] | None = None
        # The newest resource version that the watch has reached.
        self._reached = 0
        # Whether the results of writes are kept. Without a watch, nobody would remove deleted objects.
        self._is_watched = True
        self.add_indexes(watch)

    def add_indexes(self, watch: Watch[W]) -> None:
        """Adds the indexes of another controller's watch."""
        for name, function in watch.indexes.items():
            if name not in self._functions:
                self._functions[name] = function
                self._indexes[name] = {}
                for key, obj in self._items.items():
                    self._index(name, key, obj)

    def has_indexes(self, watch: Watch[W]) -> bool:
        return watch.indexes.keys() <= self._functions.keys()

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

    def open(self) -> None:
        """Keeps the results of writes, because a watch begins."""
        self._is_watched = True

    def close(self) -> None:
        """Removes all objects, because the watch has ended."""
        self._is_watched = False
        self.begin_list()
        self.end_list("")

    # Results of this process's own writes.

    def assume(self, raw: bytes | msgspec.Raw) -> None:
        """Takes an object from the answer to a write."""
        self._assume(lambda: self._decoder.decode(raw))

    def assume_created(self, body: Manifest) -> None:
        """Takes a created object, with the metadata that the API server returned."""
        metadata = body["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        if key not in self._items and not self.watch.selects(metadata.get("labels")):
            return
        self._assume(lambda: msgspec.convert(body, self.watch.type))

    def _assume(self, read: Callable[[], W]) -> None:
        if not self._is_watched:
            return
        try:
            obj = read()
        except UNREADABLE as error:
            log.error("unreadable answer about %s: %s", self.watch.source.shown, error)
            return
        metadata = obj.metadata
        if not metadata.resource_version:
            # The API server answers like this if another client deleted the object first.
            self.assume_deleted(metadata.key, metadata.uid)
            return
        if metadata.key not in self._items and self._has_passed(metadata.resource_version):
            # The watch or a list arrived before the answer, and the object is deleted already.
            return
        if metadata.key in self._items or self.watch.selects(metadata.labels):
            self._put(obj)

    def _has_passed(self, version: str) -> bool:
        return version.isdecimal() and int(version) <= self._reached

    def _reach(self, version: str) -> None:
        if version.isdecimal():
            self._reached = max(self._reached, int(version))

    def assume_deleted(self, key: Key, uid: str) -> None:
        """Removes an object that the API server deleted at once."""
        cached = self._items.get(key)
        if cached is not None and cached.metadata.uid == uid:
            self._deleted.add(uid)
            self._remove(key, cached)

    # The store of a reflector.

    def begin_list(self) -> None:
        self._listing = set()

    def upsert(self, head: Head, raw: msgspec.Raw) -> None:
        event = head.metadata
        self._reach(event.resource_version)
        cached = self._items.get((event.namespace, event.name))
        if cached is not None and self._listing is None:
            known = cached.metadata
            if (known.uid, known.resource_version) == (event.uid, event.resource_version):
                # The answer to a write of this process had this version.
                return
        try:
            obj = self._decoder.decode(raw)
        except UNREADABLE as error:
            # A version that cannot be read is ignored.
            self._metrics.count("bad_objects", kind=self.watch.resource.name)
            name = shown_key((event.namespace, event.name))
            log.error("unreadable %s %s: %s", self.watch.resource.name, name, error)
            return
        if self._listing is not None:
            self._listing.add(obj.metadata.key)
        self._put(obj)

    def end_list(self, version: str) -> None:
        self._reach(version)
        listed, self._listing = self._listing or set(), None
        for key, cached in list(self._items.items()):
            # An object that is newer than the list was created while the list was read.
            is_newer = bool(version) and not self._has_passed(cached.metadata.resource_version)
            if key not in listed and not is_newer:
                self._remove(key, cached)
        self._deleted.clear()

    def delete(self, head: Head) -> None:
        metadata = head.metadata
        self._reach(metadata.resource_version)
        self._deleted.discard(metadata.uid)
        key = (metadata.namespace, metadata.name)
        cached = self._items.get(key)
        if cached is not None and cached.metadata.uid == metadata.uid:
            self._remove(key, cached)

    async def wait_for_space(self) -> None:
        """Returns at once, because listeners only enqueue keys."""

    # Changes.

    def _put(self, obj: W) -> None:
        metadata = obj.metadata
        if metadata.uid in self._deleted:
            return
        key = metadata.key
        old = self._items.get(key)
        if old is not None and old.metadata.uid != metadata.uid:
            # The watch missed the deletion of the old object, or the event is older than the new one.
            if not _is_newer(metadata.resource_version, old.metadata.resource_version):
                return
            self._remove(key, old)
            old = None
        if old is not None and not _is_newer(
            metadata.resource_version, old.metadata.resource_version
        ):
            return
        self._items[key] = obj
        for name, function in self._functions.items():
            if old is not None:
                if list(function(old)) == list(function(obj)):
                    continue
                self._unindex(name, key, old)
            self._index(name, key, obj)
        self._notify(Change(self.watch, old, obj))

    def _remove(self, key: Key, cached: W) -> None:
        del self._items[key]
        for name in self._functions:
            self._unindex(name, key, cached)
        self._notify(Change(self.watch, cached, None))

    def _notify(self, change: Change[W]) -> None:
        for listener in self.listeners:
            listener(change)

    def _index(self, name: str, key: Key, obj: W) -> None:
        values = self._indexes[name]
        for value in self._functions[name](obj):
            values.setdefault(value, {})[key] = None

    def _unindex(self, name: str, key: Key, obj: W) -> None:
        values = self._indexes[name]
        for value in self._functions[name](obj):
            keys = values.get(value)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del values[value]


def _is_newer(version: str, cached: str) -> bool:
    """Compares resource versions. They are numbers that grow with each write of the resource."""
    if version.isdecimal() and cached.isdecimal():
        return int(version) > int(cached)
    return version != cached
