"""Estimated load of pods that are too new to be in the measured figures."""

from __future__ import annotations

import numpy as np

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.nodes import Floats
from pumice.core.cache.tasks import Task
from pumice.core.configuration import Arguments, Limit, number, quantity
from pumice.core.model.quantities import quantity_nanos
from pumice.core.model.resources import CPU, MEMORY
from pumice.core.model.status import TaskStatus
from pumice.core.session.feasibility.figures import NodeFigures
from pumice.core.session.hooks import Rows
from pumice.core.session.session import Session
from pumice.patterns.quantities import whole

_MIB = 1024 * 1024
_PERCENT = 100.0
_ON_THE_WAY = (TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND)
_ANY_TIME = -1


_PART = Limit(at_least=0, at_most=1, otherwise="Volcano would use the default instead")


class EstimatorArguments(Arguments):
    """How the load of a pod is estimated."""

    request_ratio = number("request_ratio", 0.7, "fraction of a pod's request", _PART)
    burst_ratio = number("burst_ratio", 0.0, "fraction of limit minus request", _PART)
    risk_threshold = number(
        "risk_threshold", 0.6, "load of a node from which the risk factor counts", _PART
    )
    risk_factor = number(
        "risk_factor",
        1.2,
        "multiplies estimates on nodes above the risk threshold",
        Limit(at_least=1, otherwise="Volcano would use 1.2 instead"),
    )
    best_effort_cpu = quantity(
        "be_cpu", "250m", "cpu of a pod that asks for nothing; a bare number is in millicores"
    )
    best_effort_memory = quantity(
        "be_mem", "200Mi", "memory of a pod that asks for nothing; a bare number is in MiB"
    )


class Estimator:
    """How the load of a pod follows from its requests and limits."""

    def __init__(self, arguments: EstimatorArguments) -> None:
        self._request_ratio, self._burst_ratio = arguments.request_ratio, arguments.burst_ratio
        self._risk_threshold = arguments.risk_threshold
        self._risk_factor = arguments.risk_factor
        # The load of a pod that asks for nothing.
        self._milli_cpu = _amount(arguments.best_effort_cpu, 1000, bare=1)
        self._memory = _amount(arguments.best_effort_memory, 1, bare=_MIB)

    def load_of(self, task: Task, load: float) -> tuple[float, float]:
        """Millicores and bytes of a pod on a node with this load, from 0 to 1."""
        risk = self._risk_factor if load >= self._risk_threshold else 1.0
        if task.best_effort:
            return self._milli_cpu * risk, self._memory * risk
        spec = task.class_.spec
        cpu = self._estimate(float(task.request.milli_cpu), float(spec.limit_milli_cpu), risk)
        return cpu, self._estimate(float(task.request.memory), float(spec.limit_memory_bytes), risk)

    def _estimate(self, request: float, limit: float, risk: float) -> float:
        most = limit if limit > 0 and limit >= request else request
        estimate = (request * self._request_ratio + (most - request) * self._burst_ratio) * risk
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
        self._added: dict[str, tuple[int, tuple[float, float]]] = {}
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
                    self.add(task)

    def remove(self, task: Task) -> None:
        known = self._added.pop(task.uid, None)
        if known is not None:
            row, load = known
            self._changed.add(row)
            self._estimated[:, row] = np.maximum(self._estimated[:, row] - load, 0.0)

    def add(self, task: Task) -> None:
        row = self._session.table.row_of(task.node_name)
        if row is None:
            return
        # The risk is judged with what was counted for the pod before, as in Volcano.
        load = self._estimator.load_of(task, self._load(row))
        self.remove(task)
        self._estimated[:, row] += load
        self._added[task.uid] = (row, load)
        self._changed.add(row)

    def _load(self, row: int) -> float:
        """The weighted mean of the loads of one node."""
        total = sum(self._weights)
        if not total:
            return 0.0
        cpu, memory = self.composite([row])
        return float(cpu[0] * self._weights[0] + memory[0] * self._weights[1]) / total

    def composite(self, rows: Rows | list[int]) -> tuple[Floats, Floats]:
        """Measured and estimated cpu and memory as parts of the capacity, from 0 to 1."""
        capacity = self._capacity[:, rows]
        exists = capacity > 0
        used = self._measured[:, rows] / _PERCENT * capacity + self._estimated[:, rows]
        parts = np.divide(used, capacity, out=np.zeros(used.shape), where=exists)
        parts = np.clip(parts, 0.0, 1.0)
        return parts[0], parts[1]


def _amount(given: int | str, units: int, *, bare: int) -> float:
    """A quantity in units of its resource; a bare number is in units of its own."""
    if isinstance(given, int):
        return float(given * bare)
    nanos = quantity_nanos(given)
    return 0.0 if nanos is None else float(whole(nanos * units))


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
    """When a pod started; infinite for pods that have not, which are always new."""
    if task.status in _ON_THE_WAY:
        return np.inf
    if task.status is not TaskStatus.RUNNING:
        return _ANY_TIME
    return task.pod.start_time_ns or np.inf


def _newest(entry: NodeEntry) -> float:
    return max((_since(task) for task in entry.tasks.values()), default=_ANY_TIME)
