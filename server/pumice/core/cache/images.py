"""The images that nodes have, by name, kept up with every report of a node."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from pumice.core.model.fit import Mask
from pumice.core.model.node import NodeImage

if TYPE_CHECKING:
    from pumice.core.cache.nodes import NodeTable


# Versions of so many images that no node has any more are kept.
_MOST_GONE = 10_000
# So many lists that begin alike are compared with another one.
_MOST_SIMILAR = 8


class _ImageList:
    """A list of images, by name with their sizes, and the rows that have it."""

    __slots__ = ("rows", "sizes")

    def __init__(self, images: tuple[NodeImage, ...], rows: Iterable[int]) -> None:
        self.sizes = _sizes(images)
        self.rows = set(rows)


class ImageIndex:
    """The rows that have an image; built on the first query."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._layout = -1
        # By row: its list; and by name: the lists that have the image.
        self._list_of: dict[int, _ImageList] = {}
        self._lists_with: dict[str, dict[_ImageList, None]] = {}
        # By name: the number of the last change of its rows; of others it is at most the first.
        self._versions: dict[str, int] = {}
        self._first = self._changes = 0

    def change(self, row: int, after: tuple[NodeImage, ...]) -> None:
        """A node reports other images than before."""
        if self._layout != self._table.layout:
            return
        old = self._list_of.pop(row, None)
        before = {} if old is None else old.sizes
        if old is not None:
            old.rows.discard(row)
            if not old.rows:
                self._drop(old)
        new = self._add(after, (row,))
        self._changes += 1
        for name in before.keys() | new.sizes.keys():
            if before.get(name) != new.sizes.get(name):
                self._versions[name] = self._changes
        if len(self._versions) > len(self._lists_with) + _MOST_GONE:
            self._versions, self._first = {}, self._changes

    def _add(self, images: tuple[NodeImage, ...], rows: Iterable[int]) -> _ImageList:
        added = _ImageList(images, rows)
        self._list_of.update(dict.fromkeys(added.rows, added))
        known = self._lists_with
        for name in added.sizes:
            lists = known.get(name)
            if lists is None:
                known[name] = {added: None}
            else:
                lists[added] = None
        return added

    def _drop(self, gone: _ImageList) -> None:
        for name in gone.sizes:
            lists = self._lists_with[name]
            del lists[gone]
            if not lists:
                del self._lists_with[name]

    def version(self, names: Iterable[str]) -> tuple[int, ...]:
        """Changes when the rows or sizes of one of these images do."""
        self._refresh()
        return tuple([self._versions.get(name, self._first) for name in names])

    def find(self, name: str) -> tuple[int, Mask] | None:
        """The size of an image, which is that on the first row, and where it is; None: nowhere."""
        self._refresh()
        lists = self._lists_with.get(name)
        if not lists:
            return None
        mask = np.zeros(len(self._table), dtype=np.bool_)
        rows = chain.from_iterable([each.rows for each in lists])
        mask[np.fromiter(rows, dtype=np.intp)] = True
        return self._list_of[int(mask.argmax())].sizes[name], mask

    def forget_outdated(self) -> None:
        """Frees the index of nodes that are not there any more, until the next query."""
        if self._layout != self._table.layout:
            self._list_of.clear()
            self._lists_with.clear()
            self._versions.clear()

    def _refresh(self) -> None:
        if self._layout == self._table.layout:
            return
        self._layout = self._table.layout
        self._changes += 1
        self._list_of.clear()
        self._lists_with.clear()
        self._versions.clear()
        for images, rows in self._lists():
            self._add(images, rows)

    def _lists(self) -> list[tuple[tuple[NodeImage, ...], list[int]]]:
        """The lists of images, and the rows that have each; nodes may share a list object."""
        found: list[tuple[tuple[NodeImage, ...], list[int]]] = []
        similar: dict[tuple[str, ...], list[tuple[tuple[NodeImage, ...], list[int]]]] = {}
        for row, entry in enumerate(self._table.rows):
            images = entry.node.images if entry.node is not None else ()
            if not images:
                continue
            lists = similar.setdefault(images[0].names, [])
            for known, rows in lists[-_MOST_SIMILAR:]:
                if known is images:
                    rows.append(row)
                    break
            else:
                lists.append((images, [row]))
                found.append(lists[-1])
        return found


def _sizes(images: tuple[NodeImage, ...]) -> dict[str, int]:
    """By name; the first image of a name counts."""
    return {name: image.size_bytes for image in reversed(images) for name in reversed(image.names)}
