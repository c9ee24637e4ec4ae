"""The free cpus of nodes, and the cpus that a pod would get, computed once for equal nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.node_states import NodeStates, StateNumbers
from pumice.core.cache.nodes import NodeTable
from pumice.core.model.memo import Memo
from pumice.core.model.topology import NumaTopology
from pumice.core.plugins.numa_aware.alignment import (
    BEST_EFFORT,
    RESTRICTED,
    SINGLE,
    Layout,
    align,
    bits,
    layout_of,
    numbers_in,
    read_cpus,
)
from pumice.core.session.feasibility.rows import NodeRows

CPUS = "pumice.sh/numa-cpus"
NO_INFORMATION = "numa info is empty"
NOT_STATIC = "cpu manager policy isn't static"
NOTHING_FREE = "cpu allocatable map is empty"
UNUSABLE = "numa info cannot be used"
_ALIGNED = (BEST_EFFORT, RESTRICTED, SINGLE)

_NO_COUNTS: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
# The layout and the free cpus of a node; None: nothing is known of the node.
State = tuple[Layout | None, int] | None


class Question(NamedTuple):
    """The request of a pod: its policy, and the number of cpus and the name of each container."""

    policy: str
    counts: tuple[int, ...]
    names: tuple[str, ...]


class Answer(NamedTuple):
    """The cpus of a pod on a node, or why it gets none."""

    # Empty: the pod fits; it has no cpus if the kubelet assigns none.
    reason: str = ""
    cpus: int = 0
    numa_count: int = 0


class CpuStates(StateNumbers[State]):
    """The states of all nodes in one session, by number, and the answers about them."""

    def __init__(self, states: NodeStates[State], table: NodeTable) -> None:
        super().__init__(table)
        self._states = states
        # By state and question.
        self.answers = Memo[tuple[int, Question], Answer](
            lambda key: _answer(self._values[key[0]], key[1])
        )
        # By question: the number of NUMA nodes, by number of the state.
        self._counts: dict[Question, NDArray[np.int64]] = {}

    def number(self, row: int) -> int:
        return self._number_of(self._states.of(row))

    def numbers(self, rows: NodeRows, question: Question) -> NDArray[np.intp]:
        """The numbers of the states of rows, with the pods that count as placed there."""
        return self._numbers_ahead(
            rows.index, rows.ahead, lambda number, count: self._after(number, question, count)
        )

    def _after(self, number: int, question: Question, count: int) -> int:
        for _ in range(count):
            answer, state = self.answers[number, question], self._values[number]
            if not answer.cpus or state is None:
                return number
            number = self._number_of((state[0], state[1] & ~answer.cpus))
        return number

    def most(self, number: int, question: Question, count: int) -> int:
        """How many further pods fit into a state, up to ``count``."""
        found, at = 0, number
        while found < count and not self.answers[at, question].reason:
            after = self._after(at, question, 1)
            if after == at:
                # Any number of pods without exclusive cpus fit.
                return count
            found, at = found + 1, after
        return found

    def numa_counts(self, rows: NDArray[np.intp], question: Question) -> NDArray[np.int64]:
        """By row, the number of NUMA nodes that the pod's cpus touch."""
        numbers, known = self.numbers_of(rows), self._counts.get(question, _NO_COUNTS)
        new = range(len(known), len(self._values))
        if new:
            more = [self.answers[number, question].numa_count for number in new]
            known = np.concatenate((known, np.array(more, dtype=np.int64)))
            self._counts[question] = known
        return known[numbers]

    def place(self, row: int, number: int, cpus: int) -> None:
        """Sets the state of a node, after a pod got cpus in the state with this number."""
        state = self._values[number]
        if state is not None:
            self._states.update(row, (state[0], state[1] & ~cpus))


def _answer(state: State, question: Question) -> Answer:
    wants = question.policy in _ALIGNED
    reason = _why_not(state, question.policy) if wants else ""
    if reason:
        return Answer(reason)
    layout = None if state is None else state[0]
    if state is None or (not wants and not _is_aligned(layout)):
        return Answer()
    if layout is None:
        return Answer(UNUSABLE)
    found = align(layout, state[1], question.counts)
    if found.refused >= 0:
        name = question.names[found.refused]
        return Answer(f"container {name} cannot be assigned by numa")
    return Answer("", found.cpus, layout.numa_count(found.cpus))


def _is_aligned(layout: Layout | None) -> bool:
    """Whether the kubelet aligns pods without a policy; if the layout is unknown, it may."""
    return layout is None or (layout.static and layout.policy in _ALIGNED)


def _why_not(state: State, policy: str) -> str:
    """Why a pod with a policy of its own cannot use a node."""
    if state is None:
        return NO_INFORMATION
    layout, free = state
    if layout is None:
        return UNUSABLE
    if not layout.static:
        return NOT_STATIC
    if layout.policy != policy:
        return f"task topology policy[{policy}] is different with node[{layout.policy}]"
    return "" if free else NOTHING_FREE


def reader(topologies: Callable[[str], NumaTopology | None]) -> Callable[[NodeEntry], State]:
    """Returns a function that reads the state of a node: its topology, and the cpus of its pods."""
    known: dict[str, tuple[NumaTopology, Layout | None, int | None]] = {}

    def read(entry: NodeEntry) -> State:
        topology = topologies(entry.name)
        if topology is None:
            return None
        found = known.get(entry.name)
        if found is None or found[0] is not topology:
            free = read_cpus(topology.resources.get("cpu", ("", 0))[0])
            found = known[entry.name] = (topology, layout_of(topology), free)
        _, layout, free = found
        if layout is None or free is None:
            return (None, 0)
        planned = 0
        for task in entry.tasks.values():
            text = task.annotations.get(CPUS)
            # After the kubelet has given cpus to the pod, the topology shows them as taken.
            if text and task.uid not in topology.pod_allocations:
                planned |= read_cpus(text) or 0
        return (layout, _without(layout, free, planned))

    return read


def _without(layout: Layout, free: int, planned: int) -> int:
    """The free cpus without those that are planned for pods.

    The kubelet may have given planned cpus to other pods. Then as many other cpus are left out.
    """
    left, short = free & ~planned, 0
    if not planned & ~free:
        return left
    for mask in layout.by_numa.values():
        missing = (planned & mask & ~free).bit_count()
        here = list(numbers_in(left & mask))[:missing]
        left &= ~bits(here)
        short += missing - len(here)
    return left & ~bits(list(numbers_in(left))[:short])
