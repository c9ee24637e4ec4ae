"""Finds the plugins of other packages: entry points of the group pumice.plugins."""

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
    """A plugin that a package offers and that cannot be used."""

    # The entry point's name, which a configuration would use.
    name: str
    # The package that offers it, with its version; empty: unknown.
    package: str
    problem: str

    def __str__(self) -> str:
        origin = f" of package {self.package}" if self.package else ""
        return f"plugin {self.name}{origin}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Discovered:
    """What was found: plugins to use, and what is wrong with the others."""

    plugins: tuple[type[Plugin], ...] = ()
    refused: tuple[RefusedPlugin, ...] = ()

    def registry(self) -> Registry:
        """What is built in, and these; a configuration that names a refused one is told why."""
        return Registry(self.plugins, {bad.name: bad.problem for bad in self.refused})


@cache
def installed_registry() -> Registry:
    """What is built in and what is installed; refused plugins are named in the log, once.

    Looked for once in a process: what is installed later is not seen before the next start, and
    a registry never changes.
    """
    found = discover()
    for refused in found.refused:
        log.warning("%s", refused)
    return found.registry()


def registry_with(plugins: Iterable[type[Plugin]]) -> Registry:
    """What is built in and installed, and these, which replace installed ones of their names.

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
    """Loads every plugin that installed packages offer. An invalid one is refused with a reason.

    The order of packages on the disk does not matter: of two plugins with one name the package
    whose name sorts first has it.
    """
    points = entry_points(group=GROUP) if found is None else found
    # A package that is on the path twice offers its plugins twice.
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
        # Whatever a package does while it is imported must not stop the core.
        problem = f"cannot be imported from {point.value}: {type(error).__name__}: {error}"
        raise PluginRefusedError(point.name, problem) from error
    check_plugin(plugin, plugins)
    if plugin.name != point.name:
        problem = f"calls itself {plugin.name!r}; entry point and plugin need one name"
        raise PluginRefusedError(point.name, problem)
    return plugin


def _package(point: EntryPoint) -> str:
    distribution = point.dist
    return "" if distribution is None else f"{distribution.name} {distribution.version}"
