"""Data that adapters report for plugins: measured usage, answers of extenders, prices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pumice.core.errors import ObjectError
from pumice.core.model.memo import Memo

Values = Mapping[str, str | float]
_NOTHING: Values = {}
# The largest number of names with data, over all plugins.
MAX_NAMES = 50_000


class PluginData:
    """What was reported for one plugin, by name; the version grows with every change."""

    def __init__(self) -> None:
        self._values: dict[str, Values] = {}
        self.version = 0
        # The last table of numbers, with the version of the data, the layout and the keys.
        self._rows: tuple[object, NDArray[np.float64]] | None = None

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: str) -> Values:
        return self._values.get(name, _NOTHING)

    def names(self) -> list[str]:
        return sorted(self._values)

    def rows(self, keys: tuple[str, ...], names: Sequence[str], layout: int) -> NDArray[np.float64]:
        """A table of numbers, by key and name in the order given; NaN where no number is known.

        The result is kept as long as the data, the keys and the layout of the names do not change.
        """
        validity = (self.version, layout, keys)
        if self._rows is None or self._rows[0] != validity:
            table = np.full((len(keys), len(names)), np.nan)
            for column, name in enumerate(names):
                values = self._values.get(name)
                if values is not None:
                    for line, key in enumerate(keys):
                        number = values.get(key)
                        if isinstance(number, float | int):
                            table[line, column] = number
            table.setflags(write=False)
            self._rows = (validity, table)
        return self._rows[1]

    def put(self, name: str, values: Values) -> bool:
        """Replaces the values of a name, or removes them if there are none; returns whether they changed."""
        if self._values.get(name, _NOTHING) == values:
            return False
        if values:
            self._values[name] = dict(values)
        else:
            self._values.pop(name, None)
        self.version += 1
        return True


class PluginDataStore:
    """The data of all plugins."""

    def __init__(self) -> None:
        self._by_plugin: Memo[str, PluginData] = Memo(lambda _plugin: PluginData())

    def put(self, plugin: str, name: str, values: Values) -> bool:
        """Stores what an adapter reports; returns whether anything changed."""
        data = self.of(plugin)
        if values and not data.get(name) and sum(map(len, self._by_plugin.values())) >= MAX_NAMES:
            problem = f"there are {MAX_NAMES} names already, which is the most that are kept"
            raise ObjectError("PluginData", f"{plugin}/{name}", "name", problem)
        return data.put(name, values)

    def of(self, plugin: str) -> PluginData:
        return self._by_plugin[plugin]

    def all(self) -> Iterator[tuple[str, str, Values]]:
        """Plugin, name and values of everything, in the order of names."""
        for plugin, data in sorted(self._by_plugin.items()):
            for name in data.names():
                yield plugin, name, data.get(name)
