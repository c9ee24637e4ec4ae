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
from pumice.core.model.memo import Memo
from pumice.core.model.node import Node

S = TypeVar("S")
Q = TypeVar("Q")
A = TypeVar("A")


class NodeStates(Generic[S]):
    """One plugin's state of each node, computed from the node and the tasks on it.

    A state is computed again when its row of the node table has changed: by a delta, or by a
    placement or eviction of a session and its undoing.
    """

    def __init__(self, table: NodeTable, make: Callable[[NodeEntry], S], basis: object) -> None:
        self._table, self.make = table, make
        # The other input of ``make``, beside the node and its tasks.
        self.basis = basis
        self._layout = -1
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

    def forget_outdated(self) -> None:
        """Forgets all states after rows have moved."""
        if self._layout != self._table.layout:
            self._layout = self._table.layout
            self._known.clear()


class StateNumbers(ABC, Generic[S, Q, A]):
    """Numbers the states of nodes in one session, and keeps what a plugin answers about them.

    Equal states have the same number. A question is the request of a pod; its answer says whether
    the pod fits into a state.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        # By the number of the state, and the question: the answer, and the number of the state with
        # the pod; None: the pod does not fit.
        self.answers: Memo[tuple[int, Q], A] = Memo(
            lambda key: self._answer(self._values[key[0]], key[1])
        )
        self._nexts: Memo[tuple[int, Q], int | None] = Memo(
            lambda key: self._next(key[0], self.answers[key])
        )
        self._numbers: dict[S, int] = {}
        # By number.
        self._values: list[S] = []
        self._of_rows: NDArray[np.intp] = np.zeros(len(table), dtype=np.intp)
        self._position = -1

    @abstractmethod
    def number(self, row: int) -> int:
        """The number of the current state of a node."""

    @abstractmethod
    def _answer(self, state: S, question: Q) -> A:
        """What a pod would get in a state."""

    @abstractmethod
    def _next(self, number: int, answer: A) -> int | None:
        """The number of the state with the pod that got this answer; None: it does not fit."""

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

    def numbers_ahead(
        self, index: NDArray[np.intp] | None, ahead: NDArray[np.float64] | None, question: Q
    ) -> NDArray[np.intp]:
        """The numbers of some rows, or all, each after ``ahead`` more pods were placed there."""
        numbers = self._follow()
        if index is not None:
            numbers = numbers[index]
        if ahead is None:
            return numbers
        each = zip(numbers.tolist(), ahead.astype(np.intp).tolist(), strict=True)
        after = [self._after(number, question, count) for number, count in each]
        return np.array(after, dtype=np.intp)

    def _after(self, number: int, question: Q, count: int) -> int:
        """The number of the state after ``count`` more pods, as far as they fit."""
        for _ in range(count):
            after = self._nexts[number, question]
            if after is None:
                break
            number = after
        return number

    def most(self, number: int, question: Q, count: int) -> int:
        """How many further pods fit into a state, up to ``count``."""
        for found in range(count):
            after = self._nexts[number, question]
            if after is None:
                return found
            if after == number:
                # The pods take nothing.
                break
            number = after
        return count


class PluginNodeStates:
    """The node states of all plugins, by plugin."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._by_plugin: dict[str, NodeStates[Any]] = {}
        # The node objects of the first session, where a plugin ignores devices that are not newer.
        self.first_nodes: dict[str, Node] | None = None

    def of(self, plugin: str, make: Callable[[NodeEntry], S], basis: object) -> NodeStates[S]:
        table = self._table
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
        states.forget_outdated()
        return states

    def release(self) -> None:
        """Drops the references to the plugins of a session that has ended."""
        for states in self._by_plugin.values():
            states.make = _no_plugin

    def clear(self) -> None:
        self._by_plugin.clear()


def _no_plugin(entry: NodeEntry) -> Any:
    raise InvariantError(f"the state of node {entry.name} is asked for after its session")
