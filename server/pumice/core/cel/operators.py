"""What operators do to values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pumice.core.cel.errors import CelError
from pumice.core.cel.functions import MAX_TEXT, whole
from pumice.core.cel.values import MapValue, equal, kind_of

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


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


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
        return whole(_of_integers(sign, left, right))
    if kinds == ("double", "double") and sign != "%":
        return _of_doubles(sign, left, right)
    raise CelError(f"{kinds[0]} {sign} {kinds[1]} is not supported")


def _of_integers(sign: str, left: int, right: int) -> int:
    if sign in "/%" and right == 0:
        raise CelError("division by zero")
    match sign:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case _:
            # Towards zero, as in Go.
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return quotient if sign == "/" else left - quotient * right


def _of_doubles(sign: str, left: float, right: float) -> float:
    match sign:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case _:
            if right == 0:
                raise CelError("division by zero")
            return left / right
