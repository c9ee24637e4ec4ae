"""Quantities as Kubernetes writes them, in the engine's units."""

from __future__ import annotations

from collections.abc import Mapping

from pumice.core.model.resources import CPU, MEMORY, PODS
from pumice.patterns.quantities import parse_nanos, thousandths, whole

# Amounts of extended resources, and of capacities and counters of devices, are in thousandths.
THOUSAND = 1000
_WHOLE = (MEMORY, PODS, "ephemeral-storage")
_WHOLE_PREFIXES = ("attachable-volumes-", "hugepages-")


def whole_units(amount: int) -> int:
    """Thousandths as whole units, rounded up, as ``Value`` of a quantity in Kubernetes does."""
    return -(-amount // THOUSAND)


def quantity_nanos(value: object) -> int | None:
    """A number, or a text such as ``250m`` or ``1.5Gi``, in billionths; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return parse_nanos(value if isinstance(value, str) else repr(value))
    except OverflowError:
        return None


def parse_amounts(listed: object) -> dict[str, int] | None:
    """A resource list in the units of ``PodSpec.requests``; None where it cannot be read."""
    if not isinstance(listed, Mapping):
        return None
    amounts: dict[str, int] = {}
    for name, value in listed.items():
        nanos = quantity_nanos(value)
        if nanos is None or not isinstance(name, str):
            return None
        counted = name in _WHOLE or name.startswith(_WHOLE_PREFIXES)
        if counted or name == CPU or "/" in name:
            amounts[name] = whole(nanos) if counted else thousandths(nanos)
    return amounts
