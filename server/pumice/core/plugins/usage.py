"""usage: filters and scores nodes by their measured load.

A node above a threshold takes no pods, and nodes with a lower load score higher. The load in the
score includes an estimate for pods that are too new to be measured.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.nodes import Floats
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import (
    Arguments,
    Limit,
    PluginOptions,
    integer,
    mapping,
    number,
    quantity,
)
from pumice.core.configuration.volcano_names import Metrics
from pumice.core.model.fit import Refusal
from pumice.core.model.node import Node
from pumice.core.model.quantities import quantity_nanos
from pumice.core.model.resources import CPU, MEMORY
from pumice.core.model.status import TaskStatus
from pumice.core.session.feasibility.node_usage import NodeUsage
from pumice.core.session.hooks import EventHandler, Rows, Scores
from pumice.core.session.policies import ClassRule
from pumice.core.session.session import Session
from pumice.patterns.quantities import whole

TOO_MUCH_CPU = "the CPU load of the node exceeds the upper limit."
TOO_MUCH_MEMORY = "the memory load of the node exceeds the upper limit."
_MAX_NODE_SCORE = 100.0
_MIB = 1024 * 1024
_NOT_STARTED = (TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND)
_LONG_AGO = -1
_PERCENT = Limit(at_least=0, at_most=100, otherwise="Volcano would use 80 instead")
_PART = Limit(at_least=0, at_most=1, otherwise="Volcano would use the default instead")
_NOT_NEGATIVE = Limit(at_least=0, otherwise="Volcano would use the default instead")


class ThresholdArguments(Arguments):
    """The highest load at which a node takes pods."""

    cpu = integer("cpu", 80, "percent of cpu", _PERCENT)
    memory = integer("mem", 80, "percent of memory", _PERCENT)


class EstimatorArguments(Arguments):
    """How the load of a pod is estimated."""

    request_ratio = number("request_ratio", 0.7, "fraction of a pod's request", _PART)
    burst_ratio = number("burst_ratio", 0.0, "fraction of limit minus request", _PART)
    risk_threshold = number(
        "risk_threshold", 0.6, "load of a node from which the risk factor applies", _PART
    )
    risk_factor = number(
        "risk_factor",
        1.2,
        "factor of estimates on nodes at or above the risk threshold",
        Limit(at_least=1, otherwise="Volcano would use 1.2 instead"),
    )
    best_effort_cpu = quantity(
        "be_cpu", "250m", "cpu of a best-effort pod; a number without a unit is in millicores"
    )
    best_effort_memory = quantity(
        "be_mem", "200Mi", "memory of a best-effort pod; a number without a unit is in MiB"
    )


class UsageArguments(Arguments):
    """Weights, thresholds and estimates."""

    weight = integer("usage.weight", 5, "weight of the score", _NOT_NEGATIVE)
    cpu_weight = integer("cpu.weight", 1, "weight of the cpu load", _NOT_NEGATIVE)
    memory_weight = integer("memory.weight", 1, "weight of the memory load", _NOT_NEGATIVE)
    thresholds = mapping("thresholds", ThresholdArguments, "nodes above one of these take no pods")
    estimator = mapping(
        "estimator", EstimatorArguments, "load of pods that are too new to be measured"
    )


class UsagePlugin:
    """Refuses nodes with a load above a threshold, and prefers nodes with a low load."""

    name: ClassVar[str] = "usage"
    arguments: ClassVar[type[Arguments]] = UsageArguments

    def __init__(self, options: PluginOptions) -> None:
        arguments = UsageArguments(options.arguments)
        self._weight = arguments.weight
        self._weights = (float(arguments.cpu_weight), float(arguments.memory_weight))
        self._limits = (float(arguments.thresholds.cpu), float(arguments.thresholds.memory))
        self._estimator = Estimator(arguments.estimator)
        self._loads: Loads | None = None
        # By row; None: not computed yet.
        self._scores: Scores | None = None

    def open(self, session: Session) -> None:
        self._session = session
        self._figures = NodeUsage(session)
        given = {key: text for key, text in session.configuration.metrics if text}
        self._interval_ns = Metrics(given).interval
        hooks = session.hooks
        hooks.class_predicate[self.name] = ClassRule(self._refusals, self._figures.version)
        hooks.task_score[self.name] = self._score
        hooks.handlers.append(EventHandler(self._allocated, self._deallocated))

    def next_wake(self, now_ns: int) -> int | None:
        """The time at which the first measured load becomes too old."""
        return self._figures.first_expiry_ns()

    def _refusals(self, _: TaskClass, __: Hashable) -> list[Refusal]:
        fresh = self._figures.fresh
        too_much_cpu = fresh & (self._figures.cpu > self._limits[0])
        too_much_memory = fresh & (self._figures.memory > self._limits[1]) & ~too_much_cpu
        return [
            Refusal(TOO_MUCH_CPU, too_much_cpu, unresolvable=True),
            Refusal(TOO_MUCH_MEMORY, too_much_memory, unresolvable=True),
        ]

    def _score(self, _: Task, rows: Rows) -> Scores | None:
        """The scores are the same for every task; a placement changes the score of one node."""
        if not sum(self._weights):
            return None
        changed = self._loaded().take_changed()
        if self._scores is None:
            self._scores = self._scores_of(np.arange(len(self._session.table), dtype=np.intp))
        elif changed:
            some = np.array(changed, dtype=np.intp)
            self._scores[some] = self._scores_of(some)
        return self._scores[rows]

    def _scores_of(self, rows: Rows) -> Scores:
        total = sum(self._weights)
        cpu, memory = self._loaded().composite(rows)
        free = (1.0 - cpu) * self._weights[0] + (1.0 - memory) * self._weights[1]
        scores = free / total * _MAX_NODE_SCORE * self._weight
        # As in Volcano, nodes without a fresh measurement get the lowest score.
        return np.where(self._figures.fresh[rows], scores, 0.0)

    # Estimates of pods that are too new to be measured.

    def _loaded(self, without: str = "") -> Loads:
        if self._loads is None:
            self._loads = Loads(self._session, self._figures, self._estimator, self._weights)
            self._loads.add_new_pods(self.name, self._interval_ns, without)
        return self._loads

    def _allocated(self, task: Task) -> None:
        self._loaded(without=task.uid).add(task)

    def _deallocated(self, task: Task) -> None:
        self._loaded(without=task.uid).remove(task)


class Estimator:
    """Estimates the load of a pod from its requests and limits."""

    def __init__(self, arguments: EstimatorArguments) -> None:
        self._arguments = arguments
        # The load of a best-effort pod.
        self._milli_cpu = _amount(arguments.best_effort_cpu, 1000, default_unit=1)
        self._memory = _amount(arguments.best_effort_memory, 1, default_unit=_MIB)

    def load_of(self, task: Task, load: float) -> tuple[float, float]:
        """Millicores and bytes of a pod on a node with this load, which is from 0 to 1."""
        given = self._arguments
        risk = given.risk_factor if load >= given.risk_threshold else 1.0
        if task.best_effort:
            return self._milli_cpu * risk, self._memory * risk
        spec = task.class_.spec
        cpu = self._estimate(float(task.request.milli_cpu), float(spec.limit_milli_cpu), risk)
        return cpu, self._estimate(float(task.request.memory), float(spec.limit_memory_bytes), risk)

    def _estimate(self, request: float, limit: float, risk: float) -> float:
        most = limit if limit > 0 and limit >= request else request
        given = self._arguments
        estimate = (request * given.request_ratio + (most - request) * given.burst_ratio) * risk
        return min(max(estimate, 0.0), most)


class Loads:
    """The load of every node in one session: measured, and estimated for new pods."""

    def __init__(
        self,
        session: Session,
        figures: NodeUsage,
        estimator: Estimator,
        weights: tuple[float, float],
    ) -> None:
        self._session = session
        self._estimator = estimator
        self._weights = weights
        count = len(session.table)
        self._measured = np.stack((figures.cpu, figures.memory))
        self._estimated: Floats = np.zeros((2, count))
        capacities = [_capacity(entry.known_node) for entry in session.table.rows]
        self._capacity: Floats = np.array(capacities, dtype=float).reshape(count, 2).T
        # The row and the estimate of each pod, by uid.
        self._added: dict[str, tuple[int, tuple[float, float]]] = {}
        self._changed: set[int] = set()

    def take_changed(self) -> list[int]:
        """The rows whose load has changed since the last call."""
        changed, self._changed = sorted(self._changed), set()
        return changed

    def add_new_pods(self, plugin: str, interval_ns: int, without: str) -> None:
        """Adds the pods that have not started, or have run for less than an interval."""
        states = self._session.node_states(plugin, _latest_start_ns)
        oldest_ns = self._session.now_ns - interval_ns
        for row, entry in enumerate(self._session.table.rows):
            if states.of(row) <= oldest_ns:
                continue
            for task in entry.tasks_in_order():
                if task.uid != without and _start_ns(task) > oldest_ns:
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
        # As in Volcano, the load includes the earlier estimate of the same pod.
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
        """Measured plus estimated cpu and memory as fractions of the capacity, from 0 to 1."""
        capacity = self._capacity[:, rows]
        exists = capacity > 0
        # Measured loads are in percent.
        used = self._measured[:, rows] / 100.0 * capacity + self._estimated[:, rows]
        parts = np.divide(used, capacity, out=np.zeros(used.shape), where=exists)
        parts = np.clip(parts, 0.0, 1.0)
        return parts[0], parts[1]


def _amount(given: int | str, units: int, *, default_unit: int) -> float:
    """A quantity in units of its resource; a number without a unit has the default unit."""
    if isinstance(given, int):
        return float(given * default_unit)
    nanos = quantity_nanos(given)
    return 0.0 if nanos is None else float(whole(nanos * units))


def _capacity(node: Node) -> tuple[int, int]:
    amounts = dict(node.capacity)
    return (
        amounts.get(CPU, 0) + node.oversubscription_milli_cpu,
        amounts.get(MEMORY, 0) + node.oversubscription_memory_bytes,
    )


def _start_ns(task: Task) -> float:
    """The start time of a pod; infinite for a pod that has not started, which always counts as new."""
    if task.status in _NOT_STARTED:
        return np.inf
    if task.status is not TaskStatus.RUNNING:
        return _LONG_AGO
    return task.pod.start_time_ns or np.inf


def _latest_start_ns(entry: NodeEntry) -> float:
    """The latest start time of the pods on a node."""
    return max((_start_ns(task) for task in entry.tasks.values()), default=_LONG_AGO)
