"""rescheduling: moves pods from loaded nodes to others, from time to time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pumice.core.configuration import ArgumentSchema, ArgumentType, Limit, PluginOptions
from pumice.core.plugins.rescheduling.low_node_utilization import LowNodeUtilization
from pumice.core.session.session import Session

_INTERVAL, _PERIOD, _STRATEGIES = "interval", "metricsPeriod", "strategies"
_DEFAULT_INTERVAL_NS = 300 * 10**9
_LOW_NODE_UTILIZATION = "lowNodeUtilization"
# The only period over which usage is averaged.
MEASURED_PERIOD = "10m"
_DEFAULT_PERIOD = "5m"
_PERCENT = Limit(at_least=0, at_most=100)
_UNUSED = "Volcano reads it and does not use it either"
_THRESHOLDS = ArgumentSchema(
    {"cpu": ArgumentType.INT, "memory": ArgumentType.INT, "pod": ArgumentType.INT},
    limits={"cpu": _PERCENT, "memory": _PERCENT},
    defaults={"cpu": 100, "memory": 100},
    without_effect={"pod": _UNUSED},
)
_PARAMS = ArgumentSchema(
    {
        "thresholds": ArgumentType.MAP,
        "targetThresholds": ArgumentType.MAP,
        "thresholdPriorityClassName": ArgumentType.STRING,
        "nodeFit": ArgumentType.BOOL,
        "numberOfNodes": ArgumentType.INT,
        "thresholdPriority": ArgumentType.INT,
    },
    without_effect=dict.fromkeys(
        ("thresholdPriorityClassName", "nodeFit", "numberOfNodes", "thresholdPriority"), _UNUSED
    ),
    members={"thresholds": _THRESHOLDS, "targetThresholds": _THRESHOLDS},
)


class ReschedulingPlugin:
    """Names victims for the action shuffle, at most once in every interval."""

    name: ClassVar[str] = "rescheduling"
    api: ClassVar[int] = 1
    arguments: ClassVar[ArgumentSchema] = ArgumentSchema(
        {
            _INTERVAL: ArgumentType.DURATION,
            _PERIOD: ArgumentType.STRING,
            _STRATEGIES: ArgumentType.LIST,
        },
        limits={
            _PERIOD: Limit(
                choices=(MEASURED_PERIOD,),
                lenient=True,
                otherwise="usage is averaged over 10m only, so that no pod is moved",
            )
        },
        defaults={
            _INTERVAL: "5m",
            _PERIOD: f"{_DEFAULT_PERIOD}, with which no pod is moved",
            _STRATEGIES: _LOW_NODE_UTILIZATION,
        },
        members={
            _STRATEGIES: ArgumentSchema(
                {"name": ArgumentType.STRING, "params": ArgumentType.MAP},
                limits={"name": Limit(choices=(_LOW_NODE_UTILIZATION,))},
                members={"params": _PARAMS},
            )
        },
    )

    def __init__(self, options: PluginOptions) -> None:
        arguments = options.arguments
        interval_ns = arguments.duration_ns(_INTERVAL)
        self._interval_ns = _DEFAULT_INTERVAL_NS if interval_ns is None else interval_ns
        # Volcano keeps averages under this period and no other.
        self._is_measured = arguments.text(_PERIOD, _DEFAULT_PERIOD) == MEASURED_PERIOD
        listed = arguments.get(_STRATEGIES)
        # Of several entries of one name the last one counts.
        strategies = listed if isinstance(listed, list) and listed else [{}]
        self._params = _mapping(_mapping(strategies[-1]).get("params"))

    def open(self, session: Session) -> None:
        self._session = session
        last_ns = session.last_time(self.name)
        if last_ns is not None and last_ns + self._interval_ns >= session.now_ns:
            return
        session.keep_time(self.name, session.now_ns)
        if self._is_measured:
            low, high = (_limits(self._params.get(k)) for k in ("thresholds", "targetThresholds"))
            session.hooks.victim_tasks[self.name] = LowNodeUtilization(session, low, high).victims

    def next_wake(self, now_ns: int) -> int | None:
        """When pods may be moved again."""
        if not self._is_measured or not self._session.runs_action("shuffle"):
            return None
        return (self._session.last_time(self.name) or now_ns) + self._interval_ns + 1


def _limits(value: object) -> tuple[float, float]:
    """Percent of cpu and memory."""
    limits = _mapping(value)
    return float(limits.get("cpu", 100)), float(limits.get("memory", 100))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
