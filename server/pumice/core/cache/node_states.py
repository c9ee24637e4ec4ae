"""What plugins keep about each node, over sessions, as long as nothing about the node changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.nodes import NodeTable
from pumice.core.errors import InvariantError
from pumice.core.model.node import Node

S = TypeVar("S")


class NodeStates(Generic[S]):
    """One plugin's state of each node, computed from the node and the tasks on it.

    A state is computed again when its row of the node table has changed. So it follows deltas,
    placements and evictions of the session, their undoing and their commit.
    """

    def __init__(self, table: NodeTable, make: Callable[[NodeEntry], S]) -> None:
        self._table = table
        self.make = make
        # By row: the number of the row's last change, and the state.
        self._known: dict[int, tuple[int, S]] = {}

    def of(self, row: int) -> S:
        """The state of a node; a plugin changes nothing in it."""
        stamp: int = self._table.stamps.item(row)
        known = self._known.get(row)
        if known is None or known[0] != stamp:
            known = self._known[row] = (stamp, self.make(self._table.rows[row]))
        return known[1]

    def update(self, row: int, state: S) -> None:
        """Sets the state of a node, by a plugin that knows what ``make`` would compute now."""
        self._known[row] = (self._table.stamps.item(row), state)

    def drop_beyond(self, rows: int) -> None:
        self._known = {row: state for row, state in self._known.items() if row < rows}


class PluginNodeStates:
    """The node states of all plugins, by plugin."""

    def __init__(self) -> None:
        self._by_plugin: dict[str, NodeStates[Any]] = {}
        # Node objects of the first session, where it matters which of them are newer.
        self.first_nodes: dict[str, Node] | None = None

    def of(self, plugin: str, table: NodeTable, make: Callable[[NodeEntry], S]) -> NodeStates[S]:
        table.has_states = True
        states = self._by_plugin.get(plugin)
        if states is None:
            states = self._by_plugin[plugin] = NodeStates(table, make)
        # Plugins are made anew for every session.
        states.make = make
        states.drop_beyond(len(table))
        return states

    def release(self) -> None:
        """The session has ended: its plugins may be freed."""
        for states in self._by_plugin.values():
            states.make = _no_plugin

    def clear(self) -> None:
        self._by_plugin.clear()


def _no_plugin(entry: NodeEntry) -> Any:
    raise InvariantError(f"the state of node {entry.name} is asked for after its session")
