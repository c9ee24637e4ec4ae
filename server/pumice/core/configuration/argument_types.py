"""Types and limits of the arguments of plugins and actions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import isfinite

from pumice.core.model.quantities import quantity_nanos
from pumice.patterns.golang import parse_bool, parse_duration_ns

# Booleans of YAML 1.1 that Go's reader knows and Python's leaves as text.
_YAML_FLAGS: Mapping[str, bool] = {"y": True, "Y": True, "n": False, "N": False}
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

    Volcano silently replaces a value out of range by the default; here such a value is a problem. With
    ``lenient`` it is a warning, because Volcano uses such a value, with a surprising effect.
    """

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    # A regular expression that the whole text must match, and its description for messages.
    pattern: str = ""
    form: str = ""
    lenient: bool = False
    # What a value out of range does, or what Volcano would use instead.
    otherwise: str = ""

    def why_not(self, value: object) -> str | None:
        """What is wrong with a value of the right type; None: nothing. Durations count in seconds."""
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
    """A boolean of YAML 1.1; None for anything else, such as a quoted "false"."""
    if isinstance(value, str):
        return _YAML_FLAGS.get(value)
    return value if isinstance(value, bool) else None


def typed_value(value: object, kind: ArgumentType) -> object:
    """The value in its type; None where it is not of that type."""
    if kind is not ArgumentType.BOOL:
        return value if _is_of(value, kind) else None
    flag = parse_bool(value) if isinstance(value, str) else None
    return as_flag(value) if flag is None else flag


def _is_of(value: object, kind: ArgumentType) -> bool:
    match kind:
        case ArgumentType.INT:
            return _is_int(value)
        case ArgumentType.FLOAT:
            return _is_int(value) or (isinstance(value, float) and isfinite(value))
        case ArgumentType.DURATION:
            return isinstance(value, str) and parse_duration_ns(value) is not None
        case ArgumentType.MAP:
            return isinstance(value, Mapping)
        case ArgumentType.LIST:
            return isinstance(value, list)
        case ArgumentType.STRINGS:
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case ArgumentType.QUANTITY:
            nanos = None if isinstance(value, float) else quantity_nanos(value)
            return nanos is not None and nanos >= 0
        case _:
            return isinstance(value, str)


def _is_int(value: object) -> bool:
    return type(value) is int and -_LARGEST_INT <= value < _LARGEST_INT


def parsed_text(text: str, kind: ArgumentType) -> object:
    """A value written as text, as kube-batch's arguments are; None when it cannot be read."""
    if kind is ArgumentType.BOOL:
        return parse_bool(text)
    if kind not in (ArgumentType.INT, ArgumentType.FLOAT):
        return typed_value(text, kind)
    try:
        return typed_value(int(text) if kind is ArgumentType.INT else float(text), kind)
    except ValueError:
        return None
