"""Reads Volcano's scheduler configuration strictly.

Volcano ignores unknown keys and replaces invalid values. Both are problems here, each with its place
and the most similar valid name. A valid key without effect is a warning.
"""

from __future__ import annotations

from collections.abc import Mapping

from pumice.core.configuration import volcano_names as volcano
from pumice.core.configuration.findings import Findings, Path, scalar_text
from pumice.core.configuration.schema import ArgumentSchema, Catalog, as_flag
from pumice.core.configuration.values import (
    FLAG_DEFAULTS,
    Arguments,
    Configuration,
    PluginOptions,
)

Tiers = tuple[tuple[PluginOptions, ...], ...]
_KEYS = ("actions", "tiers", "configurations", "metrics")
_KUBE_BATCH = "is kube-batch's; set the compat switch kube-batch to use such a file"


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
            self.findings.problem((), "must be a mapping with the keys actions and tiers")
            return Configuration((), ())
        for key in data:
            self._key(str(key))
        actions = self._actions(data.get("actions"))
        tiers = self._tiers(data.get("tiers"))
        self._across(tiers)
        self._usage_readers(tiers, data.get("metrics"))
        return Configuration(
            actions,
            tiers,
            self._action_arguments(data.get("configurations"), actions),
            self._metrics(data.get("metrics")),
        )

    def _key(self, key: str) -> None:
        if key in _KEYS:
            return
        if key in volcano.KEYS_WITHOUT_EFFECT:
            self.findings.warning((key,), f"has no effect: {volcano.KEYS_WITHOUT_EFFECT[key]}")
        elif key == "plugins" or key.startswith("plugin."):
            self.findings.problem((key,), f"the key {key!r} {_KUBE_BATCH}")
        else:
            self.findings.unknown((key,), "key", key, _KEYS)

    def _actions(self, text: object) -> tuple[str, ...]:
        names = self.findings.action_names(("actions",), text)
        for name in dict.fromkeys(names):
            if name not in self._catalog.actions:
                self.findings.unknown_action(("actions",), name, self._catalog)
        return names

    # Tiers and their plugins.

    def _tiers(self, tiers: object) -> Tiers:
        if tiers is not None and not isinstance(tiers, list):
            self.findings.problem(("tiers",), "must be a list of tiers, each with a list plugins")
            return ()
        read = tuple(self._tier(("tiers", i), tier) for i, tier in enumerate(tiers or ()))
        if not any(read):
            message = "name no plugin: pods go anywhere, and no gang is kept together"
            self.findings.warning(("tiers",), message)
        return read

    def _tier(self, path: Path, tier: object) -> tuple[PluginOptions, ...]:
        if not isinstance(tier, Mapping):
            self.findings.problem(path, "must be a mapping with the key plugins")
            return ()
        for key in tier:
            if key != "plugins":
                self.findings.unknown((*path, str(key)), "key", str(key), ["plugins"])
        plugins = tier.get("plugins")
        if plugins is not None and not isinstance(plugins, list):
            self.findings.problem((*path, "plugins"), "must be a list of plugins")
            return ()
        options = tuple(
            plugin
            for i, entry in enumerate(plugins or ())
            if (plugin := self._plugin((*path, "plugins", i), entry)) is not None
        )
        names = {o.name for o in options}
        if "proportion" in names and any(
            o.name == "drf" and o.enabled("enableHierarchy") for o in options
        ):
            message = "drf with enableHierarchy and proportion cannot share a tier"
            self.findings.problem(path, message)
        return options

    def _plugin(self, path: Path, entry: object) -> PluginOptions | None:
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(entry, Mapping) or not isinstance(name, str):
            self.findings.problem(path, "must be a mapping with the key name")
            return None
        flags = tuple(
            (str(key), flag)
            for key, value in entry.items()
            if key not in ("name", "arguments")
            and (flag := self._flag((*path, str(key)), name, str(key), value)) is not None
        )
        schema = self._catalog.plugins.get(name)
        if schema is None:
            self.findings.unknown_plugin((*path, "name"), name, self._catalog)
            return PluginOptions(name, flags)
        arguments = self.findings.arguments((*path, "arguments"), entry.get("arguments"), schema)
        return PluginOptions(name, flags, arguments)

    def _flag(self, path: Path, plugin: str, key: str, value: object) -> bool | None:
        why = volcano.FLAGS_WITHOUT_EFFECT.get(key)
        if key == "enableHierarchy" and plugin not in volcano.HIERARCHICAL and value:
            why = f"only {', '.join(volcano.HIERARCHICAL)} know a hierarchy"
        if why is not None:
            self.findings.warning(path, f"has no effect: {why}")
        if key not in FLAG_DEFAULTS:
            if why is None:
                self._unknown_flag(path, key)
            return None
        if value is None:
            return None
        flag = as_flag(value)
        if flag is None:
            hint = "; a quoted one is a text" if isinstance(value, str) else ""
            self.findings.problem(path, f"must be true or false, is {value!r}{hint}")
        return flag

    def _unknown_flag(self, path: Path, key: str) -> None:
        if key.startswith("disable"):
            self.findings.problem(path, f"the flag {key!r} {_KUBE_BATCH}")
        else:
            self.findings.unknown(path, "key", key, ["name", "arguments", *FLAG_DEFAULTS])

    def _across(self, tiers: Tiers) -> None:
        """Checks that need all tiers."""
        seen: dict[str, int] = {}
        for i, tier in enumerate(tiers):
            for options in tier:
                if options.name in seen:
                    message = (
                        f"plugin {options.name!r} is listed twice, first in tiers"
                        f"[{seen[options.name]}]; Volcano would count each placement twice"
                    )
                    self.findings.problem(("tiers", i), message)
                seen.setdefault(options.name, i)
        if "proportion" in seen and "capacity" in seen:
            message = "proportion and capacity both divide the cluster among queues; use one"
            self.findings.warning(("tiers",), message)

    def _usage_readers(self, tiers: Tiers, metrics: object) -> None:
        """Plugins that need measured usage, and sources of it that nobody needs."""
        # Without a type nothing is measured.
        measures = isinstance(metrics, Mapping) and bool(metrics.get("type"))
        for i, tier in enumerate(tiers):
            for j, options in enumerate(tier):
                path: Path = ("tiers", i, "plugins", j)
                if options.name in volcano.USAGE_READERS and not measures:
                    message = "has no effect without measured usage: add the key metrics"
                    self.findings.warning(path, message)
                if options.name == "rescheduling" and "metricsPeriod" not in options.arguments:
                    message = "moves no pod without the argument metricsPeriod: 10m, as in Volcano"
                    self.findings.warning(path, message)
        names = {options.name for tier in tiers for options in tier}
        if measures and not names.intersection(volcano.USAGE_READERS):
            readers = " nor ".join(volcano.USAGE_READERS)
            self.findings.warning(("metrics",), f"have no effect: neither {readers} is configured")

    # Arguments of actions.

    def _action_arguments(
        self, entries: object, actions: tuple[str, ...]
    ) -> tuple[tuple[str, Arguments], ...]:
        if entries is None:
            return ()
        if not isinstance(entries, list):
            self.findings.problem(("configurations",), "must be a list of {name, arguments}")
            return ()
        by_action: dict[str, Arguments] = {}
        for i, entry in enumerate(entries):
            path: Path = ("configurations", i)
            name = entry.get("name") if isinstance(entry, Mapping) else None
            if not isinstance(entry, Mapping) or not isinstance(name, str):
                self.findings.problem(path, "must be a mapping with the keys name and arguments")
                continue
            for key in entry:
                if key not in ("name", "arguments"):
                    known = ["name", "arguments"]
                    self.findings.unknown((*path, str(key)), "key", str(key), known)
            schema = self._schema_of_action((*path, "name"), name, actions)
            if schema is None:
                continue
            arguments = self.findings.arguments(
                (*path, "arguments"), entry.get("arguments"), schema
            )
            if name in by_action:
                self.findings.warning(path, f"has no effect: the first entry of {name!r} counts")
            by_action.setdefault(name, arguments)
        return tuple(by_action.items())

    def _schema_of_action(
        self, path: Path, name: str, actions: tuple[str, ...]
    ) -> ArgumentSchema | None:
        schema = self._catalog.actions.get(name)
        if name not in actions and (schema is not None or name in volcano.ACTIONS):
            self.findings.warning(path, f"has no effect: {name!r} is not among the actions")
        elif schema is None:
            self.findings.unknown_action(path, name, self._catalog)
        return schema

    # Where measured usage comes from.

    def _metrics(self, data: object) -> tuple[tuple[str, str], ...]:
        if data is None:
            return ()
        if not isinstance(data, Mapping):
            self.findings.problem(("metrics",), "must be a mapping of texts")
            return ()
        texts = {str(key): scalar_text(value) for key, value in data.items()}
        self.findings.arguments(("metrics",), data, volcano.METRICS, texts=True)
        source = texts.get("type")
        if source in volcano.SOURCES_WITH_ADDRESS and not texts.get("address"):
            self.findings.problem(("metrics",), f"the source {source!r} needs an address")
        return tuple(sorted((key, text) for key, text in texts.items() if text is not None))
