"""Estimated load of pods that are too new to be in the measured figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.nodes import Floats
from pumice.core.cache.tasks import Task
from pumice.core.model.quantities import parse_quantity, rounded_up
from pumice.core.model.resources import CPU, MEMORY
from pumice.core.model.status import TaskStatus
from pumice.core.session.feasibility.figures import NodeFigures
from pumice.core.session.hooks import Rows
from pumice.core.session.session import Session

_MIB = 1024 * 1024
_PERCENT = 100.0
_ON_THE_WAY = (TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND)
_ANY_TIME = -1


@dataclass(frozen=True, slots=True)
class Estimator:
    """How the load of a pod follows from its requests and limits."""

    request_ratio: float = 0.7
    burst_ratio: float = 0.0
    risk_threshold: float = 0.6
    risk_factor: float = 1.2
    # Of a pod that asks for nothing.
    milli_cpu: float = 250.0
    memory: float = 200.0 * _MIB

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Estimator:
        names = ("request_ratio", "burst_ratio", "risk_threshold", "risk_factor")
        values: dict[str, float] = {name: arguments[name] for name in names if name in arguments}
        cpu, memory = arguments.get("be_cpu"), arguments.get("be_mem")
        # A bare number is in millicores or mebibytes.
        if isinstance(cpu, int):
            values["milli_cpu"] = float(cpu)
        elif (quantity := parse_quantity(cpu)) is not None:
            values["milli_cpu"] = float(rounded_up(quantity * 1000))
        if isinstance(memory, int):
            values["memory"] = float(memory * _MIB)
        elif (quantity := parse_quantity(memory)) is not None:
            values["memory"] = float(rounded_up(quantity))
        return cls(**values)

    def load_of(self, task: Task, load: float) -> tuple[float, float]:
        """Millicores and bytes of a pod on a node that has so much load, from 0 to 1."""
        risk = self.risk_factor if load >= self.risk_threshold else 1.0
        if task.best_effort:
            return self.milli_cpu * risk, self.memory * risk
        spec = task.class_.spec
        cpu = self._estimate(float(task.request.milli_cpu), float(spec.limit_milli_cpu), risk)
        return cpu, self._estimate(float(task.request.memory), float(spec.limit_memory_bytes), risk)

    def _estimate(self, request: float, limit: float, risk: float) -> float:
        most = limit if limit > 0 and limit >= request else request
        estimate = (request * self.request_ratio + (most - request) * self.burst_ratio) * risk
        return min(max(estimate, 0.0), most)


class Loads:
    """Measured and estimated load of every node in one session."""

    def __init__(
        self,
        session: Session,
        figures: NodeFigures,
        estimator: Estimator,
        weights: tuple[float, float],
    ) -> None:
        self._session = session
        self._estimator = estimator
        self._weights = weights
        count = len(session.table)
        self._measured = np.stack((figures.cpu, figures.memory))
        self._estimated: Floats = np.zeros((2, count))
        capacities = [_capacity(entry) for entry in session.table.rows]
        self._capacity: Floats = np.array(capacities, dtype=float).reshape(count, 2).T
        # By uid: the row and what was added there.
        self._added: dict[str, tuple[int, float, float]] = {}
        self._changed: set[int] = set()

    def take_changed(self) -> list[int]:
        """The rows whose load has changed since this was last asked."""
        changed, self._changed = sorted(self._changed), set()
        return changed

    def add_new_pods(self, plugin: str, interval_ns: int, without: str) -> None:
        """Adds pods that are on their way, or run for less than an interval."""
        states = self._session.node_states(plugin, _newest)
        oldest_ns = self._session.now_ns - interval_ns
        for row, entry in enumerate(self._session.table.rows):
            if states.of(row) <= oldest_ns:
                continue
            for task in entry.tasks_in_order():
                if task.uid != without and _since(task) > oldest_ns:
                    self._add(row, task)

    def add(self, task: Task) -> None:
        row = self._session.table.row_of(task.node_name)
        if row is not None:
            self._add(row, task)

    def remove(self, task: Task) -> None:
        known = self._added.pop(task.uid, None)
        if known is not None:
            row, cpu, memory = known
            self._changed.add(row)
            self._estimated[0, row] = max(self._estimated[0, row] - cpu, 0.0)
            self._estimated[1, row] = max(self._estimated[1, row] - memory, 0.0)

    def _add(self, row: int, task: Task) -> None:
        # The risk is judged with what was counted for the pod before, as in Volcano.
        cpu, memory = self._estimator.load_of(task, self._load(row))
        self.remove(task)
        self._estimated[0, row] += cpu
        self._estimated[1, row] += memory
        self._added[task.uid] = (row, cpu, memory)
        self._changed.add(row)

    def _load(self, row: int) -> float:
        """The weighted mean of the loads of one node."""
        total = sum(self._weights)
        if not total:
            return 0.0
        cpu, memory = self._part(0, row), self._part(1, row)
        return (cpu * self._weights[0] + memory * self._weights[1]) / total

    def _part(self, line: int, row: int) -> float:
        """The same as ``composite`` for one number, which is faster for a single node."""
        capacity: float = self._capacity.item(line, row)
        if capacity <= 0:
            return 0.0
        used = self._measured.item(line, row) / _PERCENT * capacity
        return min(max((used + self._estimated.item(line, row)) / capacity, 0.0), 1.0)

    def composite(self, rows: Rows) -> tuple[Floats, Floats]:
        """Measured and estimated cpu and memory as parts of the capacity, from 0 to 1."""
        capacity = self._capacity[:, rows]
        exists = capacity > 0
        used = self._measured[:, rows] / _PERCENT * capacity + self._estimated[:, rows]
        parts = np.divide(used, capacity, out=np.zeros(used.shape), where=exists)
        parts = np.clip(parts, 0.0, 1.0)
        return parts[0], parts[1]


def _capacity(entry: NodeEntry) -> tuple[int, int]:
    node = entry.node
    if node is None:
        return (0, 0)
    amounts = dict(node.capacity)
    return (
        amounts.get(CPU, 0) + node.oversubscription_milli_cpu,
        amounts.get(MEMORY, 0) + node.oversubscription_memory_bytes,
    )


def _since(task: Task) -> float:
    """From when on a pod on a node has load of its own; pods without a start are new for ever."""
    if task.status in _ON_THE_WAY:
        return np.inf
    if task.status is not TaskStatus.RUNNING:
        return _ANY_TIME
    return task.pod.start_time_ns or np.inf


def _newest(entry: NodeEntry) -> float:
    return max((_since(task) for task in entry.tasks.values()), default=_ANY_TIME)
