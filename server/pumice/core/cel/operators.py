"""What operators do to values."""

from __future__ import annotations

from collections.abc import Callable
from operator import add, ge, gt, le, lt, mul, sub
from typing import Any, TypeVar

from pumice.core.cel.functions import MAX_TEXT, whole
from pumice.core.cel.values import CelError, MapValue, equal, kind_of

T = TypeVar("T", int, float)
_NUMBERS = ("int", "double")
_ORDERED = ("int", "double", "string", "bool")


def operate(sign: str, left: Any, right: Any) -> object:
    match sign:
        case "==":
            return equal(left, right)
        case "!=":
            return not equal(left, right)
        case "in":
            return _is_in(left, right)
        case "<" | "<=" | ">" | ">=":
            return _ordered(sign, left, right)
        case _:
            return _computed(sign, left, right)


def _is_in(left: object, right: object) -> bool:
    if isinstance(right, tuple):
        return any(equal(left, item) for item in right)
    if isinstance(right, MapValue):
        return left in right.items
    raise CelError(f"in {kind_of(right)} is not supported")


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
_SIMPLE: dict[str, Callable[[Any, Any], Any]] = {"+": add, "-": sub, "*": mul}


def _ordered(sign: str, left: Any, right: Any) -> bool:
    kinds = {kind_of(left), kind_of(right)}
    if kinds <= set(_NUMBERS) or (len(kinds) == 1 and kinds <= set(_ORDERED)):
        return _COMPARISONS[sign](left, right)
    raise CelError(f"{kind_of(left)} {sign} {kind_of(right)} is not supported")


def _computed(sign: str, left: Any, right: Any) -> object:
    kinds = (kind_of(left), kind_of(right))
    if sign == "+" and kinds == ("string", "string"):
        if len(left) + len(right) > MAX_TEXT:
            raise CelError("the text is too long")
        return left + right
    if sign == "+" and kinds == ("list", "list"):
        return left + right
    if kinds == ("int", "int"):
        return whole(_SIMPLE[sign](left, right) if sign in _SIMPLE else _divided(sign, left, right))
    if kinds == ("double", "double") and sign != "%":
        return _SIMPLE[sign](left, right) if sign in _SIMPLE else left / _divisor(right)
    raise CelError(f"{kinds[0]} {sign} {kinds[1]} is not supported")


def _divided(sign: str, left: int, right: int) -> int:
    # Towards zero, as in Go.
    quotient = abs(left) // abs(_divisor(right)) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if sign == "/" else left - quotient * right


def _divisor(number: T) -> T:
    if number == 0:
        raise CelError("division by zero")
    return number
