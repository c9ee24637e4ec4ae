"""Amounts of resources in the units that people read."""

from __future__ import annotations

_GIB, _MIB = 2**30, 2**20


def amount(resource: str, value: int) -> str:
    """An amount of the protocol as text: ``1.5`` CPUs, ``2.0Gi`` of memory, ``3`` pods."""
    if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-"):
        return f"{value / _GIB:.1f}Gi" if abs(value) >= _GIB else f"{value / _MIB:.0f}Mi"
    if resource == "pods" or resource.startswith("attachable-volumes-"):
        return str(value)
    # CPUs and extended resources are in thousandths.
    return f"{value / 1000:g}"
