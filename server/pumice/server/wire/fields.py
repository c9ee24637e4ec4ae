"""Reads and checks single fields."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from sys import intern
from typing import Any, TypeVar

from pumice.v1 import condition_pb2

# Amounts of pods and nodes are in float64 arrays, which hold integers exactly only below this.
EXACT_LIMIT = 2**53
# Totals and limits are Python integers, so any int64 is allowed.
INT64_LIMIT = 2**63

# Kubernetes' words for the status of a condition.
CONDITION_STATUSES = {
    condition_pb2.CONDITION_STATUS_UNSPECIFIED: "",
    condition_pb2.CONDITION_STATUS_TRUE: "True",
    condition_pb2.CONDITION_STATUS_FALSE: "False",
    condition_pb2.CONDITION_STATUS_UNKNOWN: "Unknown",
}
CONDITION_STATUS_NUMBERS = {word: number for number, word in CONDITION_STATUSES.items()}

Pairs = tuple[tuple[str, int], ...]
Number = TypeVar("Number", bound=int)
Choice = TypeVar("Choice", bound=Enum | str)


class FieldError(ValueError):
    """An invalid field. The reader of the object converts it to an ObjectError."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


def check_identity(message: Any) -> None:
    """Checks that an object has a uid, a name and, if its kind has namespaces, a namespace."""
    if not message.uid:
        raise FieldError("uid", "is empty; every object needs one")
    if not message.name:
        raise FieldError("name", "is empty; every object needs one")
    if not getattr(message, "namespace", True):
        raise FieldError("namespace", "is empty; every object of this kind needs one")


def non_empty(field: str, text: str) -> str:
    if not text:
        raise FieldError(field, "is empty")
    return text


def at_least(field: str, value: int, least: int) -> int:
    if value < least:
        raise FieldError(field, f"{value} is below {least}")
    return value


def amount(field: str, value: int, limit: int = INT64_LIMIT) -> int:
    if 0 <= value < limit:
        return value
    if value < 0:
        raise FieldError(field, f"{value} is negative; use 0 or more")
    raise FieldError(field, f"{value} is too large to be exact; the largest is {limit - 1}")


def amounts(field: str, quantities: Mapping[str, int], limit: int = INT64_LIMIT) -> Pairs:
    """The amounts sorted by name, so that equal maps have equal values."""
    # Iterating over an empty map of a message costs as much as over a small one.
    if not quantities:
        return ()
    pairs = tuple(sorted([(name, quantities[name]) for name in quantities]))
    for name, value in pairs:
        if not name:
            raise FieldError(field, "contains a resource without a name")
        if not 0 <= value < limit:
            amount(f"{field}[{name}]", value, limit)
    return pairs


class UnknownValueError(FieldError):
    """An enum value that this core does not know."""


def enum_value(field: str, number: Number, choices: Mapping[Number, Choice]) -> Choice:
    """The value for the number of an enum. Raises FieldError for an unknown number."""
    try:
        return choices[number]
    except KeyError:
        allowed = ", ".join(f"{n} ({_choice_name(choices[n])})" for n in sorted(choices))
        problem = f"{number} is not a known value; use one of {allowed}"
        kind = FieldError if number == 0 else UnknownValueError
        raise kind(field, problem) from None


def _choice_name(choice: Enum | str) -> str:
    return choice or "unspecified" if isinstance(choice, str) else choice.name


def sorted_texts(held: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted([(key, held[key]) for key in held])) if held else ()


def plain_dict(held: Mapping[str, str]) -> dict[str, str]:
    return {key: held[key] for key in held} if held else {}


def interned(held: Mapping[str, str]) -> dict[str, str]:
    """A copy with interned keys and values, for maps that many objects share."""
    return {intern(key): intern(held[key]) for key in held} if held else {}
