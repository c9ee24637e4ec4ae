"""The common part of the readers of configurations: problems with their places, arguments, tiers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches

from pumice.core.configuration.argument_types import parsed_text, typed_value
from pumice.core.configuration.arguments import Arguments, Catalog
from pumice.core.configuration.values import Configuration, PluginOptions
from pumice.core.errors import ConfigurationError, Problem

Path = tuple[str | int, ...]
Tiers = tuple[tuple[PluginOptions, ...], ...]
# A plugin in a tier: its path, its name, and its whole entry.
Entry = tuple[Path, str, Mapping[object, object]]


def nearest(word: str, known: Iterable[str]) -> str:
    """The most similar known name, without regard to case; empty where none is similar."""
    by_lower = {name.lower(): name for name in sorted(known, reverse=True)}
    near = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[near[0]] if near else ""


class ConfigurationReader(ABC):
    """Reads the data of a file; collects problems, which make it invalid, and warnings."""

    @classmethod
    def read_file(cls, data: object, catalog: Catalog) -> Configuration:
        """Reads a parsed file; an error has all problems, not only the first."""
        reader = cls(catalog)
        configuration = reader.read(data)
        if reader._problems:
            raise ConfigurationError((*reader._problems, *reader._warnings))
        return replace(configuration, warnings=tuple(reader._warnings))

    @abstractmethod
    def read(self, data: object) -> Configuration:
        """The configuration as far as it can be read."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._problems: list[Problem] = []
        self._warnings: list[Problem] = []

    def problem(self, path: Path, message: str, suggestion: str = "") -> None:
        self._problems.append(Problem(path, message, suggestion))

    def warning(self, path: Path, message: str) -> None:
        self._warnings.append(Problem(path, message, warning=True))

    def unknown(self, path: Path, what: str, word: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = nearest(word, names)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(names)}"
        self.problem(path, f"unknown {what} {word!r}; {hint}", near)

    # Arguments.

    def arguments(
        self, path: Path, data: object, declared: type[Arguments], *, texts: bool = False
    ) -> Arguments:
        """Typed arguments; with ``texts`` every value is a text."""
        if data is None:
            return Arguments()
        if not isinstance(data, Mapping):
            self.problem(path, "must be a mapping of arguments")
            return Arguments()
        values: dict[str, object] = {}
        for key, value in data.items():
            typed = self._argument((*path, str(key)), str(key), value, declared, texts=texts)
            if typed is not None:
                values[str(key)] = typed
        complaint = declared(values).why_not()
        if complaint is not None:
            self.problem(path, complaint)
        return Arguments(values)

    def _argument(
        self, path: Path, key: str, value: object, declared: type[Arguments], *, texts: bool
    ) -> object:
        argument = declared.find(key)
        if argument is None:
            self._unknown_argument(path, key, declared)
            return None
        if argument.why_without_effect:
            self.warning(path, f"has no effect: {argument.why_without_effect}")
        if argument.kind is None:
            return None
        if texts:
            text = scalar_text(value)
            if text == "":
                return None
            typed = None if text is None else parsed_text(text, argument.kind)
        else:
            typed = typed_value(value, argument.kind)
        if typed is None:
            self.problem(path, f"must be {argument.kind.value}, is {value!r}")
            return None
        limit = argument.limit
        complaint = limit.why_not(typed) if limit is not None else None
        if limit is not None and complaint is not None:
            (self.warning if limit.lenient else self.problem)(path, complaint)
        members = argument.members
        return typed if members is None else self._members(path, typed, members)

    def _members(self, path: Path, value: object, declared: type[Arguments]) -> object:
        """A mapping, or a list of mappings, whose members are checked too."""
        if not isinstance(value, list):
            return dict(self.arguments(path, value, declared).items())
        return [
            self._members((*path, number), item or {}, declared)
            for number, item in enumerate(value)
        ]

    def _unknown_argument(self, path: Path, key: str, declared: type[Arguments]) -> None:
        known = [each.name_form or each.shown_name for each in declared.declared if each.kind]
        if known:
            self.unknown(path, "argument", key, known)
        else:
            self.problem(path, f"unknown argument {key!r}; it takes none")

    # Actions, plugins and tiers.

    def _actions(self, text: object) -> tuple[str, ...]:
        """The actions of a comma-separated list, without spaces around them."""
        if not isinstance(text, str):
            example = 'one text such as "enqueue, allocate, backfill"'
            given = "" if text is None else f", is {text!r}"
            self.problem(("actions",), f"must be {example}{given}")
            return ()
        if not text.strip():
            self.problem(("actions",), "must name at least one action")
            return ()
        names = self._names(("actions",), text)
        for name in dict.fromkeys(names):
            if name not in self._catalog.actions:
                self.unknown(("actions",), "action", name, self._catalog.actions)
        return names

    def _names(self, path: Path, text: str) -> tuple[str, ...]:
        names = tuple(word.strip() for word in text.split(","))
        if "" in names:
            self.problem(path, "has an empty name between commas")
        return tuple(name for name in names if name)

    def _check_plugin(self, path: Path, name: str) -> bool:
        """Whether the plugin exists; if not, reports a problem."""
        if name in self._catalog.refused:
            self.problem(path, f"plugin {name!r} is installed but {self._catalog.refused[name]}")
        elif name not in self._catalog.plugins:
            self.unknown(path, "plugin", name, self._catalog.plugins)
        return name in self._catalog.plugins

    def _entries(self, tiers: object) -> list[list[Entry]]:
        """The plugin entries of each tier, with their paths."""
        if tiers is not None and not isinstance(tiers, list):
            self.problem(("tiers",), "must be a list of tiers, each with a list plugins")
            return []
        return [self._entries_of_tier(("tiers", i), tier) for i, tier in enumerate(tiers or ())]

    def _entries_of_tier(self, path: Path, tier: object) -> list[Entry]:
        if not isinstance(tier, Mapping):
            self.problem(path, "must be a mapping with the key plugins")
            return []
        for key in tier:
            if key != "plugins":
                self.unknown((*path, str(key)), "key", str(key), ["plugins"])
        plugins = tier.get("plugins")
        if plugins is not None and not isinstance(plugins, list):
            self.problem((*path, "plugins"), "must be a list of plugins")
            return []
        entries: list[Entry] = []
        for i, entry in enumerate(plugins or ()):
            name = entry.get("name") if isinstance(entry, Mapping) else None
            if isinstance(name, str):
                entries.append(((*path, "plugins", i), name, entry))
            else:
                self.problem((*path, "plugins", i), "must be a mapping with the key name")
        return entries

    def _check_twice(self, tiers: Tiers) -> None:
        first: dict[str, int] = {}
        for i, tier in enumerate(tiers):
            for options in tier:
                if options.name in first:
                    message = (
                        f"plugin {options.name!r} is listed twice, first in tiers"
                        f"[{first[options.name]}]; each placement would count twice"
                    )
                    self.problem(("tiers", i), message)
                first.setdefault(options.name, i)


def scalar_text(value: object) -> str | None:
    """A scalar as Go's YAML reader gives it to a text field; None for lists and mappings."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | float():
            return str(value)
        case None:
            return ""
        case _:
            return None
