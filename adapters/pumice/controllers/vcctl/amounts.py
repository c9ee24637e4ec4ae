"""Amounts of resources as Kubernetes writes them."""

from typing import Final

from pumice.manifests.errors import FieldError
from pumice.manifests.quantities import nanos

_NANO: Final = 10**9
# Units from the largest on, with their sizes.
_BINARY: Final = tuple(
    (f"{letter}i", 1024**power) for power, letter in zip(range(6, 0, -1), "EPTGMK", strict=True)
)
_DECIMAL: Final = tuple(
    (letter, 10**power)
    for power, letter in zip(range(27, -1, -3), (*"EPTGMk", "", *"mun"), strict=True)
)


def shown_amount(amount: str | int | float) -> str:
    """The amount in the largest unit that leaves a whole number."""
    try:
        billionths = nanos(amount)
    except FieldError:
        return str(amount)
    if billionths == 0:
        return "0"
    value, rest = divmod(billionths, _NANO)
    if str(amount).endswith("i") and value >= 1024 and not rest:
        return _in_units(value, (*_BINARY, ("", 1)))
    return _in_units(billionths, _DECIMAL)


def _in_units(value: int, units: tuple[tuple[str, int], ...]) -> str:
    unit, size = next(one for one in units if value % one[1] == 0)
    return f"{value // size}{unit}"
