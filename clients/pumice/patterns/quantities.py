"""Parses Kubernetes quantities to integers in billionths.

Kubernetes keeps nine decimal places and rounds further ones away from zero. Conversions to whole
units or thousandths round the same way.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

MAX_INT64: Final = 2**63 - 1

_NANO: Final = 10**9
_MILLI: Final = 10**6
_DECIMAL_SUFFIXES: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

_PATTERN: Final = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+)|([KMGTPE]i|[numkMGTPE])?)", re.ASCII
)
# Longer than any valid amount; the limit protects the parser from hostile input.
_LONGEST: Final = 256
# Larger powers of ten are out of range for any number but zero; smaller ones round up to 1 n.
_LARGEST_POWER: Final = 2 * _LONGEST


@lru_cache(maxsize=1 << 16)
def parse_nanos(text: str) -> int | None:
    """The amount in billionths of a unit; None for text that is not a quantity.

    Raises OverflowError for an amount that is out of range.
    """
    match = _PATTERN.fullmatch(text) if len(text) <= _LONGEST else None
    # Kubernetes parses a suffix without digits as zero; its documented grammar forbids it, as we do.
    if match is None or not (match[2] or match[3]):
        return None
    sign, units, decimals, exponent, suffix = match.groups(default="")
    digits = int(units + decimals)
    if suffix in _BINARY_SUFFIXES:
        exact = (digits << _BINARY_SUFFIXES[suffix]) * _NANO
        # Only binary quantities have a maximum in Kubernetes.
        magnitude = min(_divided(exact, 10 ** len(decimals)), MAX_INT64 * _NANO)
    else:
        power = int(exponent) if exponent else _DECIMAL_SUFFIXES[suffix]
        magnitude = _scaled(digits, power + 9 - len(decimals))
    return -magnitude if sign == "-" else magnitude


def _scaled(digits: int, power: int) -> int:
    """Digits times a power of ten, rounded up, so that a small amount does not become zero."""
    if digits == 0:
        return 0
    if power > _LARGEST_POWER:
        raise OverflowError
    ten: int = 10 ** min(abs(power), _LARGEST_POWER)
    return digits * ten if power >= 0 else _divided(digits, ten)


def whole(billionths: int) -> int:
    """Converts billionths to whole units, rounded away from zero."""
    return _divided(billionths, _NANO)


def thousandths(billionths: int) -> int:
    """Converts billionths to thousandths, rounded away from zero."""
    return _divided(billionths, _MILLI)


def _divided(amount: int, by: int) -> int:
    return amount // by if amount < 0 else -(-amount // by)
