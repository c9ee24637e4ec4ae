"""The actions and plugins there are, by the names that configurations use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Protocol

from pumice.core.actions.allocate import AllocateAction
from pumice.core.actions.backfill import BackfillAction
from pumice.core.actions.enqueue import EnqueueAction
from pumice.core.configuration import Arguments, ArgumentSchema, Catalog, PluginOptions
from pumice.core.errors import InputError
from pumice.core.plugins.binpack import BinpackPlugin
from pumice.core.plugins.conformance import ConformancePlugin
from pumice.core.plugins.drf import DrfPlugin
from pumice.core.plugins.gang import GangPlugin
from pumice.core.plugins.nodeorder import NodeOrderPlugin
from pumice.core.plugins.overcommit import OvercommitPlugin
from pumice.core.plugins.predicates import PredicatesPlugin
from pumice.core.plugins.priority import PriorityPlugin
from pumice.core.plugins.proportion import ProportionPlugin
from pumice.core.plugins.resourcequota import ResourceQuotaPlugin
from pumice.core.plugins.sla import SlaPlugin
from pumice.core.session.session import Session

# The version of the plugin interface that this engine speaks.
PLUGIN_API = 1


class Plugin(Protocol):
    """What a plugin is: made from its options for every session, then opened.

    It may also have ``close(session)``, called when all actions have run, and
    ``next_wake(now_ns)``: when its answers will change though nothing in the cluster does.
    """

    name: ClassVar[str]
    api: ClassVar[int]
    arguments: ClassVar[ArgumentSchema]

    def __init__(self, options: PluginOptions) -> None: ...

    def open(self, session: Session) -> None: ...


class Action(Protocol):
    """What an action is: made from its arguments for every session, then executed."""

    name: ClassVar[str]
    arguments: ClassVar[ArgumentSchema]

    def __init__(self, arguments: Arguments) -> None: ...

    def execute(self, session: Session) -> None: ...


class PluginApiError(InputError):
    """A plugin made for another version of the interface."""

    def __init__(self, name: str, api: object) -> None:
        super().__init__(
            f"plugin {name} declares api = {api!r}; this engine speaks api = {PLUGIN_API}"
        )
        self.name = name
        self.api = api


BUILT_IN_ACTIONS: tuple[type[Action], ...] = (EnqueueAction, AllocateAction, BackfillAction)
BUILT_IN_PLUGINS: tuple[type[Plugin], ...] = (
    BinpackPlugin,
    ConformancePlugin,
    DrfPlugin,
    GangPlugin,
    NodeOrderPlugin,
    OvercommitPlugin,
    PredicatesPlugin,
    PriorityPlugin,
    ProportionPlugin,
    ResourceQuotaPlugin,
    SlaPlugin,
)


class Registry:
    """Names to classes: what is built in, and what others add."""

    def __init__(self, extra_plugins: Iterable[type[Plugin]] = ()) -> None:
        self.actions: Mapping[str, type[Action]] = {a.name: a for a in BUILT_IN_ACTIONS}
        plugins: dict[str, type[Plugin]] = {p.name: p for p in BUILT_IN_PLUGINS}
        for plugin in extra_plugins:
            api = getattr(plugin, "api", None)
            if api != PLUGIN_API:
                raise PluginApiError(getattr(plugin, "name", plugin.__name__), api)
            plugins[plugin.name] = plugin
        self.plugins: Mapping[str, type[Plugin]] = plugins

    def catalog(self) -> Catalog:
        return Catalog(
            {name: action.arguments for name, action in self.actions.items()},
            {
                name: getattr(plugin, "arguments", ArgumentSchema())
                for name, plugin in self.plugins.items()
            },
        )
