"""Values beyond those of Python: quantities, semantic versions, and maps with defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import total_ordering

from pumice.core.cel.errors import CelError

_QUANTITY = re.compile(
    r"([-+]?)(\d+(?:\.\d*)?|\.\d+)(?:([eE][-+]?\d{1,3})|([KMGTPE]i|[numkMGTPE]))?", re.A
)
_MOST_DIGITS = 64
_SCALES: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(1000),
    **{mark: Fraction(1000**power) for power, mark in enumerate("MGTPE", start=2)},
    **{f"{mark}i": Fraction(1024**power) for power, mark in enumerate("KMGTPE", start=1)},
}


@total_ordering
@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount as Kubernetes writes it, exactly."""

    amount: Fraction

    @classmethod
    def parse(cls, text: str) -> Quantity:
        match = _QUANTITY.fullmatch(text) if len(text) <= _MOST_DIGITS else None
        if match is None:
            raise CelError(f"{text!r} is no quantity")
        sign, digits, exponent, suffix = match.groups()
        scale = Fraction(10) ** int(exponent[1:]) if exponent else _SCALES[suffix or ""]
        return cls(Fraction(f"{sign}{digits}") * scale)

    def __lt__(self, other: Quantity) -> bool:
        return self.amount < other.amount


_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?",
    re.A,
)
_PreRelease = tuple[tuple[int, int, str], ...]


@total_ordering
@dataclass(frozen=True, slots=True)
class Semver:
    """A semantic version; build metadata does not count."""

    major: int
    minor: int
    patch: int
    # Parts of the pre-release: numbers come before words.
    pre: _PreRelease = field(default=())

    @classmethod
    def parse(cls, text: str) -> Semver:
        match = _SEMVER.fullmatch(text) if len(text) <= _MOST_DIGITS else None
        if match is None:
            raise CelError(f"{text!r} is no semantic version")
        parts = match.group(4).split(".") if match.group(4) else []
        pre = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts)
        return cls(int(match.group(1)), int(match.group(2)), int(match.group(3)), pre)

    def __lt__(self, other: Semver) -> bool:
        return self._key() < other._key()

    def _key(self) -> tuple[int, int, int, bool, _PreRelease]:
        return (self.major, self.minor, self.patch, not self.pre, self.pre)


@dataclass(frozen=True, slots=True)
class MapValue:
    """A map; with a default, any key can be looked up."""

    items: Mapping[object, object]
    default: object = None
    has_default: bool = False

    def get(self, key: object) -> object:
        if key in self.items:
            return self.items[key]
        if self.has_default:
            return self.default
        raise CelError(f"no such key: {key}")


def kind_of(value: object) -> str:
    """The type of a value, by its name in CEL."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "double"
        case str():
            return "string"
        case tuple():
            return "list"
        case MapValue():
            return "map"
        case Quantity():
            return "quantity"
        case Semver():
            return "semver"
        case _:
            return type(value).__name__


def equal(left: object, right: object) -> bool:
    """Values of different types are not equal; numbers are compared by what they are worth."""
    kinds = {kind_of(left), kind_of(right)}
    if kinds == {"int", "double"}:
        return left == right
    if len(kinds) > 1:
        return False
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    return left == right
