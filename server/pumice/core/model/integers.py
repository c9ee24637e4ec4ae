"""Decimal integers in texts, as Go reads them."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}\Z")
_INT64 = range(-(2**63), 2**63)


def as_integer(text: str) -> int | None:
    """A decimal number of 64 bits; Python would take more for one, such as ``1_000``."""
    if not _INTEGER.match(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


_LOW_BITS = 26
# From here on not every amount is an int64, and sums of parts may be too large for one.
_LARGE = 2.0**62


def exact_sums(amounts: NDArray[np.float64]) -> list[int]:
    """The sum of each row of whole numbers; a sum, and a number too, may be larger than 2^63."""
    if amounts.size and np.abs(amounts).max() >= _LARGE:
        return [sum(map(int, row)) for row in amounts.tolist()]
    whole = amounts.astype(np.int64)
    high = (whole >> _LOW_BITS).sum(axis=1).tolist()
    low = (whole & ((1 << _LOW_BITS) - 1)).sum(axis=1).tolist()
    return [(h << _LOW_BITS) + part for h, part in zip(high, low, strict=True)]
