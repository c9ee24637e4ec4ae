"""Amounts of resources as people read them."""

from __future__ import annotations

_GIB, _MIB = 2**30, 2**20


def amount(resource: str, value: int) -> str:
    """An amount of the wire: cpu and extended resources are in thousandths."""
    if resource == "memory":
        return f"{value / _GIB:.1f}Gi" if abs(value) >= _GIB else f"{value / _MIB:.0f}Mi"
    if resource == "cpu" or "/" in resource:
        return f"{value / 1000:g}"
    return str(value)
