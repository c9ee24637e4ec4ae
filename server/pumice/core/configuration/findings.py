"""Problems and warnings that a reader of configurations finds, with their places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches

from pumice.core.configuration.argument_types import parsed_text, typed_value
from pumice.core.configuration.arguments import Arguments
from pumice.core.configuration.values import Configuration
from pumice.core.errors import ConfigurationError, Problem

Path = tuple[str | int, ...]


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

    def conclude(self, configuration: Configuration) -> Configuration:
        """The configuration with its warnings; raises when there are problems."""
        if self._problems:
            raise ConfigurationError((*self._problems, *self._warnings))
        return replace(configuration, warnings=tuple(self._warnings))

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
        """A mapping, or a list of mappings, with what is in it checked too."""
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
