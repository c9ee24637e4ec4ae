"""Problems and warnings that a reader of configurations finds, with their places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from pumice.core.configuration.schema import ArgumentSchema, Catalog, parsed_text, typed_value
from pumice.core.configuration.values import Arguments, Configuration
from pumice.core.configuration.volcano_names import ACTIONS, PLUGINS
from pumice.core.errors import ConfigurationError, Problem

Path = tuple[str | int, ...]
NOT_YET = "is known to Volcano and not supported yet"


def nearest(word: str, known: Iterable[str]) -> str:
    """The most similar known name, without regard to case; empty where none is similar."""
    by_lower = {name.lower(): name for name in sorted(known, reverse=True)}
    near = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[near[0]] if near else ""


class Findings:
    """Collects problems, which make a configuration invalid, and warnings, which do not."""

    def __init__(self) -> None:
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

    def unknown_action(self, path: Path, word: str, catalog: Catalog) -> None:
        self._unknown_name(path, "action", word, catalog.actions, ACTIONS)

    def unknown_plugin(self, path: Path, word: str, catalog: Catalog) -> None:
        if word in catalog.refused:
            self.problem(path, f"plugin {word!r} is installed but {catalog.refused[word]}")
        else:
            self._unknown_name(path, "plugin", word, catalog.plugins, PLUGINS)

    def _unknown_name(
        self, path: Path, what: str, word: str, known: Iterable[str], volcano: Iterable[str]
    ) -> None:
        """An unknown action or plugin; those of Volcano get a message of their own."""
        names, foreign = set(known), set(volcano)
        if word in foreign:
            self.problem(path, f"{what} {word!r} {NOT_YET}")
            return
        near = nearest(word, names | foreign)
        if near and near not in names:
            message = f"unknown {what} {word!r}; did you mean {near!r}? It {NOT_YET}"
            self.problem(path, message, near)
            return
        self.unknown(path, what, word, names)

    def conclude(self, configuration: Configuration) -> Configuration:
        """The configuration with its warnings; raises when there are problems."""
        if self._problems:
            raise ConfigurationError((*self._problems, *self._warnings))
        return Configuration(
            configuration.actions,
            configuration.tiers,
            configuration.action_arguments,
            configuration.metrics,
            tuple(self._warnings),
        )

    # Parts that all kinds of files share.

    def action_names(self, path: Path, text: object) -> tuple[str, ...]:
        """The names of a comma-separated list, without spaces around them."""
        if not isinstance(text, str):
            example = 'one text such as "enqueue, allocate, backfill"'
            self.problem(path, f"must be {example}" + ("" if text is None else f", is {text!r}"))
            return ()
        names = tuple(word.strip() for word in text.split(","))
        if names == ("",):
            self.problem(path, "must name at least one action")
            return ()
        if "" in names:
            self.problem(path, "has an empty name between commas")
        return tuple(name for name in names if name)

    def arguments(
        self, path: Path, data: object, schema: ArgumentSchema, *, texts: bool = False
    ) -> Arguments:
        """Typed arguments; with ``texts`` every value is a text."""
        if data is None:
            return Arguments()
        if not isinstance(data, Mapping):
            self.problem(path, "must be a mapping of arguments")
            return Arguments()
        values: dict[str, object] = {}
        for key, value in data.items():
            typed = self._argument((*path, str(key)), str(key), value, schema, texts=texts)
            if typed is not None:
                values[str(key)] = typed
        complaint = None if schema.why_not is None else schema.why_not(values)
        if complaint is not None:
            self.problem(path, complaint)
        return Arguments(values)

    def _argument(
        self, path: Path, key: str, value: object, schema: ArgumentSchema, *, texts: bool
    ) -> object:
        why = schema.why_without_effect(key)
        if why is not None:
            self.warning(path, f"has no effect: {why}")
        kind = schema.type_of(key)
        if kind is None:
            if why is None:
                self._unknown_argument(path, key, schema)
            return None
        if texts:
            text = scalar_text(value)
            if text == "":
                return None
            typed = None if text is None else parsed_text(text, kind)
        else:
            typed = typed_value(value, kind)
        if typed is None:
            self.problem(path, f"must be {kind.value}, is {value!r}")
            return None
        limit = schema.limit_of(key)
        complaint = limit.why_not(typed) if limit is not None else None
        if limit is not None and complaint is not None:
            (self.warning if limit.lenient else self.problem)(path, complaint)
        members = schema.members_of(key)
        return typed if members is None else self._members(path, typed, members)

    def _members(self, path: Path, value: object, schema: ArgumentSchema) -> object:
        """A mapping, or a list of mappings, with what is in it checked too."""
        if isinstance(value, list):
            return [
                dict(self.arguments((*path, i), item or {}, schema).items())
                for i, item in enumerate(value)
            ]
        return dict(self.arguments(path, value, schema).items())

    def _unknown_argument(self, path: Path, key: str, schema: ArgumentSchema) -> None:
        if schema.known:
            self.unknown(path, "argument", key, schema.known)
        else:
            self.problem(path, f"unknown argument {key!r}; it takes none")


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
