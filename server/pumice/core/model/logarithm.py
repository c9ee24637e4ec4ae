"""The natural logarithm from plain arithmetic: the same bits on every machine.

The platform's logarithm may differ in the last bit, and so may a rounded score.
"""

from __future__ import annotations

from math import frexp, sqrt

_HALF_ROOT = sqrt(2) / 2
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# The series in s = f / (2 + f) for log(1 + f), odd and even terms apart; the well-known
# coefficients of fdlibm, which Go's standard library uses too.
_ODD = (6.666666666666735130e-01, 2.857142874366239149e-01, 1.818357216161805012e-01,
        1.479819860511658591e-01)  # fmt: skip
_EVEN = (3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01)


def natural_log(x: float) -> float:
    """For numbers above zero."""
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
