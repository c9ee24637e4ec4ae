"""Stores of objects that are looked up by key, and deleted by uid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar


class HasUid(Protocol):
    """Anything with a uid."""

    @property
    def uid(self) -> str: ...


T = TypeVar("T", bound=HasUid)


class ObjectStore(Generic[T]):
    """The objects of one kind; an object replaces an earlier one with the same key."""

    def __init__(self, key: Callable[[T], str]) -> None:
        self._key = key
        self._by_key: dict[str, T] = {}
        self._key_of: dict[str, str] = {}
        # Grows with every change.
        self.version = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[T]:
        """Iterates in the order of keys."""
        return iter([self._by_key[key] for key in sorted(self._by_key)])

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def by_key(self) -> dict[str, T]:
        """A copy of all objects, by key."""
        return dict(self._by_key)

    def get(self, key: str) -> T | None:
        return self._by_key.get(key)

    def by_uid(self, uid: str) -> T | None:
        key = self._key_of.get(uid)
        return None if key is None else self._by_key.get(key)

    def put(self, item: T) -> T | None:
        """Stores the object and returns the one it replaces."""
        key = self._key(item)
        old = self._by_key.get(key)
        if old == item:
            return old
        if old is not None and old.uid != item.uid:
            self._key_of.pop(old.uid, None)
        stale = self._key_of.get(item.uid)
        if stale is not None and stale != key:
            self._by_key.pop(stale, None)
        self._by_key[key] = item
        self._key_of[item.uid] = key
        self.version += 1
        return old

    def replace(self, key: str, item: T) -> None:
        """Replaces a stored object by another version with the same key and uid."""
        self._by_key[key] = item
        self.version += 1

    def drop(self, uid: str) -> T | None:
        key = self._key_of.pop(uid, None)
        if key is None:
            return None
        self.version += 1
        return self._by_key.pop(key, None)


class ObjectStores:
    """The stores of all kinds, in the order in which they were made."""

    def __init__(self) -> None:
        self._by_kind: dict[type[Any], ObjectStore[Any]] = {}

    def make(self, kind: type[T], *key: str) -> ObjectStore[T]:
        """A store of one kind; the named fields, joined by slashes, are the key."""
        store: ObjectStore[T] = ObjectStore(
            lambda item: "/".join([getattr(item, field) for field in key])
        )
        self._by_kind[kind] = store
        return store

    def __iter__(self) -> Iterator[ObjectStore[Any]]:
        return iter(self._by_kind.values())

    def of(self, kind: type[T]) -> ObjectStore[T]:
        """The store of a kind; pods have none."""
        return self._by_kind[kind]
