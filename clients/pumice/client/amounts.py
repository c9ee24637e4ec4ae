"""Amounts of resources as readable text."""

from __future__ import annotations

_GIB, _MIB = 2**30, 2**20


def amount(resource: str, value: int) -> str:
    """An amount of the protocol as text: ``1.5`` CPUs, ``2Gi`` of memory, ``3`` pods."""
    if resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-"):
        unit, name = (_GIB, "Gi") if abs(value) >= _GIB else (_MIB, "Mi")
        return f"{round(value / unit, 1):.10g}{name}"
    if resource == "pods" or resource.startswith("attachable-volumes-"):
        return str(value)
    # CPUs and extended resources are in thousandths.
    return f"{value / 1000:g}"
