"""An index of the images that nodes have, by name; a changed node changes only its own rows."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from pumice.core.model.fit import Mask
from pumice.core.model.node import NodeImage

if TYPE_CHECKING:
    from pumice.core.cache.nodes import NodeTable


# The number of images without a node whose versions are kept.
_MOST_GONE = 10_000
# The number of lists with the same first image that a list is compared with.
_MOST_SIMILAR = 8


class _ImageList:
    """The sizes of the images in a list, by name, and the rows of the nodes that report the list."""

    __slots__ = ("rows", "sizes")

    def __init__(self, images: tuple[NodeImage, ...], rows: Iterable[int]) -> None:
        # Of several images with one name, the first counts.
        self.sizes = {
            name: image.size_bytes for image in reversed(images) for name in reversed(image.names)
        }
        self.rows = set(rows)


class ImageIndex:
    """The rows that have an image; built on the first query."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._layout = -1
        # The list of each row, and the lists that contain each image.
        self._list_of: dict[int, _ImageList] = {}
        self._lists_with: dict[str, dict[_ImageList, None]] = {}
        # By name, the number of the last change that concerned the image. The number of an image that is
        # not here is ``_first`` or less.
        self._versions: dict[str, int] = {}
        self._first = self._changes = 0

    def change(self, row: int, after: tuple[NodeImage, ...]) -> None:
        """Updates the index for a node that reports other images than before."""
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
        for name in added.sizes:
            self._lists_with.setdefault(name, {})[added] = None
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
        """The size of an image, as the first node that has it reports it, and the nodes; None: no node."""
        self._refresh()
        lists = self._lists_with.get(name)
        if not lists:
            return None
        mask = np.zeros(len(self._table), dtype=np.bool_)
        rows = chain.from_iterable([each.rows for each in lists])
        mask[np.fromiter(rows, dtype=np.intp)] = True
        return self._list_of[int(mask.argmax())].sizes[name], mask

    def forget_outdated(self) -> None:
        """Clears the index after rows have moved; the next query builds it again."""
        if self._layout != self._table.layout:
            self._list_of.clear()
            self._lists_with.clear()
            self._versions.clear()

    def _refresh(self) -> None:
        if self._layout == self._table.layout:
            return
        self.forget_outdated()
        self._layout = self._table.layout
        self._changes += 1
        # Many nodes share one list object. Candidates for a shared list have the same first image.
        known: dict[tuple[str, ...], list[tuple[tuple[NodeImage, ...], list[int]]]] = {}
        for row, entry in enumerate(self._table.rows):
            images = entry.node.images if entry.node is not None else ()
            if images:
                similar = known.setdefault(images[0].names, [])
                last = reversed(similar[-_MOST_SIMILAR:])
                rows = next((rows for each, rows in last if each is images), None)
                if rows is None:
                    similar.append((images, rows := []))
                rows.append(row)
        for images, rows in chain.from_iterable(known.values()):
            self._add(images, rows)
