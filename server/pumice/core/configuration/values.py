"""The scheduler configuration as the engine uses it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pumice.core.errors import Problem
from pumice.core.model.durations import parse_duration_ns

# Every flag of a plugin entry and what it is when absent. The mixed spelling is Volcano's.
FLAG_DEFAULTS: Mapping[str, bool] = {
    **dict.fromkeys(
        (
            "enableJobOrder",
            "enableJobReady",
            "enableJobPipelined",
            "enableTaskOrder",
            "enablePreemptable",
            "enableReclaimable",
            "enablePreemptive",
            "enableQueueOrder",
            "enablePredicate",
            "enableBestNode",
            "enableNodeOrder",
            "enableTargetJob",
            "enableReservedNodes",
            "enableJobEnqueued",
            "enabledVictim",
            "enableJobStarving",
            "enabledOverused",
            "enabledAllocatable",
            "enabledHyperNodeOrder",
            "enabledSubJobReady",
            "enabledSubJobPipelined",
            "enabledSubJobOrder",
            "enabledHyperNodeGradient",
        ),
        True,
    ),
    "enableHierarchy": False,
    "enabledClusterOrder": False,
}


class Arguments:
    """The arguments of one plugin or action, already of the right types."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        self._values = dict(values or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Arguments) and self._values == other._values

    def __hash__(self) -> int:
        return hash(json.dumps(self._values, sort_keys=True, default=str))

    def __repr__(self) -> str:
        return f"Arguments({dict(self.items())})"

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def items(self) -> list[tuple[str, object]]:
        return sorted(self._values.items())

    def get(self, key: str) -> object:
        return self._values.get(key)

    def integer(self, key: str, default: int) -> int:
        value = self._values.get(key, default)
        return value if isinstance(value, int) else default

    def number(self, key: str, default: float) -> float:
        value = self._values.get(key, default)
        return float(value) if isinstance(value, (int, float)) else default

    def boolean(self, key: str, *, default: bool) -> bool:
        value = self._values.get(key, default)
        return value if isinstance(value, bool) else default

    def text(self, key: str, default: str) -> str:
        value = self._values.get(key, default)
        return value if isinstance(value, str) else default

    def duration_ns(self, key: str, default: int | None = None) -> int | None:
        """A duration in nanoseconds; the default when it is absent."""
        value = self._values.get(key)
        return parse_duration_ns(value) if isinstance(value, str) else default


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """A plugin as the configuration lists it."""

    name: str
    flags: tuple[tuple[str, bool], ...] = ()
    arguments: Arguments = field(default_factory=Arguments)

    def enabled(self, flag: str) -> bool:
        return dict(self.flags).get(flag, FLAG_DEFAULTS[flag])


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a session does: which actions, in which order, with which plugins."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginOptions, ...], ...]
    action_arguments: tuple[tuple[str, Arguments], ...] = ()
    metrics: tuple[tuple[str, str], ...] = ()
    # Warnings of the reader; not part of its meaning.
    warnings: tuple[Problem, ...] = field(default=(), compare=False)

    def arguments_of(self, action: str) -> Arguments:
        return dict(self.action_arguments).get(action, Arguments())

    @property
    def digest(self) -> str:
        """Equal for configurations of equal meaning, whatever their text."""
        meaning = {
            "actions": self.actions,
            "tiers": [
                [(p.name, sorted(p.flags), p.arguments.items()) for p in tier]
                for tier in self.tiers
            ],
            "configurations": [(n, a.items()) for n, a in self.action_arguments],
            "metrics": self.metrics,
        }
        text = json.dumps(meaning, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


# What a cluster without a configuration uses.
DEFAULT_CONFIGURATION = Configuration(
    actions=("enqueue", "allocate", "backfill"),
    tiers=(
        tuple(PluginOptions(name) for name in ("priority", "gang", "conformance")),
        tuple(
            PluginOptions(name)
            for name in ("overcommit", "drf", "predicates", "proportion", "nodeorder")
        ),
    ),
)
