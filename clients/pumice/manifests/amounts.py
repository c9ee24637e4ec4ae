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

# A resource list as a manifest has it, and the same in billionths.
ResourceList = Mapping[str, Quantity]
Billionths = Mapping[str, int]

_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


def billionths(resources: ResourceList, field: str) -> dict[str, int]:
    """All amounts in billionths; a negative amount is an error."""
    return {
        name: _not_negative(nanos, name, quantity, field) for name, quantity in resources.items()
    }


def milli_amounts(resources: ResourceList, field: str) -> dict[str, int]:
    """All amounts in thousandths of their units, as namespace quotas compare them."""
    return {
        name: _not_negative(saturated_milli_value, name, quantity, field)
        for name, quantity in resources.items()
    }


def amounts(resources: ResourceList, field: str) -> dict[str, int]:
    """The amounts that scheduling counts, in the units of the protocol."""
    return counted(billionths(resources, field), field)


def counted(exact: Billionths, field: str) -> dict[str, int]:
    """The amounts that scheduling counts, rounded up to the units of the protocol."""
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
    # Volcano counts volumes that can be attached by the piece, whatever a node publishes. It counts
    # storage and huge pages in thousandths of a byte, which no decision depends on and which would
    # put a disk of nine terabytes beyond exact arithmetic.
    if name in {MEMORY, PODS, EPHEMERAL_STORAGE} or name.startswith(_COUNTED_WHOLE):
        return whole
    if name == CPU or is_scalar(name):
        return thousandths
    return None


def is_scalar(name: str) -> bool:
    """Whether scheduling counts an extended resource."""
    if name.startswith("count/"):
        return False
    return (
        name.startswith((HUGE_PAGES_PREFIX, ATTACHABLE_VOLUMES_PREFIX))
        or "kubernetes.io/" in name
        or is_extended(name)
    )


def is_extended(name: str) -> bool:
    """Whether the name is one of an extended resource, as device plugins offer them."""
    if "/" not in name or name.startswith("requests."):
        return False
    prefix, _, rest = name.partition("/")
    # Kubernetes asks whether a quota for it could be named, which takes nine letters.
    return (
        len(prefix) <= 253 - len("requests.")
        and len(rest) <= 63
        and _PREFIX.fullmatch(prefix) is not None
        and _NAME.fullmatch(rest) is not None
    )
