"""Discovers the plugins of installed packages, by the entry points pumice.plugins."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from pumice.core.registry import (
    BUILT_IN_PLUGINS,
    Plugin,
    PluginRefusedError,
    Registry,
    check_plugin,
)

GROUP = "pumice.plugins"
log = logging.getLogger("pumice.server")


@dataclass(frozen=True, slots=True)
class RefusedPlugin:
    """A plugin of an installed package that cannot be used."""

    # The name of the entry point, which is the name in a configuration.
    name: str
    # Name and version of the package; empty: unknown.
    package: str
    problem: str

    def __str__(self) -> str:
        origin = f" of package {self.package}" if self.package else ""
        return f"plugin {self.name}{origin}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Discovered:
    """The plugins that were found, and those that were refused."""

    plugins: tuple[type[Plugin], ...] = ()
    refused: tuple[RefusedPlugin, ...] = ()

    def registry(self) -> Registry:
        """The built-in plugins and these. An error about a refused plugin contains the reason."""
        return Registry(self.plugins, {bad.name: bad.problem for bad in self.refused})


@cache
def installed_registry() -> Registry:
    """The built-in and the installed plugins. Refused plugins are logged.

    Plugins are discovered once per process, so a plugin that is installed later needs a restart.
    """
    found = discover()
    for refused in found.refused:
        log.warning("%s", refused)
    return found.registry()


def registry_with(plugins: Iterable[type[Plugin]]) -> Registry:
    """The built-in and installed plugins, and these, which replace installed ones by name.

    Raises PluginRefusedError.
    """
    given = tuple(plugins)
    if not given:
        return installed_registry()
    names = {getattr(plugin, "name", "") for plugin in given}
    found = discover()
    others = tuple(plugin for plugin in found.plugins if plugin.name not in names)
    return Registry((*others, *given), {bad.name: bad.problem for bad in found.refused})


def discover(found: Iterable[EntryPoint] | None = None) -> Discovered:
    """Loads all plugins of installed packages. An invalid plugin is refused with a reason.

    The result does not depend on the order of packages on disk: of two plugins with one name, the
    plugin of the package that sorts first is used.
    """
    points = entry_points(group=GROUP) if found is None else found
    # A package that is on the path twice has each entry point twice.
    unique = {(point.name, _package(point), point.value): point for point in points}
    taken = {plugin.name: plugin for plugin in BUILT_IN_PLUGINS}
    plugins: list[type[Plugin]] = []
    refused: list[RefusedPlugin] = []
    for (name, package, _), point in sorted(unique.items(), key=lambda item: item[0]):
        try:
            plugin = _load(point, taken)
        except PluginRefusedError as error:
            refused.append(RefusedPlugin(name, package, error.problem))
        else:
            taken[plugin.name] = plugin
            plugins.append(plugin)
    return Discovered(tuple(plugins), tuple(refused))


def _load(point: EntryPoint, plugins: dict[str, type[Plugin]]) -> type[Plugin]:
    try:
        plugin: type[Plugin] = point.load()
    except (Exception, SystemExit) as error:
        # No error of an import may stop the core.
        problem = f"cannot be imported from {point.value}: {type(error).__name__}: {error}"
        raise PluginRefusedError(point.name, problem) from error
    check_plugin(plugin, plugins)
    if plugin.name != point.name:
        problem = f"has the name {plugin.name!r}, which differs from the name of the entry point"
        raise PluginRefusedError(point.name, problem)
    return plugin


def _package(point: EntryPoint) -> str:
    distribution = point.dist
    return "" if distribution is None else f"{distribution.name} {distribution.version}"
