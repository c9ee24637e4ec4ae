"""The scheduler configuration, read strictly: plain data in, a typed value or all problems out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum

from pumice.core.errors import ConfigurationError, Problem

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

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))


class ArgumentType(Enum):
    """What an argument must be."""

    INT = "a whole number"
    FLOAT = "a number"
    BOOL = "true or false"
    STRING = "a text"
    DURATION = "a duration such as 1h2m3s"
    MAP = "a mapping"
    LIST = "a list"


@dataclass(frozen=True, slots=True)
class ArgumentSchema:
    """The arguments a plugin or action takes: by name, or by what their names begin with."""

    exact: Mapping[str, ArgumentType] = field(default_factory=dict)
    prefixes: Mapping[str, ArgumentType] = field(default_factory=dict)

    def type_of(self, key: str) -> ArgumentType | None:
        if key in self.exact:
            return self.exact[key]
        for prefix, kind in self.prefixes.items():
            if key.startswith(prefix) and len(key) > len(prefix):
                return kind
        return None


@dataclass(frozen=True, slots=True)
class Catalog:
    """The actions and plugins there are, with their arguments."""

    actions: Mapping[str, ArgumentSchema]
    plugins: Mapping[str, ArgumentSchema]


class Arguments:
    """The arguments of one plugin or action, already of the right types."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        self._values = dict(values or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Arguments) and self._values == other._values

    def __hash__(self) -> int:
        return hash(json.dumps(self._values, sort_keys=True, default=str))

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

    def arguments_of(self, action: str) -> Arguments:
        return dict(self.action_arguments).get(action, Arguments())

    @property
    def digest(self) -> str:
        """The same for the same meaning, whatever the text looked like."""
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


def read_configuration(data: object, catalog: Catalog) -> Configuration:
    """Reads the parsed file; raises with every problem there is, not just the first."""
    reader = _Reader(catalog)
    configuration = reader.read(data)
    if reader.problems:
        raise ConfigurationError(tuple(reader.problems))
    return configuration


class _Reader:
    """Walks the data and collects problems."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.problems: list[Problem] = []

    def _problem(self, path: tuple[str | int, ...], message: str) -> None:
        self.problems.append(Problem(path, message))

    def _unknown(
        self, path: tuple[str | int, ...], what: str, word: str, known: Sequence[str]
    ) -> None:
        near = get_close_matches(word, known, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(known))}"
        message = f"unknown {what} {word!r}{hint}"
        self.problems.append(Problem(path, message, near[0] if near else ""))

    def read(self, data: object) -> Configuration:
        if not isinstance(data, Mapping):
            self._problem((), "must be a mapping with the keys actions and tiers")
            return Configuration((), ())
        known = ("actions", "tiers", "configurations", "metrics")
        for key in data:
            if key not in known:
                self._unknown((key,), "key", str(key), known)
        return Configuration(
            self._actions(data.get("actions")),
            self._tiers(data.get("tiers")),
            self._action_arguments(data.get("configurations")),
            self._metrics(data.get("metrics")),
        )

    def _actions(self, text: object) -> tuple[str, ...]:
        path = ("actions",)
        if not isinstance(text, str) or not text.strip():
            self._problem(path, 'must list at least one action, as in "enqueue, allocate"')
            return ()
        names = tuple(word.strip() for word in text.split(","))
        for name in names:
            if not name:
                self._problem(path, "has an empty name between commas")
            elif name not in self._catalog.actions:
                self._unknown(path, "action", name, list(self._catalog.actions))
        return names

    def _tiers(self, tiers: object) -> tuple[tuple[PluginOptions, ...], ...]:
        if tiers is None:
            return ()
        if not isinstance(tiers, list):
            self._problem(("tiers",), "must be a list of tiers, each with a list plugins")
            return ()
        return tuple(self._tier(("tiers", i), tier) for i, tier in enumerate(tiers))

    def _tier(self, path: tuple[str | int, ...], tier: object) -> tuple[PluginOptions, ...]:
        if not isinstance(tier, Mapping):
            self._problem(path, "must be a mapping with the key plugins")
            return ()
        for key in tier:
            if key != "plugins":
                self._unknown((*path, key), "key", str(key), ["plugins"])
        plugins = tier.get("plugins")
        if not isinstance(plugins, list):
            self._problem((*path, "plugins"), "must be a list of plugins")
            return ()
        options = tuple(
            found
            for i, entry in enumerate(plugins)
            if (found := self._plugin((*path, "plugins", i), entry)) is not None
        )
        hierarchical = {o.name for o in options if o.enabled("enableHierarchy")}
        if "drf" in hierarchical and any(o.name == "proportion" for o in options):
            self._problem(path, "drf with enableHierarchy and proportion cannot share a tier")
        return options

    def _plugin(self, path: tuple[str | int, ...], entry: object) -> PluginOptions | None:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            self._problem(path, "must be a mapping with the key name")
            return None
        name = entry["name"]
        if name not in self._catalog.plugins:
            self._unknown((*path, "name"), "plugin", name, list(self._catalog.plugins))
        flags = []
        for key, value in entry.items():
            if key in FLAG_DEFAULTS:
                if isinstance(value, bool):
                    flags.append((key, value))
                else:
                    self._problem((*path, key), f"must be true or false, is {value!r}")
            elif key not in ("name", "arguments"):
                known = ["name", "arguments", *FLAG_DEFAULTS]
                self._unknown((*path, key), "key", str(key), known)
        schema = self._catalog.plugins.get(name, ArgumentSchema())
        arguments = self._arguments((*path, "arguments"), entry.get("arguments"), schema)
        return PluginOptions(name, tuple(flags), arguments)

    def _action_arguments(self, entries: object) -> tuple[tuple[str, Arguments], ...]:
        if entries is None:
            return ()
        if not isinstance(entries, list):
            self._problem(("configurations",), "must be a list of {name, arguments}")
            return ()
        found: dict[str, Arguments] = {}
        for i, entry in enumerate(entries):
            path = ("configurations", i)
            name = entry.get("name") if isinstance(entry, Mapping) else None
            if not isinstance(name, str):
                self._problem(path, "must be a mapping with the keys name and arguments")
                continue
            if name not in self._catalog.actions:
                self._unknown((*path, "name"), "action", name, list(self._catalog.actions))
                continue
            schema = self._catalog.actions[name]
            arguments = self._arguments((*path, "arguments"), entry.get("arguments"), schema)
            # The first entry of a name counts.
            found.setdefault(name, arguments)
        return tuple(found.items())

    def _metrics(self, data: object) -> tuple[tuple[str, str], ...]:
        if data is None:
            return ()
        if not isinstance(data, Mapping):
            self._problem(("metrics",), "must be a mapping of texts")
            return ()
        return tuple(sorted((str(key), str(value)) for key, value in data.items()))

    def _arguments(
        self, path: tuple[str | int, ...], data: object, schema: ArgumentSchema
    ) -> Arguments:
        if data is None:
            return Arguments()
        if not isinstance(data, Mapping):
            self._problem(path, "must be a mapping of arguments")
            return Arguments()
        values: dict[str, object] = {}
        for key, value in data.items():
            kind = schema.type_of(str(key))
            if kind is None:
                known = [*schema.exact, *(f"{prefix}<name>" for prefix in schema.prefixes)]
                if known:
                    self._unknown((*path, key), "argument", str(key), known)
                else:
                    self._problem((*path, key), f"unknown argument {key!r}; it takes none")
                continue
            typed = typed_value(value, kind)
            if typed is None:
                self._problem((*path, key), f"must be {kind.value}, is {value!r}")
            else:
                values[str(key)] = typed
        return Arguments(values)


def typed_value(value: object, kind: ArgumentType) -> object:
    """The value as its type wants it; None when it is not of that type."""
    match kind:
        case ArgumentType.INT:
            return value if isinstance(value, int) and not isinstance(value, bool) else None
        case ArgumentType.FLOAT:
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            return value if number else None
        case ArgumentType.BOOL:
            if isinstance(value, str):
                return True if value in _TRUE else False if value in _FALSE else None
            return value if isinstance(value, bool) else None
        case ArgumentType.STRING | ArgumentType.DURATION:
            return value if isinstance(value, str) else None
        case ArgumentType.MAP:
            return value if isinstance(value, Mapping) else None
        case ArgumentType.LIST:
            return value if isinstance(value, list) else None
