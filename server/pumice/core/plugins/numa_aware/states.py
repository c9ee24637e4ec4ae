"""The free cpus of nodes, and the cpus that a pod would get, computed once for equal nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.node_states import NodeStates, StateNumbers
from pumice.core.cache.nodes import NodeTable
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

CPUS = "pumice.sh/numa-cpus"
NO_INFORMATION = "numa info is empty"
NOT_STATIC = "cpu manager policy isn't static"
NOTHING_FREE = "cpu allocatable map is empty"
INVALID = "numa info is invalid"
_ALIGNED = (BEST_EFFORT, RESTRICTED, SINGLE)

_NO_COUNTS: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
# The layout and the free cpus of a node; None: the topology of the node is not known.
State = tuple[Layout | None, int] | None


class Question(NamedTuple):
    """The request of a pod: its policy, and the number of cpus and the name of each container."""

    policy: str
    counts: tuple[int, ...]
    names: tuple[str, ...]


class Answer(NamedTuple):
    """The cpus of a pod on a node, or why it gets none."""

    # Empty: the pod fits; it has no cpus if the kubelet does not assign exclusive cpus to it.
    reason: str = ""
    cpus: int = 0
    numa_count: int = 0


class CpuStates(StateNumbers[State, Question, Answer]):
    """The states of all nodes in one session, by number, and the answers about them."""

    def __init__(self, states: NodeStates[State], table: NodeTable) -> None:
        super().__init__(table)
        self._states = states
        # By question: the number of NUMA nodes, by number of the state.
        self._counts: dict[Question, NDArray[np.int64]] = {}

    def number(self, row: int) -> int:
        return self._number_of(self._states.of(row))

    def _next(self, number: int, answer: Answer) -> int | None:
        if answer.reason:
            return None
        state = self._values[number]
        if state is None or not answer.cpus:
            return number
        return self._number_of((state[0], state[1] & ~answer.cpus))

    def _answer(self, state: State, question: Question) -> Answer:
        has_policy = question.policy in _ALIGNED
        if state is None:
            return Answer(NO_INFORMATION if has_policy else "")
        layout, free = state
        if layout is None:
            return Answer(INVALID)
        if has_policy:
            reason = _why_not(layout, free, question.policy)
            if reason:
                return Answer(reason)
        elif not layout.static or layout.policy not in _ALIGNED:
            # The kubelet does not align pods without a policy.
            return Answer()
        found = align(layout, free, question.counts)
        if found.refused >= 0:
            name = question.names[found.refused]
            return Answer(f"container {name} cannot be assigned by numa")
        return Answer("", found.cpus, layout.numa_count(found.cpus))

    def numa_counts(self, rows: NDArray[np.intp], question: Question) -> NDArray[np.int64]:
        """By row, the number of NUMA nodes of the pod's cpus."""
        numbers, known = self.numbers_of(rows), self._counts.get(question, _NO_COUNTS)
        new = range(len(known), len(self._values))
        if new:
            more = [self.answers[number, question].numa_count for number in new]
            known = np.concatenate((known, np.array(more, dtype=np.int64)))
            self._counts[question] = known
        return known[numbers]

    def place(self, row: int, number: int, cpus: int) -> None:
        """Updates the state of a node, whose number is given, after a pod got these cpus."""
        state = self._values[number]
        if state is not None:
            self._states.update(row, (state[0], state[1] & ~cpus))


def _why_not(layout: Layout, free: int, policy: str) -> str:
    """Why a node is not feasible for a pod with this policy; empty: it is feasible."""
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
            # After the kubelet has assigned cpus to the pod, they are not free in the topology.
            if text and task.uid not in topology.pod_allocations:
                planned |= read_cpus(text) or 0
        return (layout, _without(layout, free, planned))

    return read


def _without(layout: Layout, free: int, planned: int) -> int:
    """The free cpus without those that are planned for pods.

    If the kubelet has assigned planned cpus to other pods, as many other free cpus are removed, of
    the same NUMA node where possible.
    """
    remaining, short = free & ~planned, 0
    if not planned & ~free:
        return remaining
    for mask in layout.by_numa.values():
        missing = (planned & mask & ~free).bit_count()
        replaced = list(numbers_in(remaining & mask))[:missing]
        remaining &= ~bits(replaced)
        short += missing - len(replaced)
    return remaining & ~bits(list(numbers_in(remaining))[:short])
