"""Kubernetes quantities in the units of the protocol."""

from __future__ import annotations

from typing import Final

from pumice.manifests.errors import FieldError
from pumice.patterns.quantities import MAX_INT64, parse_nanos, thousandths, whole

__all__ = [
    "MAX_INT64",
    "Quantity",
    "milli_value",
    "nanos",
    "saturated_milli_value",
    "thousandths",
    "value",
    "whole",
]

# The JSON types of a quantity.
Quantity = str | int | float

MIN_INT64: Final = -(2**63)

ALLOWED: Final = (
    "a number with an optional suffix n u m k M G T P E Ki Mi Gi Ti Pi Ei or exponent such as e3"
)


def nanos(quantity: Quantity) -> int:
    """The amount in billionths of a unit."""
    text = quantity if isinstance(quantity, str) else _as_text(quantity)
    try:
        amount = parse_nanos(text)
    except OverflowError:
        raise _out_of_range(text) from None
    if amount is None:
        raise FieldError("", f"{text[:80]!r} is not a quantity", ALLOWED)
    return amount


def value(quantity: Quantity) -> int:
    """The amount in whole units, rounded up; it must fit in 64 bits."""
    return _fitting(quantity, whole(nanos(quantity)))


def milli_value(quantity: Quantity) -> int:
    """The amount in thousandths, rounded up; it must fit in 64 bits."""
    return _fitting(quantity, thousandths(nanos(quantity)))


def saturated_milli_value(quantity: Quantity) -> int:
    """The amount in thousandths, clamped to 64 bits; the maximum acts as no limit."""
    return max(MIN_INT64, min(MAX_INT64, thousandths(nanos(quantity))))


def _as_text(quantity: int | float) -> str:
    if isinstance(quantity, bool):
        raise FieldError("", f"{quantity} is not a quantity", ALLOWED)
    # repr() is the shortest text for the number, as a person would write it.
    return repr(quantity)


def _fitting(quantity: Quantity, amount: int) -> int:
    if not MIN_INT64 <= amount <= MAX_INT64:
        raise _out_of_range(str(quantity))
    return amount


def _out_of_range(text: str) -> FieldError:
    return FieldError("", f"{text[:80]!r} is too large", "an amount that fits in 64 bits")
