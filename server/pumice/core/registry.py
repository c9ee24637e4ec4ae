"""The registry: actions and plugins by the names that configurations use."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from pumice.core import kubebatch
from pumice.core.actions.allocate import AllocateAction
from pumice.core.actions.backfill import BackfillAction
from pumice.core.actions.enqueue import EnqueueAction
from pumice.core.actions.gang import GangPreemptAction, GangReclaimAction
from pumice.core.actions.preempt import PreemptAction
from pumice.core.actions.reclaim import ReclaimAction
from pumice.core.actions.shuffle import ShuffleAction
from pumice.core.cache.cluster import ClusterCache
from pumice.core.configuration import (
    DEFAULT_CONFIGURATION,
    Arguments,
    Catalog,
    Configuration,
    PluginOptions,
    read_configuration,
)
from pumice.core.decisions import StatusChange
from pumice.core.errors import InputError
from pumice.core.plugins.binpack import BinpackPlugin
from pumice.core.plugins.capacity import CapacityPlugin
from pumice.core.plugins.cdp import CdpPlugin
from pumice.core.plugins.conformance import ConformancePlugin
from pumice.core.plugins.deviceshare import DeviceSharePlugin
from pumice.core.plugins.drf import DrfPlugin
from pumice.core.plugins.extender import ExtenderPlugin
from pumice.core.plugins.gang import GangPlugin
from pumice.core.plugins.network_topology import NetworkTopologyAwarePlugin
from pumice.core.plugins.node_shard import NodeShardPlugin
from pumice.core.plugins.nodegroup import NodeGroupPlugin
from pumice.core.plugins.nodeorder import NodeOrderPlugin
from pumice.core.plugins.numa_aware import NumaAwarePlugin
from pumice.core.plugins.overcommit import OvercommitPlugin
from pumice.core.plugins.pdb import PdbPlugin
from pumice.core.plugins.predicates import PredicatesPlugin
from pumice.core.plugins.priority import PriorityPlugin
from pumice.core.plugins.proportion import ProportionPlugin
from pumice.core.plugins.rescheduling import ReschedulingPlugin
from pumice.core.plugins.resource_strategy_fit import ResourceStrategyFitPlugin
from pumice.core.plugins.resourcequota import ResourceQuotaPlugin
from pumice.core.plugins.sla import SlaPlugin
from pumice.core.plugins.task_topology import TaskTopologyPlugin
from pumice.core.plugins.tdm import TdmPlugin
from pumice.core.plugins.usage import UsagePlugin
from pumice.core.session.closing.statuses import close
from pumice.core.session.session import Session

# The version of the plugin interface.
PLUGIN_API = 1


class Plugin(Protocol):
    """A plugin: made from its options for every session, then opened.

    It may also have ``arguments``, a subclass of Arguments; ``close(session)``, which is called after
    all actions; and ``next_wake(now_ns)``, the time at which its answers change without a change of
    the cluster. If a plugin with ``required = True`` raises, the session decides nothing. A
    third-party plugin must also have ``api``, the version of the interface.
    """

    name: ClassVar[str]

    def __init__(self, options: PluginOptions) -> None: ...

    def open(self, session: Session) -> None: ...


class Action(Protocol):
    """An action, made for every session; it may also have ``arguments``, a subclass of Arguments."""

    name: ClassVar[str]

    def execute(self, session: Session) -> None: ...


class PluginRefusedError(InputError):
    """A plugin that cannot be used, by name and with the reason."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"plugin {name} {problem}")
        self.name = name
        self.problem = problem


BUILT_IN_ACTIONS: tuple[type[Action], ...] = (
    EnqueueAction,
    AllocateAction,
    BackfillAction,
    PreemptAction,
    ReclaimAction,
    ShuffleAction,
    GangPreemptAction,
    GangReclaimAction,
)
BUILT_IN_PLUGINS: tuple[type[Plugin], ...] = (
    BinpackPlugin,
    CapacityPlugin,
    CdpPlugin,
    ConformancePlugin,
    DeviceSharePlugin,
    DrfPlugin,
    ExtenderPlugin,
    GangPlugin,
    NetworkTopologyAwarePlugin,
    NodeGroupPlugin,
    NodeOrderPlugin,
    NumaAwarePlugin,
    OvercommitPlugin,
    PdbPlugin,
    PredicatesPlugin,
    PriorityPlugin,
    ProportionPlugin,
    ReschedulingPlugin,
    ResourceQuotaPlugin,
    ResourceStrategyFitPlugin,
    SlaPlugin,
    TaskTopologyPlugin,
    TdmPlugin,
    UsagePlugin,
)
# Plugins that every session has, without a configuration that names them.
IMPLIED_PLUGINS: tuple[type[Plugin], ...] = (NodeShardPlugin,)


@dataclass(frozen=True, slots=True)
class Mode:
    """The scheduler whose behaviour the engine has: Volcano or kube-batch."""

    actions: tuple[type[Action], ...]
    plugins: tuple[type[Plugin], ...]
    cache: type[ClusterCache]
    session: type[Session]
    close: Callable[[Session], list[StatusChange]]
    # The configuration of a cluster that has none, and the reader of configurations.
    default: Configuration
    read: Callable[[object, Catalog], Configuration]


VOLCANO_MODE = Mode(
    BUILT_IN_ACTIONS,
    BUILT_IN_PLUGINS,
    ClusterCache,
    Session,
    close,
    DEFAULT_CONFIGURATION,
    read_configuration,
)
KUBE_BATCH_MODE = Mode(
    kubebatch.ACTIONS,
    kubebatch.PLUGINS,
    kubebatch.KubeBatchCache,
    kubebatch.KubeBatchSession,
    kubebatch.close,
    kubebatch.DEFAULT_CONFIGURATION,
    kubebatch.read_configuration,
)

_PLUGIN_NAME = re.compile(r"[a-zA-Z0-9]([-_.a-zA-Z0-9]*[a-zA-Z0-9])?")


class Registry:
    """Maps names to classes, built-in and third-party."""

    def __init__(
        self,
        extra_plugins: Iterable[type[Plugin]] = (),
        refused: Mapping[str, str] | None = None,
        mode: Mode = VOLCANO_MODE,
    ) -> None:
        self.mode = mode
        self._extra = tuple(extra_plugins)
        # Installed plugins that cannot be used, by name, and why.
        self.refused: Mapping[str, str] = dict(refused or {})
        self.actions: Mapping[str, type[Action]] = {a.name: a for a in mode.actions}
        self._implied = frozenset(plugin.name for plugin in IMPLIED_PLUGINS)
        self._built_in: Mapping[str, type[Plugin]] = {
            plugin.name: plugin for plugin in (*mode.plugins, *IMPLIED_PLUGINS)
        }
        plugins = dict(self._built_in)
        for plugin in self._extra:
            check_plugin(plugin, plugins)
            plugins[plugin.name] = plugin
        self.plugins: Mapping[str, type[Plugin]] = plugins

    def for_compat(self, switches: Collection[str]) -> Registry:
        """The registry of the mode that the compatibility switches select."""
        mode = KUBE_BATCH_MODE if kubebatch.KUBE_BATCH in switches else VOLCANO_MODE
        return self if mode is self.mode else Registry(self._extra, self.refused, mode)

    def is_built_in(self, plugin: str) -> bool:
        return plugin in self._built_in

    def is_required(self, plugin: str) -> bool:
        """Whether a session decides nothing without it."""
        return getattr(self.plugins[plugin], "required", False) is True

    def ignored_resources(self, configuration: Configuration) -> tuple[str, ...]:
        """Resources that containers request and no node offers."""
        plugin = DeviceSharePlugin
        return tuple(
            name
            for tier in configuration.tiers
            for options in tier
            if options.name == plugin.name
            for name in plugin.ignored_resources(options, configuration.device_config)
        )

    def catalog(self) -> Catalog:
        return Catalog(
            {name: _arguments_of(action) for name, action in self.actions.items()},
            {
                name: _arguments_of(plugin)
                for name, plugin in self.plugins.items()
                if name not in self._implied
            },
            self.refused,
            {
                "action": frozenset(action.name for action in BUILT_IN_ACTIONS),
                "plugin": frozenset(plugin.name for plugin in BUILT_IN_PLUGINS),
            },
        )


def _arguments_of(taker: object) -> type[Arguments]:
    """The arguments that an action or plugin declares; by default none."""
    declared: type[Arguments] = getattr(taker, "arguments", Arguments)
    return declared


def check_plugin(plugin: object, plugins: Mapping[str, type[Plugin]]) -> None:
    """Raises PluginRefusedError when a third-party class cannot be used as a plugin."""
    shown = getattr(plugin, "__qualname__", repr(plugin))
    name = getattr(plugin, "name", None)
    if not isinstance(plugin, type):
        raise PluginRefusedError(shown, "is not a class")
    if not isinstance(name, str) or not _PLUGIN_NAME.fullmatch(name):
        raise PluginRefusedError(
            shown, "has no valid name: letters, digits, -, _ and . are allowed"
        )
    api = getattr(plugin, "api", None)
    if type(api) is not int or api != PLUGIN_API:
        stated = "declares no api" if api is None else f"declares api = {api!r}"
        problem = f"{stated}; this engine supports api = {PLUGIN_API}"
        raise PluginRefusedError(name, problem)
    if name in plugins:
        holder = f"{plugins[name].__module__}.{plugins[name].__qualname__}"
        raise PluginRefusedError(name, f"has a name that is taken by {holder}; give it another")
    if not callable(getattr(plugin, "open", None)):
        raise PluginRefusedError(name, "has no method open(session)")
    declared = getattr(plugin, "arguments", Arguments)
    if not isinstance(declared, type) or not issubclass(declared, Arguments):
        raise PluginRefusedError(name, "has arguments that are not a subclass of Arguments")
