"""Reads the three generations of kube-batch's configuration; all give the same value.

* flat (v0.2, v0.3): a map of texts: ``actions``, ``plugins`` and ``plugin.gang.jobready: "true"``;
* v0.4: tiers of plugins with negative flags, such as ``disableJobOrder: true``;
* v0.5: tiers of plugins with positive flags and arguments that are all texts.

A file with ``tiers`` is of one of the later two, and a single flag tells which.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pumice.core.configuration.findings import Findings, Path, scalar_text
from pumice.core.configuration.schema import (
    ArgumentType,
    Catalog,
    as_flag,
    parsed_text,
)
from pumice.core.configuration.values import Configuration, PluginOptions
from pumice.core.configuration.volcano_names import ACTIONS, PLUGINS

# kube-batch of v0.5 without a file.
DEFAULT_CONFIGURATION = Configuration(
    actions=("allocate", "backfill"),
    tiers=(
        tuple(PluginOptions(name) for name in ("priority", "gang")),
        tuple(PluginOptions(name) for name in ("drf", "predicates", "proportion", "nodeorder")),
    ),
)
# A flat file that leaves these out means so much.
_FLAT_ACTIONS = "allocate, preempt"
_FLAT_PLUGINS = "gang, priority, drf"
# A pipelined gang was not told from a ready one then.
_FLAT_FLAGS: Mapping[str, tuple[str, ...]] = {
    "jobready": ("enableJobReady", "enableJobPipelined"),
    "joborder": ("enableJobOrder",),
    "taskorder": ("enableTaskOrder",),
    "preemptable": ("enablePreemptable",),
}
_NEGATIVE_FLAGS: Mapping[str, tuple[str, ...]] = {
    "disableJobOrder": ("enableJobOrder",),
    "disableJobReady": ("enableJobReady", "enableJobPipelined"),
    "disableTaskOrder": ("enableTaskOrder",),
    "disablePreemptable": ("enablePreemptable",),
    "disableReclaimable": ("enableReclaimable",),
    "disableQueueOrder": ("enableQueueOrder",),
    "disablePredicate": ("enablePredicate",),
}
_POSITIVE_FLAGS = (
    *(name for names in _NEGATIVE_FLAGS.values() for name in names),
    "enableNodeOrder",
)


def read_configuration(data: object, catalog: Catalog) -> Configuration:
    """Reads the parsed file; raises with every problem there is, not just the first."""
    reader = _Reader(catalog)
    return reader.findings.conclude(reader.read(data))


class _Reader:
    """Walks the data and collects what it finds."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.findings = Findings()

    def read(self, data: object) -> Configuration:
        if not isinstance(data, Mapping):
            self.findings.problem((), "must be a mapping with actions and plugins, or with tiers")
            return Configuration((), ())
        return self._tiered(data) if "tiers" in data else self._flat(data)

    def _actions(self, text: object) -> tuple[str, ...]:
        names = self.findings.action_names(("actions",), text)
        for name in dict.fromkeys(names):
            if name not in self._catalog.actions:
                self._refuse(("actions",), "action", name, self._catalog.actions, ACTIONS)
        return names

    def _is_known(self, path: Path, name: str) -> bool:
        known = name in self._catalog.plugins
        if name in self._catalog.refused:
            self.findings.unknown_plugin(path, name, self._catalog)
        elif not known:
            self._refuse(path, "plugin", name, self._catalog.plugins, PLUGINS)
        return known

    def _refuse(
        self, path: Path, what: str, name: str, known: Iterable[str], volcano: Iterable[str]
    ) -> None:
        """What came with Volcano is told apart from mistakes."""
        if name in volcano:
            self.findings.problem(path, f"{what} {name!r} is Volcano's; kube-batch had none")
        else:
            self.findings.unknown(path, what, name, known)

    # The flat generation.

    def _flat(self, data: Mapping[object, object]) -> Configuration:
        texts: dict[str, str] = {}
        for key, value in data.items():
            text = scalar_text(value)
            if text is None:
                self.findings.problem((str(key),), "must be a text: a flat configuration is a map")
            else:
                texts[str(key)] = text
        names = self._flat_plugins(texts.get("plugins", _FLAT_PLUGINS))
        flags = {name: dict.fromkeys(_FLAT_FLAGS, False) for name in names}
        for key, text in texts.items():
            if key not in ("actions", "plugins"):
                self._flat_flag(key, text, flags)
        tier = tuple(
            PluginOptions(
                name,
                tuple((flag, on) for word, on in own.items() for flag in _FLAT_FLAGS[word]),
            )
            for name, own in flags.items()
        )
        return Configuration(self._actions(texts.get("actions", _FLAT_ACTIONS)), (tier,))

    def _flat_plugins(self, text: str) -> list[str]:
        names = [name.strip() for name in text.split(",")]
        for name in names:
            if not name:
                self.findings.problem(("plugins",), "has an empty name between commas")
            else:
                self._is_known(("plugins",), name)
        if len(set(names)) < len(names):
            self.findings.problem(("plugins",), "lists a plugin twice")
        return [name for name in dict.fromkeys(names) if name]

    def _flat_flag(self, key: str, text: str, flags: dict[str, dict[str, bool]]) -> None:
        head, _, rest = key.partition(".")
        plugin, dot, word = rest.rpartition(".")
        if head != "plugin" or not dot:
            shape = "plugin.<name>.<flag>"
            self.findings.unknown((key,), "key", key, ["actions", "plugins", shape])
        elif plugin not in flags:
            message = f"is about plugin {plugin!r}, which is not listed under plugins"
            self.findings.problem((key,), message)
        elif word not in _FLAT_FLAGS:
            self.findings.unknown((key,), "flag", word, _FLAT_FLAGS)
        else:
            on = parsed_text(text, ArgumentType.BOOL)
            if isinstance(on, bool):
                flags[plugin][word] = on
            else:
                self.findings.problem((key,), f"must be true or false, is {text!r}")

    # The two generations with tiers.

    def _tiered(self, data: Mapping[object, object]) -> Configuration:
        for key in data:
            if key == "plugins" or str(key).startswith("plugin."):
                message = "belongs to a flat configuration, which has no tiers"
                self.findings.problem((str(key),), message)
            elif key not in ("actions", "tiers"):
                self.findings.unknown((str(key),), "key", str(key), ["actions", "tiers"])
        tiers = data["tiers"]
        if not isinstance(tiers, list):
            self.findings.problem(("tiers",), "must be a list of tiers, each with a list plugins")
            tiers = []
        entries = [self._entries(("tiers", i), tier) for i, tier in enumerate(tiers)]
        negative = any(str(key).startswith("disable") for t in entries for _, e in t for key in e)
        read = tuple(
            tuple(
                options
                for path, entry in tier
                if (options := self._plugin(path, entry, negative=negative)) is not None
            )
            for tier in entries
        )
        self._check_twice(read)
        return Configuration(self._actions(data.get("actions")), read)

    def _entries(self, path: Path, tier: object) -> list[tuple[Path, Mapping[object, object]]]:
        plugins = tier.get("plugins") if isinstance(tier, Mapping) else None
        if not isinstance(tier, Mapping) or not isinstance(plugins, list):
            self.findings.problem(path, "must be a mapping with a list plugins")
            return []
        for key in tier:
            if key != "plugins":
                self.findings.unknown((*path, str(key)), "key", str(key), ["plugins"])
        entries = []
        for i, entry in enumerate(plugins):
            if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
                entries.append(((*path, "plugins", i), entry))
            else:
                message = "must be a mapping with the key name"
                self.findings.problem((*path, "plugins", i), message)
        return entries

    def _plugin(
        self, path: Path, entry: Mapping[object, object], *, negative: bool
    ) -> PluginOptions | None:
        name = str(entry["name"])
        if not self._is_known((*path, "name"), name):
            return None
        flags: list[tuple[str, bool]] = []
        for key, value in entry.items():
            if key not in ("name", "arguments"):
                flags += self._flags((*path, str(key)), str(key), value, negative=negative)
        if negative and "arguments" in entry:
            message = "negative flags are of v0.4, where plugins take no arguments"
            self.findings.problem((*path, "arguments"), message)
            return PluginOptions(name, tuple(flags))
        schema = self._catalog.plugins[name]
        arguments = self.findings.arguments(
            (*path, "arguments"), entry.get("arguments"), schema, texts=True
        )
        return PluginOptions(name, tuple(flags), arguments)

    def _flags(
        self, path: Path, key: str, value: object, *, negative: bool
    ) -> list[tuple[str, bool]]:
        known = list(_NEGATIVE_FLAGS) if negative else list(_POSITIVE_FLAGS)
        if key not in known:
            if negative and key in _POSITIVE_FLAGS:
                message = f"{key!r} is of v0.5, other flags of this file are of v0.4; use one kind"
                self.findings.problem(path, message)
            else:
                self.findings.unknown(path, "key", key, ["name", "arguments", *known])
            return []
        flag = as_flag(value)
        if flag is None:
            if value is not None:
                self.findings.problem(path, f"must be true or false, is {value!r}")
            return []
        if negative:
            return [(name, not flag) for name in _NEGATIVE_FLAGS[key]]
        return [(key, flag)]

    def _check_twice(self, tiers: tuple[tuple[PluginOptions, ...], ...]) -> None:
        names = [options.name for tier in tiers for options in tier]
        for name in dict.fromkeys(names):
            if names.count(name) > 1:
                self.findings.problem(("tiers",), f"plugin {name!r} is listed twice")
