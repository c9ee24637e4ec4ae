"""The operators, functions and methods of expressions."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from operator import add, ge, gt, le, lt, mul, sub
from typing import Any, TypeVar

from pumice.core.cel.values import KINDS, CelError, MapValue, Quantity, Semver, equal, kind_of
from pumice.patterns.automata import Pattern, PatternError

T = TypeVar("T", int, float)
_LARGEST_INT = 2**63
# The largest length of a text that an expression builds.
MAX_TEXT = 65_536


def whole(value: int) -> int:
    if not -_LARGEST_INT <= value < _LARGEST_INT:
        raise CelError("integer overflow")
    return value


# Operators.

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


# Functions and methods.


def call(name: str, arguments: list[object]) -> object:
    """A function, such as ``quantity("1Gi")``."""
    function = _FUNCTIONS.get((name, tuple(map(kind_of, arguments))))
    if function is None:
        raise _unknown(name, arguments)
    return function(*arguments)


def method(name: str, target: object, arguments: list[object]) -> object:
    """A method, such as ``text.startsWith("a")``."""
    function = _METHODS.get((kind_of(target), name, tuple(map(kind_of, arguments))))
    if function is None:
        raise _unknown(f"{kind_of(target)}.{name}", arguments)
    return function(target, *arguments)


def _unknown(name: str, arguments: list[object]) -> CelError:
    return CelError(f"{name}({', '.join(map(kind_of, arguments))}) is not supported")


def _same(value: object) -> object:
    return value


def _is(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except CelError:
            return False
        return True

    return check


def _to_int(value: Any) -> int:
    try:
        return whole(int(value))
    except (ValueError, OverflowError):
        raise CelError(f"{value!r} is not a whole number") from None


def _to_double(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise CelError(f"{value!r} is not a number") from None


def _compare(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _replaced(text: str, old: str, new: str) -> str:
    if len(text) + text.count(old) * len(new) > MAX_TEXT:
        raise CelError("the text is too long")
    return text.replace(old, new)


def _substring(text: str, begin: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= begin <= end <= len(text):
        raise CelError("index out of range")
    return text[begin:end]


def _as_integer(value: Quantity) -> int:
    if value.amount.denominator != 1:
        raise CelError("the quantity is not a whole number")
    return whole(value.amount.numerator)


@lru_cache(maxsize=1_000)
def _pattern(text: str) -> Pattern:
    try:
        return Pattern(text)
    except (PatternError, re.error) as error:
        raise CelError(f"the pattern {text!r} cannot be used: {error}") from None


def _matches(text: str, wanted: str) -> bool:
    return _pattern(wanted).is_in(text)


_SIZES: dict[str, Callable[[Any], int]] = {
    "string": len,
    "list": len,
    "map": lambda value: len(value.items),
}
_FUNCTIONS: dict[tuple[str, tuple[str, ...]], Callable[..., object]] = {
    ("quantity", ("string",)): Quantity.parse,
    ("isQuantity", ("string",)): _is(Quantity.parse),
    ("semver", ("string",)): Semver.parse,
    ("isSemver", ("string",)): _is(Semver.parse),
    ("matches", ("string", "string")): _matches,
    ("int", ("double",)): _to_int,
    ("int", ("string",)): _to_int,
    ("double", ("int",)): _to_double,
    ("double", ("string",)): _to_double,
    ("string", ("int",)): str,
    ("string", ("bool",)): lambda value: "true" if value else "false",
    **{(kind, (kind,)): _same for kind in ("int", "double", "string", "bool")},
    **{("dyn", (kind,)): _same for kind in KINDS},
    **{("size", (kind,)): size for kind, size in _SIZES.items()},
}
_TEXT = "string"
_METHODS: dict[tuple[str, str, tuple[str, ...]], Callable[..., object]] = {
    (_TEXT, "startsWith", (_TEXT,)): str.startswith,
    (_TEXT, "endsWith", (_TEXT,)): str.endswith,
    (_TEXT, "contains", (_TEXT,)): lambda text, part: part in text,
    (_TEXT, "matches", (_TEXT,)): _matches,
    (_TEXT, "lowerAscii", ()): lambda text: "".join(c.lower() if c.isascii() else c for c in text),
    (_TEXT, "upperAscii", ()): lambda text: "".join(c.upper() if c.isascii() else c for c in text),
    (_TEXT, "trim", ()): str.strip,
    (_TEXT, "split", (_TEXT,)): lambda text, by: tuple(text.split(by) if by else text),
    (_TEXT, "replace", (_TEXT, _TEXT)): _replaced,
    (_TEXT, "indexOf", (_TEXT,)): str.find,
    (_TEXT, "substring", ("int",)): _substring,
    (_TEXT, "substring", ("int", "int")): _substring,
    **{
        (kind, name, (kind,)): function
        for kind in ("quantity", "semver")
        for name, function in (
            ("compareTo", _compare),
            ("isGreaterThan", lambda left, right: left > right),
            ("isLessThan", lambda left, right: left < right),
        )
    },
    **{(kind, "size", ()): size for kind, size in _SIZES.items()},
    ("quantity", "sign", ()): lambda value: _compare(value.amount, 0),
    ("quantity", "isInteger", ()): lambda value: value.amount.denominator == 1,
    ("quantity", "asInteger", ()): _as_integer,
    ("quantity", "asApproximateFloat", ()): lambda value: float(value.amount),
    ("quantity", "add", ("quantity",)): lambda a, b: Quantity(a.amount + b.amount),
    ("quantity", "add", ("int",)): lambda a, b: Quantity(a.amount + b),
    ("quantity", "sub", ("quantity",)): lambda a, b: Quantity(a.amount - b.amount),
    ("quantity", "sub", ("int",)): lambda a, b: Quantity(a.amount - b),
    ("semver", "major", ()): lambda value: value.major,
    ("semver", "minor", ()): lambda value: value.minor,
    ("semver", "patch", ()): lambda value: value.patch,
}
