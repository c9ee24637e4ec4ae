"""The images that nodes have, by name, kept up with every report of a node."""

from __future__ import annotations

from collections.abc import Iterable
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


class ImageIndex:
    """The rows that have an image; built when somebody first asks."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._layout = -1
        # By name: the rows that have the image, and its size there.
        self._rows: dict[str, dict[int, int]] = {}
        # By name: the number of the last change of these rows; of others it is at most the first.
        self._versions: dict[str, int] = {}
        self._first = self._changes = 0

    def change(self, row: int, before: tuple[NodeImage, ...], after: tuple[NodeImage, ...]) -> None:
        """A node reports other images than before."""
        if self._layout != self._table.layout:
            return
        old, new = _sizes(before), _sizes(after)
        self._changes += 1
        for name in old.keys() - new.keys():
            rows = self._rows[name]
            del rows[row]
            self._versions[name] = self._changes
            if not rows:
                del self._rows[name]
        for name, size in new.items():
            if old.get(name) != size:
                self._rows.setdefault(name, {})[row] = size
                self._versions[name] = self._changes
        if len(self._versions) > len(self._rows) + _MOST_GONE:
            self._versions, self._first = {}, self._changes

    def version(self, names: Iterable[str]) -> tuple[int, ...]:
        """Changes when the rows or sizes of one of these images do."""
        self._refresh()
        return tuple([self._versions.get(name, self._first) for name in names])

    def find(self, name: str) -> tuple[int, Mask] | None:
        """The size of an image, which is that on the first row, and where it is; None: nowhere."""
        self._refresh()
        rows = self._rows.get(name)
        if not rows:
            return None
        mask = np.zeros(len(self._table), dtype=np.bool_)
        mask[list(rows)] = True
        return rows[min(rows)], mask

    def _refresh(self) -> None:
        if self._layout == self._table.layout:
            return
        self._layout = self._table.layout
        self._changes += 1
        self._rows.clear()
        self._versions.clear()
        for images, rows in self._lists():
            for name, size in _sizes(images).items():
                self._rows.setdefault(name, {}).update(dict.fromkeys(rows, size))

    def _lists(self) -> list[tuple[tuple[NodeImage, ...], list[int]]]:
        """The lists of images, and the rows that have each; nodes may share a list object."""
        found: list[tuple[tuple[NodeImage, ...], list[int]]] = []
        similar: dict[tuple[str, ...], list[tuple[tuple[NodeImage, ...], list[int]]]] = {}
        for row, entry in enumerate(self._table.rows):
            images = entry.node.images if entry.node is not None else ()
            if not images:
                continue
            lists = similar.setdefault(images[0].names, [])
            rows = next((rows for known, rows in lists[-_MOST_SIMILAR:] if known is images), None)
            if rows is None:
                rows = []
                lists.append((images, rows))
                found.append((images, rows))
            rows.append(row)
        return found


def _sizes(images: tuple[NodeImage, ...]) -> dict[str, int]:
    """By name; the first image of a name counts."""
    sizes: dict[str, int] = {}
    for image in images:
        for name in image.names:
            sizes.setdefault(name, image.size_bytes)
    return sizes
