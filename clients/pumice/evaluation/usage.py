"""Resources that pods use and request, by queue and over time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pumice.evaluation.amounts import in_units
from pumice.evaluation.job_results import placed_ns
from pumice.recordings.history import ExternalEvent
from pumice.recordings.pod_records import PodRecord

Floats = NDArray[np.float64]

POINTS = 200
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Span:
    """The time range of a recording."""

    start_ns: int
    end_ns: int

    @property
    def ns(self) -> int:
        return max(self.end_ns - self.start_ns, 1)

    def times(self) -> list[int]:
        """Evenly spaced points, for curves."""
        return [self.start_ns + self.ns * number // POINTS for number in range(POINTS + 1)]


class Usage:
    """Amounts that pods use and wait for, as averages and at the points of curves."""

    def __init__(
        self,
        span: Span,
        records: Iterable[PodRecord],
        queues: Mapping[str, str],
        external: Sequence[ExternalEvent],
    ) -> None:
        """``queues`` has the queue of each job; ``external`` has the nodes."""
        self._span, self._times = span, span.times()
        self.capacity = _Capacity(span, self._times, external)
        self.resources = self.capacity.resources
        index = {name: number for number, name in enumerate(self.resources)}
        # By queue: a row for each resource, first with changes, then with cumulative sums.
        self._held: dict[str, Floats] = {}
        self._waiting: dict[str, Floats] = {}
        self._held_ns: dict[str, Floats] = {}
        self.waiting_pods = np.zeros(len(self._times) + 1)
        for record in records:
            self._add(record, queues.get(record.job, ""), index)
        for held in (*self._held.values(), *self._waiting.values()):
            np.cumsum(held, axis=1, out=held)
        self.waiting_pods = np.cumsum(self.waiting_pods)[:-1]

    @property
    def queues(self) -> list[str]:
        return sorted(self._held_ns)

    def _add(self, record: PodRecord, queue: str, index: Mapping[str, int]) -> None:
        rows = [
            (index[name], amount)
            for name, amount in record.pod.spec.requests.items()
            if name in index
        ]
        end_ns = self._span.end_ns
        if queue not in self._held:
            shape = (len(index), len(self._times) + 1)
            self._held[queue], self._waiting[queue] = np.zeros(shape), np.zeros(shape)
            self._held_ns[queue] = np.zeros(len(index))
        if record.bound_ns:
            until_ns = record.finished_ns or record.gone_ns or end_ns
            self._put(self._held[queue], record.bound_ns, until_ns, rows)
            inside_ns = min(until_ns, end_ns) - max(record.bound_ns, self._span.start_ns)
            for row, amount in rows:
                self._held_ns[queue][row] += amount * max(inside_ns, 0)
        if needs_placement(record):
            until_ns = max(placed_ns(record) or record.gone_ns or end_ns + 1, record.created_ns)
            self._put(self._waiting[queue], record.created_ns, until_ns, rows)
            self.waiting_pods[bisect_left(self._times, record.created_ns)] += 1
            self.waiting_pods[bisect_left(self._times, until_ns)] -= 1

    def _put(
        self, sums: Floats, from_ns: int, until_ns: int, rows: Iterable[tuple[int, int]]
    ) -> None:
        first = bisect_left(self._times, from_ns)
        last = bisect_left(self._times, max(until_ns, from_ns))
        for row, amount in rows:
            sums[row, first] += amount
            sums[row, last] -= amount

    def share(self, resource: str, queue: str | None = None) -> float:
        """The average share of a resource that the pods of a queue, or all pods, used."""
        row = self.resources.index(resource)
        offered = self.capacity.offered_ns[row]
        queues = self._held_ns.values() if queue is None else [self._held_ns[queue]]
        return float(sum(held[row] for held in queues) / offered) if offered else 0.0

    def shares(self, queue: str | None = None) -> Floats:
        """The used shares: a row for each resource, a column for each point."""
        queues = self._held.values() if queue is None else [self._held[queue]]
        total = sum((held[:, :-1] for held in queues), np.zeros_like(self.capacity.amounts))
        return self._of_capacity(total)

    def wanted(self, queue: str) -> Floats:
        """The shares that the pods of a queue used or waited for."""
        return self._of_capacity((self._held[queue] + self._waiting[queue])[:, :-1])

    def _of_capacity(self, amounts: Floats) -> Floats:
        capacity = self.capacity.amounts
        return np.divide(amounts, capacity, out=np.zeros_like(amounts), where=capacity > 0)


class _Capacity:
    """Allocatable amounts of all nodes over time."""

    def __init__(self, span: Span, times: Sequence[int], external: Sequence[ExternalEvent]) -> None:
        steps = list(_node_steps(external))
        names = {name for _, _, amounts in steps for name, amount in amounts.items() if amount}
        self.resources = sorted(names - {"pods"}, key=lambda name: (name != "cpu", name))
        index = {name: number for number, name in enumerate(self.resources)}
        sums = np.zeros((len(index), len(times) + 1))
        self.offered_ns = np.zeros(len(index))
        for at_ns, sign, amounts in steps:
            point = bisect_left(times, at_ns)
            left_ns = max(span.end_ns - max(at_ns, span.start_ns), 0)
            for name, amount in amounts.items():
                if name in index:
                    sums[index[name], point] += sign * amount
                    self.offered_ns[index[name]] += sign * amount * left_ns
        self.amounts: Floats = np.cumsum(sums, axis=1)[:, :-1]

    def offered(self, name: str) -> float:
        """Core-seconds, GiB-seconds or unit-seconds that the nodes offered."""
        offered_ns = float(self.offered_ns[self.resources.index(name)])
        return in_units(name, 1) * offered_ns / _SECOND_NS


def _node_steps(
    external: Iterable[ExternalEvent],
) -> Iterable[tuple[int, int, Mapping[str, int]]]:
    """Amounts that nodes add to or remove from the cluster, with times and signs."""
    nodes: dict[str, dict[str, int]] = {}
    for event in external:
        is_node = event.object is not None and event.object.HasField("node")
        if not is_node and not (event.object is None and event.uid in nodes):
            continue
        if event.uid in nodes:
            yield event.at_ns, -1, nodes.pop(event.uid)
        if event.object is not None:
            nodes[event.uid] = dict(event.object.node.allocatable)
            yield event.at_ns, 1, nodes[event.uid]


def needs_placement(record: PodRecord) -> bool:
    """Whether the scheduler had to place the pod; false if it was created with a node."""
    return bool(record.decided_ns and not record.is_old) or not record.bound_ns
