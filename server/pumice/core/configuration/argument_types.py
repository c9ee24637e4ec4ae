"""Types and limits of the arguments of plugins and actions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import isfinite

from pumice.core.model.quantities import parse_duration_ns, parse_quantity

# As Go parses them.
TRUE_TEXTS = frozenset(("1", "t", "T", "TRUE", "true", "True"))
FALSE_TEXTS = frozenset(("0", "f", "F", "FALSE", "false", "False"))
# Booleans of YAML 1.1 that Go's reader knows and Python's leaves as text.
_YES = frozenset(("y", "Y"))
_NO = frozenset(("n", "N"))
_LARGEST_INT = 2**63


class ArgumentType(Enum):
    """What an argument must be."""

    INT = "a whole number"
    FLOAT = "a number"
    BOOL = "true or false"
    STRING = "a text"
    DURATION = "a duration such as 1h2m3s"
    MAP = "a mapping"
    LIST = "a list"
    STRINGS = "a list of texts"
    QUANTITY = "a quantity such as 250m or 200Mi"


@dataclass(frozen=True, slots=True)
class Limit:
    """The allowed values of an argument.

    Volcano silently replaces a value out of range by its default; here it is a problem. With
    ``lenient`` it is a warning, because Volcano uses such a value, with a surprising effect.
    """

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    # A regular expression that the whole text must match, and how its form is described.
    pattern: str = ""
    form: str = ""
    lenient: bool = False
    # What such a value does, or what Volcano would make of it.
    otherwise: str = ""

    def why_not(self, value: object) -> str | None:
        """What is wrong with a value of the right type; durations are compared in seconds."""
        if self.choices:
            if value in self.choices:
                return None
            return self._message(f"must be one of {', '.join(self.choices)}", value)
        if self.pattern:
            fits = isinstance(value, str) and re.fullmatch(self.pattern, value, re.ASCII)
            return None if fits else self._message(f"must be {self.form}", value)
        number = _as_number(value)
        if number is None:
            return None
        if self.at_least is not None and number < self.at_least:
            return self._message(f"must be {self.at_least:g} or more", value)
        if self.above is not None and number <= self.above:
            return self._message(f"must be above {self.above:g}", value)
        if self.at_most is not None and number > self.at_most:
            return self._message(f"must be {self.at_most:g} or less", value)
        return None

    def _message(self, rule: str, value: object) -> str:
        rule = rule.replace("must be", "should be") if self.lenient else rule
        return f"{rule}, is {value!r}" + (f"; {self.otherwise}" if self.otherwise else "")


def _as_number(value: object) -> float | None:
    if isinstance(value, str):
        nanoseconds = parse_duration_ns(value)
        return None if nanoseconds is None else nanoseconds / 1e9
    return value if isinstance(value, (int, float)) else None


def as_flag(value: object) -> bool | None:
    """A boolean of YAML 1.1; None for anything else, a quoted "false" included."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return True if value in _YES else False if value in _NO else None
    return None


def typed_value(value: object, kind: ArgumentType) -> object:
    """The value in its type; None where it is not of that type."""
    match kind:
        case ArgumentType.INT:
            return value if _is_int(value) else None
        case ArgumentType.FLOAT:
            real = isinstance(value, float) and isfinite(value)
            return value if real or _is_int(value) else None
        case ArgumentType.BOOL:
            if isinstance(value, str) and value in TRUE_TEXTS:
                return True
            if isinstance(value, str) and value in FALSE_TEXTS:
                return False
            return as_flag(value)
        case ArgumentType.STRING:
            return value if isinstance(value, str) else None
        case ArgumentType.DURATION:
            fits = isinstance(value, str) and parse_duration_ns(value) is not None
            return value if fits else None
        case ArgumentType.MAP:
            return value if isinstance(value, Mapping) else None
        case ArgumentType.LIST:
            return value if isinstance(value, list) else None
        case ArgumentType.STRINGS:
            fits = isinstance(value, list) and all(isinstance(item, str) for item in value)
            return value if fits else None
        case ArgumentType.QUANTITY:
            amount = None if isinstance(value, float) else parse_quantity(value)
            return value if amount is not None and amount >= 0 else None


def _is_int(value: object) -> bool:
    return (
        isinstance(value, int)
        and not isinstance(value, bool)
        and -_LARGEST_INT <= value < _LARGEST_INT
    )


def parsed_text(text: str, kind: ArgumentType) -> object:
    """A value written as text, as kube-batch's arguments are; None when it cannot be read."""
    match kind:
        case ArgumentType.INT | ArgumentType.FLOAT:
            try:
                number = int(text) if kind is ArgumentType.INT else float(text)
            except ValueError:
                return None
            return typed_value(number, kind)
        case ArgumentType.BOOL:
            return True if text in TRUE_TEXTS else False if text in FALSE_TEXTS else None
        case ArgumentType.MAP | ArgumentType.LIST | ArgumentType.STRINGS:
            return None
        case _:
            return typed_value(text, kind)
