"""rescheduling: at intervals, evicts pods from nodes with a high load, so that they move to others.

The action shuffle evicts the victims. The only strategy is lowNodeUtilization.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pumice.core.cache.tasks import Task
from pumice.core.configuration import (
    Arguments,
    ArgumentType,
    Limit,
    PluginOptions,
    duration,
    ignored,
    integer,
    mapping,
    mappings,
    text,
)
from pumice.core.model.fit import Mask
from pumice.core.model.resources import CPU, MEMORY
from pumice.core.session.feasibility.node_usage import NodeUsage
from pumice.core.session.session import Session

_LOW_NODE_UTILIZATION = "lowNodeUtilization"
# The only period for which averages of usage exist.
MEASURED_PERIOD = "10m"
_PERCENT = Limit(at_least=0, at_most=100)
_UNUSED = "Volcano reads it and does not use it either"
_BEST_EFFORT, _BURSTABLE, _GUARANTEED = range(3)


class ThresholdArguments(Arguments):
    """Thresholds of the load of a node."""

    cpu = integer("cpu", 100, "percent of cpu", _PERCENT)
    memory = integer("memory", 100, "percent of memory", _PERCENT)
    # Volcano's code reads pod, and its documentation says pods.
    pod = ignored("pod", _UNUSED, ArgumentType.INT)
    pods = ignored("pods", _UNUSED, ArgumentType.INT)

    def loads(self) -> tuple[float, float]:
        """Percent of cpu and memory."""
        return float(self.cpu), float(self.memory)


class ParameterArguments(Arguments):
    """The parameters of lowNodeUtilization."""

    thresholds = mapping("thresholds", ThresholdArguments, "nodes below all of these get pods")
    target_thresholds = mapping(
        "targetThresholds", ThresholdArguments, "nodes above one of these lose pods"
    )
    priority_class = ignored("thresholdPriorityClassName", _UNUSED, ArgumentType.STRING)
    node_fit = ignored("nodeFit", _UNUSED, ArgumentType.BOOL)
    node_count = ignored("numberOfNodes", _UNUSED, ArgumentType.INT)
    priority = ignored("thresholdPriority", _UNUSED, ArgumentType.INT)


class StrategyArguments(Arguments):
    """A strategy with its parameters."""

    name = text(
        "name", _LOW_NODE_UTILIZATION, "the strategy", Limit(choices=(_LOW_NODE_UTILIZATION,))
    )
    parameters = mapping("params", ParameterArguments, "parameters of the strategy")


class ReschedulingArguments(Arguments):
    """The interval, and the strategies."""

    interval_ns = duration("interval", "5m", "time between two rounds of evictions")
    period = text(
        "metricsPeriod",
        "5m",
        "the period over which usage is averaged; no pod is evicted if it is not 10m",
        Limit(
            choices=(MEASURED_PERIOD,),
            lenient=True,
            otherwise="usage is only averaged over 10m, so that no pod is evicted",
        ),
    )
    strategies = mappings(
        "strategies",
        StrategyArguments,
        "the strategies, with their parameters",
        default=_LOW_NODE_UTILIZATION,
    )


class ReschedulingPlugin:
    """Selects victims for the action shuffle, at most once in every interval."""

    name: ClassVar[str] = "rescheduling"
    arguments: ClassVar[type[Arguments]] = ReschedulingArguments

    def __init__(self, options: PluginOptions) -> None:
        arguments = ReschedulingArguments(options.arguments)
        self._interval_ns = arguments.interval_ns
        self._is_measured = arguments.period == MEASURED_PERIOD
        # As in Volcano, the last of several entries with the same name is used.
        strategies = arguments.strategies or (StrategyArguments(),)
        parameters = strategies[-1].parameters
        self._low = parameters.thresholds.loads()
        self._high = parameters.target_thresholds.loads()

    def open(self, session: Session) -> None:
        self._session = session
        last_ns = session.last_time(self.name)
        if last_ns is not None and last_ns + self._interval_ns >= session.now_ns:
            return
        session.keep_time(self.name, session.now_ns)
        if self._is_measured:
            strategy = LowNodeUtilization(session, self._low, self._high)
            session.hooks.victim_tasks[self.name] = strategy.victims

    def next_wake(self, now_ns: int) -> int | None:
        """The time of the next round of evictions."""
        if not self._is_measured or not self._session.runs_action("shuffle"):
            return None
        return (self._session.last_time(self.name) or now_ns) + self._interval_ns + 1


class LowNodeUtilization:
    """The strategy lowNodeUtilization: selects pods of loaded nodes, as far as other nodes have room."""

    def __init__(
        self, session: Session, low: tuple[float, float], high: tuple[float, float]
    ) -> None:
        self._session = session
        self._low, self._high = low, high
        self._figures = NodeUsage(session)

    def victims(self, running: list[Task]) -> list[Task]:
        low, high = self._groups()
        if not low.any() or low.all() or not high.any():
            return []
        budget = self._budget(low)
        evictable = {task.uid for task in running}
        load = self._figures.cpu + self._figures.memory
        victims: list[Task] = []
        for row in sorted(np.flatnonzero(high).tolist(), key=lambda row: (-load.item(row), row)):
            victims += self._of_node(row, budget, evictable)
        return victims

    def _groups(self) -> tuple[Mask, Mask]:
        """The nodes below the low thresholds, and the nodes above the high ones.

        As in Volcano, a node that was never measured counts as idle. Nodes whose figures are too old
        belong to neither group.
        """
        figures = self._figures
        outdated = figures.known & ~figures.fresh
        rows = self._session.table.rows
        cordoned = np.array([entry.known_node.unschedulable for entry in rows], dtype=np.bool_)
        is_low = (figures.cpu < self._low[0]) & (figures.memory < self._low[1])
        is_high = (figures.cpu > self._high[0]) | (figures.memory > self._high[1])
        low = is_low & ~cordoned & ~outdated
        return low, is_high & ~low & ~outdated

    def _budget(self, low: Mask) -> list[int]:
        """The amounts that nodes with a low load can take up to the high thresholds."""
        budget = [0, 0]
        loads = (self._figures.cpu, self._figures.memory)
        for row in np.flatnonzero(low).tolist():
            node = self._session.table.rows[row].known_node
            offered = dict(node.allocatable or node.capacity)
            for i, name in enumerate((CPU, MEMORY)):
                amount, used = float(offered.get(name, 0)), loads[i].item(row)
                budget[i] += int(self._high[i] * amount * 0.01) - int(used * amount * 0.01)
        return budget

    def _of_node(self, row: int, budget: list[int], evictable: set[str]) -> list[Task]:
        entry = self._session.table.rows[row]
        capacity = dict(entry.known_node.capacity)
        cpu, memory = self._figures.cpu.item(row), self._figures.memory.item(row)
        victims = []
        for task in sorted(entry.tasks.values(), key=_eviction_key):
            # As in Volcano, a budget of exactly zero ends the search, and a negative budget does not.
            if (cpu < self._high[0] and memory < self._high[1]) or 0 in budget:
                break
            if task.uid not in evictable:
                continue
            milli_cpu, size = int(task.request.milli_cpu), int(task.request.memory)
            budget[0] -= milli_cpu
            budget[1] -= size
            cpu -= _percent(milli_cpu, capacity.get(CPU, 0))
            memory -= _percent(size, capacity.get(MEMORY, 0))
            victims.append(task)
        return victims


def _percent(amount: int, capacity: int) -> float:
    return amount * 100.0 / capacity if capacity else 0.0


def _eviction_key(task: Task) -> tuple[int, int, tuple[int, str, str]]:
    """Orders pods by priority, the lowest first, then by QoS: best effort, burstable, guaranteed."""
    return (task.pod.priority, _qos(task), task.order_key)


def _qos(task: Task) -> int:
    spec, request = task.class_.spec, task.request
    if not (request.milli_cpu or request.memory or spec.limit_milli_cpu or spec.limit_memory_bytes):
        return _BEST_EFFORT
    return _GUARANTEED if spec.guaranteed else _BURSTABLE
