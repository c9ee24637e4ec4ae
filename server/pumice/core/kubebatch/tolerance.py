"""Comparisons of amounts with a tolerance, as kube-batch makes them.

An amount that is too small by less than the tolerance is enough, and an amount below the tolerance
counts as zero. The number of pods and ephemeral storage are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from pumice.core.model.resources import CPU, MEMORY, Number, Resources

_HUGE_PAGES = "hugepages-"
# Huge pages are counted in bytes here, and in thousandths of a byte by kube-batch.
_THOUSANDTHS = 1000
_VOLUMES = "attachable-volumes-"


# The tolerance for cpu, for memory, and for any other resource.
_MILLI_CPU, _MEMORY_BYTES, _MILLI_SCALAR = 10, 10 * 1024**2, 10


def tolerance_of(name: str) -> float:
    if name == CPU:
        return _MILLI_CPU
    if name == MEMORY:
        return _MEMORY_BYTES
    return _MILLI_SCALAR / _THOUSANDTHS if name.startswith(_HUGE_PAGES) else _MILLI_SCALAR


def is_empty(amounts: Resources) -> bool:
    return all(amount < tolerance_of(name) for name, amount in amounts.items())


def is_at_most(left: Resources, right: Resources) -> bool:
    """At most the right one in every dimension; scalars within the tolerance are ignored.

    A scalar that only the left one has is compared with zero.
    """
    for name, amount in left.items():
        tolerance = tolerance_of(name)
        if amount <= tolerance and name not in (CPU, MEMORY):
            continue
        other = right.get(name)
        if not (amount < other or abs(amount - other) < tolerance):
            return False
    return True


def is_less(left: Resources, right: Resources) -> bool:
    """Less than the right one in every dimension, strictly.

    Where the left one has no scalars, every scalar of the right one must be above the tolerance.
    """
    if not (left.milli_cpu < right.milli_cpu and left.memory < right.memory):
        return False
    if not left.scalars:
        return all(amount > tolerance_of(name) for name, amount in right.scalars.items())
    return bool(right.scalars) and all(
        amount < right.scalars.get(name, 0) for name, amount in left.scalars.items()
    )


def least(name: str, need: Number) -> Number | None:
    """The smallest whole amount that is enough for a need; None where any amount is."""
    tolerance = tolerance_of(name)
    if need <= tolerance and name not in (CPU, MEMORY):
        return None
    return need - ceil(tolerance) + 1


def counts(name: str) -> bool:
    """Whether kube-batch counts a resource: cpu, memory, huge pages and extended resources."""
    if name in (CPU, MEMORY) or name.startswith(_HUGE_PAGES):
        return True
    return "/" in name and not name.startswith(_VOLUMES)


def counted(amounts: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple((name, amount) for name, amount in amounts if counts(name))


def lesser(left: Resources, right: Resources) -> Resources:
    """The smaller amount of every dimension of the left one.

    Where either has no scalars at all, the result has none.
    """
    result = Resources(min(left.milli_cpu, right.milli_cpu), min(left.memory, right.memory))
    if left.scalars and right.scalars:
        result.scalars = {
            name: min(amount, right.scalars.get(name, 0)) for name, amount in left.scalars.items()
        }
    return result
