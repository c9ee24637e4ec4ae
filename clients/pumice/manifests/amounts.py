"""Resource lists in the units of the protocol, without resources that scheduling ignores."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from pumice.manifests.errors import FieldError
from pumice.manifests.quantities import (
    MAX_INT64,
    Quantity,
    nanos,
    saturated_milli_value,
    thousandths,
    whole,
)

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
HUGE_PAGES_PREFIX: Final = "hugepages-"
ATTACHABLE_VOLUMES_PREFIX: Final = "attachable-volumes-"

_COUNTED_WHOLE: Final = (ATTACHABLE_VOLUMES_PREFIX, HUGE_PAGES_PREFIX)

# A resource list of a manifest, and a resource list in billionths.
ResourceList = Mapping[str, Quantity]
Billionths = Mapping[str, int]

_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


def billionths(resources: ResourceList, field: str) -> dict[str, int]:
    """All amounts in billionths. Raises FieldError for a negative amount."""
    return {
        name: _not_negative(nanos, name, quantity, field) for name, quantity in resources.items()
    }


def milli_amounts(resources: ResourceList, field: str) -> dict[str, int]:
    """All amounts in thousandths, the unit in which namespace quotas are compared."""
    return {
        name: _not_negative(saturated_milli_value, name, quantity, field)
        for name, quantity in resources.items()
    }


def amounts(resources: ResourceList, field: str) -> dict[str, int]:
    """The amounts of resources that scheduling counts, in the units of the protocol."""
    return counted(billionths(resources, field), field)


def counted(exact: Billionths, field: str) -> dict[str, int]:
    """The amounts of resources that scheduling counts, rounded up to the units of the protocol."""
    result: dict[str, int] = {}
    for name, amount in exact.items():
        convert = _conversion(name)
        if convert is not None:
            result[name] = fitting(name, convert(amount), field)
    return result


def fitting(name: str, amount: int, field: str) -> int:
    if amount > MAX_INT64:
        raise FieldError(f"{field}[{name}]", "is too large", "an amount that fits in 64 bits")
    return amount


def _not_negative(
    convert: Callable[[Quantity], int], name: str, quantity: Quantity, field: str
) -> int:
    try:
        amount = convert(quantity)
    except FieldError as error:
        raise error.under(f"{field}[{name}]") from None
    if amount < 0:
        raise FieldError(f"{field}[{name}]", f"{quantity} is negative", "zero or more")
    return amount


@lru_cache(maxsize=4096)
def _conversion(name: str) -> Callable[[int], int] | None:
    # Volcano counts attachable volumes in whole numbers, whatever a node publishes. It counts
    # storage and huge pages in thousandths of a byte; no decision depends on this, and a disk of
    # nine terabytes would exceed exact arithmetic.
    if name in {MEMORY, PODS, EPHEMERAL_STORAGE} or name.startswith(_COUNTED_WHOLE):
        return whole
    if name == CPU or is_scalar(name):
        return thousandths
    return None


def is_scalar(name: str) -> bool:
    """Whether scheduling counts a resource other than cpu, memory, pods and ephemeral storage."""
    if name.startswith("count/"):
        return False
    return (
        name.startswith((HUGE_PAGES_PREFIX, ATTACHABLE_VOLUMES_PREFIX))
        or "kubernetes.io/" in name
        or is_extended(name)
    )


def is_extended(name: str) -> bool:
    """Whether this is the name of an extended resource, such as device plugins advertise."""
    if "/" not in name or name.startswith("requests."):
        return False
    prefix, _, rest = name.partition("/")
    # Kubernetes also requires a valid quota name, which has a prefix of nine characters.
    return (
        len(prefix) <= 253 - len("requests.")
        and len(rest) <= 63
        and _PREFIX.fullmatch(prefix) is not None
        and _NAME.fullmatch(rest) is not None
    )
