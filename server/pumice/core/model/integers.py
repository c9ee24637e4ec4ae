"""Exact arithmetic: counts and sums, and a logarithm with the same bits everywhere."""

from __future__ import annotations

from math import frexp, sqrt
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

K = TypeVar("K")
V = TypeVar("V")


def add_amount(amounts: dict[K, Any], key: K, amount: int | float) -> None:
    """Adds an amount, which may be negative, to the amount of a key; at zero the key is removed."""
    total = amounts.get(key, 0) + amount
    if total:
        amounts[key] = total
    else:
        amounts.pop(key, None)


def change_member(groups: dict[K, dict[str, V]], key: K, uid: str, item: V, sign: int) -> None:
    """Adds an item to a group (1), or removes it (-1); a group without items is removed."""
    if sign > 0:
        groups.setdefault(key, {})[uid] = item
    elif (group := groups.get(key)) is not None:
        group.pop(uid, None)
        if not group:
            del groups[key]


_LOW_BITS = 26
# Amounts from here on may not fit into an int64, and neither may their partial sums.
_LARGE = 2.0**62


def exact_sums(amounts: NDArray[np.float64]) -> list[int]:
    """The exact sum of each row of whole numbers; numbers and sums may exceed 2^63."""
    if amounts.size and np.abs(amounts).max() >= _LARGE:
        return [sum(map(int, row)) for row in amounts.tolist()]
    whole = amounts.astype(np.int64)
    high = (whole >> _LOW_BITS).sum(axis=1).tolist()
    low = (whole & ((1 << _LOW_BITS) - 1)).sum(axis=1).tolist()
    return [(h << _LOW_BITS) + part for h, part in zip(high, low, strict=True)]


_HALF_ROOT = sqrt(2) / 2
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# The platform's logarithm may differ in the last bit, and so may a rounded score.
# The series in s = f / (2 + f) for log(1 + f), odd and even terms apart; the well-known
# coefficients of fdlibm, which Go's standard library uses too.
_ODD = (6.666666666666735130e-01, 2.857142874366239149e-01, 1.818357216161805012e-01,
        1.479819860511658591e-01)  # fmt: skip
_EVEN = (3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01)


def natural_log(x: float) -> float:
    """The natural logarithm of a positive number."""
    fraction, exponent = frexp(x)
    if fraction < _HALF_ROOT:
        fraction *= 2
        exponent -= 1
    f = fraction - 1
    s = f / (2 + f)
    s2 = s * s
    s4 = s2 * s2
    odd = s2 * (_ODD[0] + s4 * (_ODD[1] + s4 * (_ODD[2] + s4 * _ODD[3])))
    even = s4 * (_EVEN[0] + s4 * (_EVEN[1] + s4 * _EVEN[2]))
    half = 0.5 * f * f
    return exponent * _LN2_HIGH - ((half - (s * (half + (odd + even)) + exponent * _LN2_LOW)) - f)
