"""Values that Python lacks: quantities, semantic versions, and maps with defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import total_ordering
from types import NoneType

from pumice.core.model.quantities import quantity_nanos

# The largest length of a semantic version.
_MOST_DIGITS = 64


class CelError(ValueError):
    """An error of an expression, or of a value that it reads."""


@total_ordering
@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount as Kubernetes writes it."""

    amount: Fraction

    @classmethod
    def parse(cls, text: str) -> Quantity:
        nanos = quantity_nanos(text)
        if nanos is None:
            raise CelError(f"{text!r} is not a quantity")
        return cls(Fraction(nanos, 10**9))

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
            raise CelError(f"{text!r} is not a semantic version")
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

    def get(self, key: object) -> object:
        found = self.items.get(key, self.default)
        if found is None and key not in self.items:
            raise CelError(f"no such key: {key}")
        return found


_KINDS: dict[type, str] = {
    NoneType: "null",
    bool: "bool",
    int: "int",
    float: "double",
    str: "string",
    tuple: "list",
    MapValue: "map",
    Quantity: "quantity",
    Semver: "semver",
}


# The names of all types in CEL.
KINDS = tuple(_KINDS.values())


def kind_of(value: object) -> str:
    """The type of a value, by its name in CEL."""
    return _KINDS.get(type(value), type(value).__name__)


def equal(left: object, right: object) -> bool:
    """Compares two values. Values of different types are not equal, except numbers."""
    kinds = {kind_of(left), kind_of(right)}
    if kinds == {"int", "double"}:
        return left == right
    if len(kinds) > 1:
        return False
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    return left == right
