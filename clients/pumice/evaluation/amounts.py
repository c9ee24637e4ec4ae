"""Amounts of resources in readable units."""

from __future__ import annotations

_WHOLE = ("memory", "pods", "ephemeral-storage")
_WHOLE_PREFIXES = ("hugepages-", "attachable-volumes-")
_GIB = 1024**3


def in_units(name: str, amount: int) -> float:
    """Converts an amount of the protocol to cores, GiB or units."""
    if is_bytes(name):
        return amount / _GIB
    if name in _WHOLE or name.startswith(_WHOLE_PREFIXES):
        return float(amount)
    return amount / 1000


def is_bytes(name: str) -> bool:
    return name in ("memory", "ephemeral-storage") or name.startswith("hugepages-")


def unit_of(name: str) -> str:
    """The unit of an amount that ``in_units`` returns."""
    if name == "cpu":
        return "core"
    return "GiB" if is_bytes(name) else "unit"
