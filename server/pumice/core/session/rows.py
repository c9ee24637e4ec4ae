"""Some rows of the node table, as filters and scorers see them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.nodes import Floats, NodeTable


class NodeRows:
    """The amounts of chosen nodes: arrays of shape (resources, chosen), gathered when asked for.

    With nothing chosen these are all the nodes, without a copy. ``names`` of nodes are by row.
    """

    __slots__ = ("_table", "index")

    def __init__(self, table: NodeTable, index: NDArray[np.intp] | None = None) -> None:
        self._table = table
        self.index = index

    def __len__(self) -> int:
        return len(self._table) if self.index is None else len(self.index)

    def _pick(self, array: Floats) -> Floats:
        return array if self.index is None else array[..., self.index]

    def column(self, resource: str) -> int | None:
        return self._table.column_of(resource)

    @property
    def columns(self) -> list[str]:
        return self._table.columns

    @property
    def allocatable(self) -> Floats:
        return self._pick(self._table.allocatable)

    @property
    def idle(self) -> Floats:
        return self._pick(self._table.idle)

    @property
    def used(self) -> Floats:
        return self._pick(self._table.used)

    @property
    def future(self) -> Floats:
        return self._pick(self._table.future)

    @property
    def releasing(self) -> Floats:
        return self._pick(self._table.releasing)

    @property
    def kube_allocatable(self) -> Floats:
        return self._pick(self._table.kube_allocatable)

    @property
    def kube_requested(self) -> Floats:
        return self._pick(self._table.kube_requested)

    @property
    def kube_non_zero(self) -> Floats:
        return self._pick(self._table.kube_non_zero)

    @property
    def kube_pods(self) -> Floats:
        return self._pick(self._table.kube_pods)
