"""Some rows of the node table, as filters and scorers see them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.nodes import Floats, NodeTable
from pumice.core.cache.tasks import TaskClass


class NodeRows:
    """The amounts of chosen nodes: arrays of shape (resources, chosen), gathered when asked for.

    With nothing chosen these are all the nodes, without a copy. ``ahead`` says, row by row, how
    many more tasks of a class are imagined to be there already.
    """

    __slots__ = ("_ahead", "_class", "_table", "index")

    def __init__(
        self,
        table: NodeTable,
        index: NDArray[np.intp] | None = None,
        class_: TaskClass | None = None,
        ahead: Floats | None = None,
    ) -> None:
        self._table = table
        self._class = class_
        self._ahead = ahead
        self.index = index

    def __len__(self) -> int:
        return len(self._table) if self.index is None else len(self.index)

    def _pick(self, array: Floats, sign: int = 0) -> Floats:
        if self.index is None:
            return array
        picked = array[:, self.index]
        if sign and self._ahead is not None and self._class is not None:
            change = self._table.vector(self._class)[:, None] * self._ahead
            return picked + change if sign > 0 else picked - change
        return picked

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
        return self._pick(self._table.idle, -1)

    @property
    def used(self) -> Floats:
        return self._pick(self._table.used, 1)

    @property
    def future(self) -> Floats:
        return self._pick(self._table.future, -1)

    @property
    def releasing(self) -> Floats:
        return self._pick(self._table.releasing)

    @property
    def kube_allocatable(self) -> Floats:
        return self._pick(self._table.kube_allocatable)

    @property
    def kube_requested(self) -> Floats:
        return self._pick(self._table.kube_requested, 1)

    @property
    def kube_non_zero(self) -> Floats:
        """By row: cpu and memory, where a container that asks for none counts a default."""
        picked = self._pick(self._table.kube_non_zero)
        if self._ahead is not None and self._class is not None:
            spec = self._class.spec
            asked = np.array([[spec.non_zero_milli_cpu], [spec.non_zero_memory_bytes]], dtype=float)
            return picked + asked * self._ahead
        return picked

    @property
    def kube_pods(self) -> Floats:
        pods = self._table.kube_pods
        if self.index is None:
            return pods
        picked = pods[self.index]
        return picked if self._ahead is None else picked + self._ahead
