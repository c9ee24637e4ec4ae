"""Priority queues, also for items whose order changes while they wait.

Shares move as tasks are placed, so items are compared when the heap is touched, never by keys
taken earlier. The order of equal and of moving items follows from the exact way the heap sifts,
which is that of the reference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, MutableSequence
from heapq import heappop, heappush
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class Heap(Protocol[T]):
    """A priority queue."""

    def __len__(self) -> int: ...

    def push(self, item: T) -> None: ...

    def pop(self) -> T: ...


class KeyHeap(Generic[T]):
    """A heap for items whose keys do not change while they are in it."""

    __slots__ = ("_early", "_items", "_key", "_open")

    def __init__(self, key: Callable[[T], tuple[Any, ...]]) -> None:
        # No two keys may be equal.
        self._key = key
        self._items: list[tuple[tuple[Any, ...], T]] = []
        # What came before anything was asked for, which is sorted once, the last ones first.
        self._early: list[tuple[tuple[Any, ...], T]] = []
        self._open = True

    def __len__(self) -> int:
        return len(self._early) + len(self._items)

    def push(self, item: T) -> None:
        entry = (self._key(item), item)
        if self._open:
            self._early.append(entry)
        else:
            heappush(self._items, entry)

    def pop(self) -> T:
        return self.pop_entry()[1]

    def pop_entry(self) -> tuple[tuple[Any, ...], T]:
        """Pops the first item with its key; an empty heap raises IndexError."""
        if self._open:
            self._sort()
        early, items = self._early, self._items
        if not items or (early and early[-1] < items[0]):
            return early.pop()
        return heappop(items)

    def _sort(self) -> None:
        self._early.sort(reverse=True)
        self._open = False

    @property
    def first_key(self) -> tuple[Any, ...] | None:
        """The key of the first item; None: the heap is empty."""
        if self._open:
            self._sort()
        early, items = self._early, self._items
        if not items:
            return early[-1][0] if early else None
        return min(early[-1], items[0])[0] if early else items[0][0]


class LiveHeap(Generic[T]):
    """A binary heap that compares its items anew on every operation."""

    __slots__ = ("_items", "_less")

    def __init__(self, less: Callable[[T, T], bool], items: Iterable[T] = ()) -> None:
        self._less = less
        self._items: list[T] = []
        for item in items:
            self.push(item)

    def __len__(self) -> int:
        return len(self._items)

    def clone(self) -> LiveHeap[T]:
        copy: LiveHeap[T] = LiveHeap(self._less)
        copy._items = list(self._items)
        return copy

    def push(self, item: T) -> None:
        items, less = self._items, self._less
        items.append(item)
        child = len(items) - 1
        while child > 0:
            parent = (child - 1) // 2
            if not less(items[child], items[parent]):
                break
            items[child], items[parent] = items[parent], items[child]
            child = parent

    def pop(self) -> T:
        _sift_first_to_end(self._items, self._less)
        return self._items.pop()


class LiveDeque(deque[T]):
    """Items in the layout of a LiveHeap; the first one is taken off as from a heap."""

    def __init__(self, items: Iterable[T], less: Callable[[T, T], bool]) -> None:
        # Items in order have the layout of a heap.
        super().__init__(items)
        self._less = less

    def copy(self) -> LiveDeque[T]:
        return LiveDeque(self, self._less)

    def popleft(self) -> T:
        _sift_first_to_end(self, self._less)
        return self.pop()


def _sift_first_to_end(items: MutableSequence[T], less: Callable[[T, T], bool]) -> None:
    """Exchanges the first item with the last one, which is sifted down."""
    last = len(items) - 1
    items[0], items[last] = items[last], items[0]
    parent = 0
    while (child := 2 * parent + 1) < last:
        if child + 1 < last and less(items[child + 1], items[child]):
            child += 1
        if not less(items[child], items[parent]):
            break
        items[parent], items[child] = items[child], items[parent]
        parent = child
