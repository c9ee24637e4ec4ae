"""Reads Volcano's scheduler configuration strictly.

Volcano ignores unknown keys and replaces invalid values. Both are problems here, each with its place
and the most similar valid name. A valid key without effect is a warning.
"""

from __future__ import annotations

from collections.abc import Mapping

from pumice.core.configuration import volcano_names as volcano
from pumice.core.configuration.argument_types import as_flag
from pumice.core.configuration.arguments import Arguments
from pumice.core.configuration.reader import ConfigurationReader, Path, Tiers, scalar_text
from pumice.core.configuration.values import FLAG_DEFAULTS, Configuration, PluginOptions

_KEYS = ("actions", "tiers", "configurations", "metrics")
_KUBE_BATCH = "is kube-batch's; set the compat switch kube-batch to use such a file"


class _Reader(ConfigurationReader):
    """Reads Volcano's files."""

    def read(self, data: object) -> Configuration:
        if not isinstance(data, Mapping):
            self.problem((), "must be a mapping with the keys actions and tiers")
            return Configuration((), ())
        for key in data:
            self._key(str(key))
        actions = self._actions(data.get("actions"))
        tiers = self._tiers(data.get("tiers"))
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
            self.warning((key,), f"has no effect: {volcano.KEYS_WITHOUT_EFFECT[key]}")
        elif key == "plugins" or key.startswith("plugin."):
            self.problem((key,), f"the key {key!r} {_KUBE_BATCH}")
        else:
            self.unknown((key,), "key", key, _KEYS)

    # Tiers and their plugins.

    def _tiers(self, data: object) -> Tiers:
        tiers = tuple(tuple(self._plugin(*entry) for entry in tier) for tier in self._entries(data))
        if not any(tiers):
            self.warning(
                ("tiers",), "name no plugin: pods go anywhere, and no gang is kept together"
            )
        for i, tier in enumerate(tiers):
            hierarchical = any(o.name == "drf" and o.enabled("enableHierarchy") for o in tier)
            if hierarchical and any(o.name == "proportion" for o in tier):
                self.problem(
                    ("tiers", i), "drf with enableHierarchy and proportion cannot share a tier"
                )
        self._check_twice(tiers)
        if {"proportion", "capacity"} <= {options.name for tier in tiers for options in tier}:
            message = "proportion and capacity both divide the cluster among queues; use one"
            self.warning(("tiers",), message)
        return tiers

    def _plugin(self, path: Path, name: str, entry: Mapping[object, object]) -> PluginOptions:
        flags = tuple(
            (str(key), flag)
            for key, value in entry.items()
            if key not in ("name", "arguments")
            and (flag := self._flag((*path, str(key)), name, str(key), value)) is not None
        )
        if not self._check_plugin((*path, "name"), name):
            return PluginOptions(name, flags)
        declared = self._catalog.plugins[name]
        arguments = self.arguments((*path, "arguments"), entry.get("arguments"), declared)
        return PluginOptions(name, flags, arguments)

    def _flag(self, path: Path, plugin: str, key: str, value: object) -> bool | None:
        why = volcano.FLAGS_WITHOUT_EFFECT.get(key)
        if key == "enableHierarchy" and plugin not in volcano.HIERARCHICAL and value:
            why = f"only {', '.join(volcano.HIERARCHICAL)} know a hierarchy"
        if why is not None:
            self.warning(path, f"has no effect: {why}")
        if key not in FLAG_DEFAULTS:
            if why is None:
                self._unknown_flag(path, key)
            return None
        if value is None:
            return None
        flag = as_flag(value)
        if flag is None:
            hint = "; a quoted one is a text" if isinstance(value, str) else ""
            self.problem(path, f"must be true or false, is {value!r}{hint}")
        return flag

    def _unknown_flag(self, path: Path, key: str) -> None:
        if key.startswith("disable"):
            self.problem(path, f"the flag {key!r} {_KUBE_BATCH}")
        else:
            self.unknown(path, "key", key, ["name", "arguments", *FLAG_DEFAULTS])

    def _usage_readers(self, tiers: Tiers, metrics: object) -> None:
        """Warns about plugins that lack measured usage, and about usage that no plugin reads."""
        # Without a type nothing is measured.
        measures = isinstance(metrics, Mapping) and bool(metrics.get("type"))
        for i, tier in enumerate(tiers):
            for j, options in enumerate(tier):
                path: Path = ("tiers", i, "plugins", j)
                if options.name in volcano.USAGE_READERS and not measures:
                    self.warning(path, "has no effect without measured usage: add the key metrics")
                if options.name == "rescheduling" and "metricsPeriod" not in options.arguments:
                    message = "moves no pod without the argument metricsPeriod: 10m, as in Volcano"
                    self.warning(path, message)
        names = {options.name for tier in tiers for options in tier}
        if measures and not names.intersection(volcano.USAGE_READERS):
            readers = " nor ".join(volcano.USAGE_READERS)
            self.warning(("metrics",), f"have no effect: neither {readers} is configured")

    # Arguments of actions.

    def _action_arguments(
        self, entries: object, actions: tuple[str, ...]
    ) -> tuple[tuple[str, Arguments], ...]:
        if entries is None:
            return ()
        if not isinstance(entries, list):
            self.problem(("configurations",), "must be a list of {name, arguments}")
            return ()
        by_action: dict[str, Arguments] = {}
        for i, entry in enumerate(entries):
            path: Path = ("configurations", i)
            name = entry.get("name") if isinstance(entry, Mapping) else None
            if not isinstance(entry, Mapping) or not isinstance(name, str):
                self.problem(path, "must be a mapping with the keys name and arguments")
                continue
            for key in entry:
                if key not in ("name", "arguments"):
                    known = ["name", "arguments"]
                    self.unknown((*path, str(key)), "key", str(key), known)
            declared = self._arguments_of_action((*path, "name"), name, actions)
            if declared is None:
                continue
            arguments = self.arguments((*path, "arguments"), entry.get("arguments"), declared)
            if name in by_action:
                self.warning(path, f"has no effect: the first entry of {name!r} counts")
            by_action.setdefault(name, arguments)
        return tuple(by_action.items())

    def _arguments_of_action(
        self, path: Path, name: str, actions: tuple[str, ...]
    ) -> type[Arguments] | None:
        if name == volcano.INIT_PARAMETERS:
            return volcano.InitParameters
        declared = self._catalog.actions.get(name)
        if name not in actions and declared is not None:
            self.warning(path, f"has no effect: {name!r} is not among the actions")
        elif declared is None:
            self.unknown(path, "action", name, self._catalog.actions)
        return declared

    # Where measured usage comes from.

    def _metrics(self, data: object) -> tuple[tuple[str, str], ...]:
        if data is None:
            return ()
        if not isinstance(data, Mapping):
            self.problem(("metrics",), "must be a mapping of texts")
            return ()
        texts = {str(key): scalar_text(value) for key, value in data.items()}
        self.arguments(("metrics",), data, volcano.Metrics, texts=True)
        source = texts.get("type")
        if source in volcano.SOURCES_WITH_ADDRESS and not texts.get("address"):
            self.problem(("metrics",), f"the source {source!r} needs an address")
        return tuple(sorted((key, text) for key, text in texts.items() if text is not None))


read_configuration = _Reader.read_file
