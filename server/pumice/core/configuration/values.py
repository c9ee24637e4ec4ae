"""The scheduler configuration as the engine uses it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pumice.core.configuration.arguments import Arguments
from pumice.core.errors import Problem

# Every flag of a plugin entry, with its default. The mixed spelling is Volcano's.
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
    # Warnings of the reader; they do not count in comparisons.
    warnings: tuple[Problem, ...] = field(default=(), compare=False)
    # The device configuration of the plugin deviceshare, as JSON; empty: the built-in one.
    device_config: str = ""

    def arguments_of(self, action: str) -> Arguments:
        return dict(self.action_arguments).get(action, Arguments())

    @property
    def digest(self) -> str:
        """Equal for configurations with the same meaning, whatever their text is."""
        meaning = {
            "actions": self.actions,
            "tiers": [
                [(p.name, sorted(p.flags), p.arguments.items()) for p in tier]
                for tier in self.tiers
            ],
            "configurations": [(n, a.items()) for n, a in self.action_arguments],
            "metrics": self.metrics,
            **({"devices": self.device_config} if self.device_config else {}),
        }
        text = json.dumps(meaning, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


# For clusters without a configuration.
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
