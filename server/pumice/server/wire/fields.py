"""Reads single fields; an error names the field and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from sys import intern
from typing import TypeVar

# Amounts of pods and nodes stand in float64 arrays, where integers are exact only below this.
EXACT_LIMIT = 2**53
# Totals and limits stay Python integers: whatever the wire can carry will do.
INT64_LIMIT = 2**63

Pairs = tuple[tuple[str, int], ...]
Number = TypeVar("Number", bound=int)
Choice = TypeVar("Choice", bound=Enum | str)


class FieldError(ValueError):
    """A field that cannot be read; the reader of the object turns it into an ObjectError."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


def check_named(uid: str, name: str) -> None:
    if not uid:
        raise FieldError("uid", "is empty; every object needs one")
    if not name:
        raise FieldError("name", "is empty; every object needs one")


def check_namespaced(uid: str, namespace: str, name: str) -> None:
    check_named(uid, name)
    if not namespace:
        raise FieldError("namespace", "is empty; every object of this kind needs one")


def filled(field: str, text: str) -> str:
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
    """Sorted, so that equal maps give equal values whatever their order in the message."""
    # Walking an empty map of a message costs as much as walking a small one.
    if not quantities:
        return ()
    pairs = tuple(sorted([(name, quantities[name]) for name in quantities]))
    for name, value in pairs:
        if not name:
            raise FieldError(field, "has a resource without a name")
        if not 0 <= value < limit:
            amount(f"{field}[{name}]", value, limit)
    return pairs


class UnknownValueError(FieldError):
    """An enum value that is newer than this core."""


def chosen(field: str, number: Number, choices: Mapping[Number, Choice]) -> Choice:
    """The meaning of an enum's number; a number without a meaning is an error."""
    try:
        return choices[number]
    except KeyError:
        allowed = ", ".join(f"{n} ({_choice_name(choices[n])})" for n in sorted(choices))
        problem = f"{number} has no meaning here; use one of {allowed}"
        kind = FieldError if number == 0 else UnknownValueError
        raise kind(field, problem) from None


def _choice_name(choice: Enum | str) -> str:
    return choice or "unspecified" if isinstance(choice, str) else choice.name


def texts(held: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted([(key, held[key]) for key in held])) if held else ()


def plain(held: Mapping[str, str]) -> dict[str, str]:
    return {key: held[key] for key in held} if held else {}


def interned(held: Mapping[str, str]) -> dict[str, str]:
    """For maps whose keys and values many objects share."""
    return {intern(key): intern(held[key]) for key in held} if held else {}
