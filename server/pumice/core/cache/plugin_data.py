"""Data that adapters bring for plugins: measured usage, answers of extenders, prices."""

from __future__ import annotations

from collections.abc import Mapping

Values = Mapping[str, str | float]
_NOTHING: Values = {}


class PluginData:
    """What was reported for one plugin, by name; the version grows with every change."""

    def __init__(self) -> None:
        self._values: dict[str, Values] = {}
        self.version = 0

    def get(self, name: str) -> Values:
        return self._values.get(name, _NOTHING)

    def names(self) -> list[str]:
        return sorted(self._values)

    def put(self, name: str, values: Values) -> bool:
        """Replaces what is known under a name, without values forgets it; whether it changed."""
        if self._values.get(name, _NOTHING) == values:
            return False
        if values:
            self._values[name] = dict(values)
        else:
            del self._values[name]
        self.version += 1
        return True


class PluginDataStore:
    """The data of all plugins."""

    def __init__(self) -> None:
        self._by_plugin: dict[str, PluginData] = {}

    def of(self, plugin: str) -> PluginData:
        data = self._by_plugin.get(plugin)
        if data is None:
            data = self._by_plugin[plugin] = PluginData()
        return data
