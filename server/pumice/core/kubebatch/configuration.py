"""Reads the three generations of kube-batch's configuration; all give the same value.

* flat (v0.2, v0.3): a map of texts: ``actions``, ``plugins`` and ``plugin.gang.jobready: "true"``;
* v0.4: tiers of plugins with negative flags, such as ``disableJobOrder: true``;
* v0.5: tiers of plugins with positive flags and arguments that are all texts.

A file with ``tiers`` is of one of the later two, and a single flag tells which.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pumice.core.configuration.argument_types import ArgumentType, as_flag, parsed_text
from pumice.core.configuration.reader import ConfigurationReader, Path, scalar_text
from pumice.core.configuration.values import Configuration, PluginOptions

# kube-batch of v0.5 without a file.
DEFAULT_CONFIGURATION = Configuration(
    actions=("allocate", "backfill"),
    tiers=(
        tuple(PluginOptions(name) for name in ("priority", "gang")),
        tuple(PluginOptions(name) for name in ("drf", "predicates", "proportion", "nodeorder")),
    ),
)
# What a flat file without these keys means.
_FLAT_ACTIONS = "allocate, preempt"
_FLAT_PLUGINS = "gang, priority, drf"
# Flat files do not distinguish a pipelined gang from a ready one.
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


class _Reader(ConfigurationReader):
    """Reads files of all generations."""

    def read(self, data: object) -> Configuration:
        if not isinstance(data, Mapping):
            self.problem((), "must be a mapping with actions and plugins, or with tiers")
            return Configuration((), ())
        return self._tiered(data) if "tiers" in data else self._flat(data)

    def unknown(self, path: Path, what: str, word: str, known: Iterable[str]) -> None:
        """Distinguishes names that came with Volcano from mistakes."""
        if word in self._catalog.volcano.get(what, ()):
            self.problem(path, f"{what} {word!r} is Volcano's; kube-batch had none")
        else:
            super().unknown(path, what, word, known)

    # The flat generation.

    def _flat(self, data: Mapping[object, object]) -> Configuration:
        texts: dict[str, str] = {}
        for key, value in data.items():
            text = scalar_text(value)
            if text is None:
                self.problem((str(key),), "must be a text: a flat configuration is a map")
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
        names = self._names(("plugins",), text)
        for name in names:
            self._check_plugin(("plugins",), name)
        if len(set(names)) < len(names):
            self.problem(("plugins",), "lists a plugin twice")
        return list(dict.fromkeys(names))

    def _flat_flag(self, key: str, text: str, flags: dict[str, dict[str, bool]]) -> None:
        head, _, rest = key.partition(".")
        plugin, dot, word = rest.rpartition(".")
        if head != "plugin" or not dot:
            shape = "plugin.<name>.<flag>"
            self.unknown((key,), "key", key, ["actions", "plugins", shape])
        elif plugin not in flags:
            self.problem((key,), f"is about plugin {plugin!r}, which is not listed under plugins")
        elif word not in _FLAT_FLAGS:
            self.unknown((key,), "flag", word, _FLAT_FLAGS)
        else:
            on = parsed_text(text, ArgumentType.BOOL)
            if isinstance(on, bool):
                flags[plugin][word] = on
            else:
                self.problem((key,), f"must be true or false, is {text!r}")

    # The two generations with tiers.

    def _tiered(self, data: Mapping[object, object]) -> Configuration:
        for key in data:
            if key == "plugins" or str(key).startswith("plugin."):
                self.problem((str(key),), "belongs to a flat configuration, which has no tiers")
            elif key not in ("actions", "tiers"):
                self.unknown((str(key),), "key", str(key), ["actions", "tiers"])
        entries = self._entries(data["tiers"])
        negative = any(
            str(key).startswith("disable") for tier in entries for _, _, e in tier for key in e
        )
        tiers = tuple(
            tuple(
                self._plugin(path, name, entry, negative=negative)
                for path, name, entry in tier
                if self._check_plugin((*path, "name"), name)
            )
            for tier in entries
        )
        self._check_twice(tiers)
        return Configuration(self._actions(data.get("actions")), tiers)

    def _plugin(
        self, path: Path, name: str, entry: Mapping[object, object], *, negative: bool
    ) -> PluginOptions:
        flags: list[tuple[str, bool]] = []
        for key, value in entry.items():
            if key not in ("name", "arguments"):
                flags += self._flags((*path, str(key)), str(key), value, negative=negative)
        if negative and "arguments" in entry:
            message = "negative flags are of v0.4, where plugins take no arguments"
            self.problem((*path, "arguments"), message)
            return PluginOptions(name, tuple(flags))
        declared = self._catalog.plugins[name]
        arguments = self.arguments(
            (*path, "arguments"), entry.get("arguments"), declared, texts=True
        )
        return PluginOptions(name, tuple(flags), arguments)

    def _flags(
        self, path: Path, key: str, value: object, *, negative: bool
    ) -> list[tuple[str, bool]]:
        known = list(_NEGATIVE_FLAGS) if negative else list(_POSITIVE_FLAGS)
        if key not in known:
            if negative and key in _POSITIVE_FLAGS:
                message = f"{key!r} is of v0.5, other flags of this file are of v0.4; use one kind"
                self.problem(path, message)
            else:
                self.unknown(path, "key", key, ["name", "arguments", *known])
            return []
        flag = as_flag(value)
        if flag is None:
            if value is not None:
                self.problem(path, f"must be true or false, is {value!r}")
            return []
        if negative:
            return [(name, not flag) for name in _NEGATIVE_FLAGS[key]]
        return [(key, flag)]


read_configuration = _Reader.read_file
