"""States of nodes that plugins keep over sessions, until the node or its tasks change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.nodes import NodeTable
from pumice.core.errors import InvariantError
from pumice.core.model.node import Node

S = TypeVar("S")


class NodeStates(Generic[S]):
    """One plugin's state of each node, computed from the node and the tasks on it.

    A state is computed again when its row of the node table has changed: by a delta, or by a
    placement or eviction of a session and its undoing.
    """

    def __init__(self, table: NodeTable, make: Callable[[NodeEntry], S], basis: object) -> None:
        self._table, self.make = table, make
        # The other input of ``make``, beside the node and its tasks.
        self.basis = basis
        # By row: the number of the row's last change, and the state.
        self._known: dict[int, tuple[int, S]] = {}

    def of(self, row: int) -> S:
        """The state of a node, read-only."""
        stamp: int = self._table.stamps.item(row)
        known = self._known.get(row)
        if known is None or known[0] != stamp:
            known = self._known[row] = (stamp, self.make(self._table.rows[row]))
        return known[1]

    def update(self, row: int, state: S) -> None:
        """Sets the state of a node; it must equal what ``make`` would compute now."""
        self._known[row] = (self._table.stamps.item(row), state)

    def drop_beyond(self, rows: int) -> None:
        self._known = {row: state for row, state in self._known.items() if row < rows}


class StateNumbers(ABC, Generic[S]):
    """Numbers the states of nodes in one session; equal states have the same number."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._numbers: dict[S, int] = {}
        # By number.
        self._values: list[S] = []
        self._of_rows: NDArray[np.intp] = np.zeros(len(table), dtype=np.intp)
        self._position = -1

    @abstractmethod
    def number(self, row: int) -> int:
        """The number of the current state of a node."""

    def _number_of(self, state: S) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._values)
            self._values.append(state)
        return number

    def _follow(self) -> NDArray[np.intp]:
        """The numbers of all rows, up to date."""
        if self._position != self._table.changes:
            for row in self._table.touched_since(self._position).tolist():
                self._of_rows[row] = self.number(row)
            self._position = self._table.changes
        return self._of_rows

    def numbers_of(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """The numbers of some rows."""
        return self._follow()[rows]

    def _numbers_ahead(
        self,
        index: NDArray[np.intp] | None,
        ahead: NDArray[np.float64] | None,
        after: Callable[[int, int], int],
    ) -> NDArray[np.intp]:
        """The numbers of some rows, or all, each after ``ahead`` more tasks were placed there.

        ``after`` returns the number of a state after so many more tasks.
        """
        numbers = self._follow()
        if index is not None:
            numbers = numbers[index]
        if ahead is None:
            return numbers
        counts = ahead.astype(np.intp).tolist()
        return np.array(list(map(after, numbers.tolist(), counts)), dtype=np.intp)


class PluginNodeStates:
    """The node states of all plugins, by plugin."""

    def __init__(self) -> None:
        self._by_plugin: dict[str, NodeStates[Any]] = {}
        # The node objects of the first session, where a plugin ignores devices that are not newer.
        self.first_nodes: dict[str, Node] | None = None

    def of(
        self, plugin: str, table: NodeTable, make: Callable[[NodeEntry], S], basis: object
    ) -> NodeStates[S]:
        table.has_states = True
        states = self._by_plugin.get(plugin)
        if states is None:
            states = self._by_plugin[plugin] = NodeStates(table, make, basis)
        elif states.basis != basis:
            states.basis = basis
            for row in range(len(table)):
                table.touch(row)
        # Every session has new plugin objects.
        states.make = make
        states.drop_beyond(len(table))
        return states

    def release(self) -> None:
        """Drops the references to the plugins of a session that has ended."""
        for states in self._by_plugin.values():
            states.make = _no_plugin

    def clear(self) -> None:
        self._by_plugin.clear()


def _no_plugin(entry: NodeEntry) -> Any:
    raise InvariantError(f"the state of node {entry.name} is asked for after its session")
