"""rescheduling: moves pods from loaded nodes to others, from time to time."""

from __future__ import annotations

from typing import ClassVar

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
from pumice.core.plugins.rescheduling.low_node_utilization import LowNodeUtilization
from pumice.core.session.session import Session

_LOW_NODE_UTILIZATION = "lowNodeUtilization"
# The only period over which usage is averaged.
MEASURED_PERIOD = "10m"
_PERCENT = Limit(at_least=0, at_most=100)
_UNUSED = "Volcano reads it and does not use it either"


class ThresholdArguments(Arguments):
    """Loads of a node."""

    cpu = integer("cpu", 100, "percent of cpu", _PERCENT)
    memory = integer("memory", 100, "percent of memory", _PERCENT)
    # Volcano's code reads pod, its documents write pods.
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
    """When pods are moved, and which."""

    interval_ns = duration("interval", "5m", "time between two rounds")
    period = text(
        "metricsPeriod",
        "5m",
        "the period over which usage is averaged; with another than 10m no pod is moved",
        Limit(
            choices=(MEASURED_PERIOD,),
            lenient=True,
            otherwise="usage is averaged over 10m only, so that no pod is moved",
        ),
    )
    strategies = mappings(
        "strategies",
        StrategyArguments,
        "the strategies, with their parameters",
        default=_LOW_NODE_UTILIZATION,
    )


class ReschedulingPlugin:
    """Names victims for the action shuffle, at most once in every interval."""

    name: ClassVar[str] = "rescheduling"
    arguments: ClassVar[type[Arguments]] = ReschedulingArguments

    def __init__(self, options: PluginOptions) -> None:
        arguments = ReschedulingArguments(options.arguments)
        self._interval_ns = arguments.interval_ns
        # Volcano keeps averages under this period and no other.
        self._is_measured = arguments.period == MEASURED_PERIOD
        # The last of several entries with one name counts.
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
        """When pods may be moved again."""
        if not self._is_measured or not self._session.runs_action("shuffle"):
            return None
        return (self._session.last_time(self.name) or now_ns) + self._interval_ns + 1
