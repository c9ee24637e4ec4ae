"""Quantities as Kubernetes writes them, in the engine's units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from pumice.core.model.resources import CPU, MEMORY, PODS

_SUFFIXES: Mapping[str, Fraction] = {
    **{name: Fraction(1000) ** power for power, name in enumerate(("", "k", *"MGTPE"))},
    **{f"{name}i": Fraction(1024) ** power for power, name in enumerate("KMGTPE", 1)},
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
}
_PATTERN = re.compile(
    r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,2})|([KMGTPE]i|[numkMGTPE])?)", re.ASCII
)
# Far more characters than any amount has.
_LONGEST = 64
_WHOLE = (MEMORY, PODS, "ephemeral-storage")
_WHOLE_PREFIXES = ("attachable-volumes-", "hugepages-")


def parse_quantity(value: object) -> Fraction | None:
    """A number, or a text such as ``250m`` or ``1.5Gi``, exactly; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    text = value if isinstance(value, str) else repr(value)
    match = _PATTERN.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    sign, digits, exponent, suffix = match.groups(default="")
    amount = Fraction(digits) * (Fraction(10) ** int(exponent) if exponent else _SUFFIXES[suffix])
    return -amount if sign == "-" else amount


def rounded_up(amount: Fraction) -> int:
    """The next whole number away from zero, as Kubernetes rounds."""
    return -(-amount.numerator // amount.denominator) if amount >= 0 else -rounded_up(-amount)


def parse_amounts(listed: object) -> dict[str, int] | None:
    """A resource list in the units of ``PodSpec.requests``; None where it cannot be read."""
    if not isinstance(listed, Mapping):
        return None
    amounts: dict[str, int] = {}
    for name, value in listed.items():
        quantity = parse_quantity(value)
        if quantity is None or not isinstance(name, str):
            return None
        counted = name in _WHOLE or name.startswith(_WHOLE_PREFIXES)
        if counted or name == CPU or "/" in name:
            amounts[name] = rounded_up(quantity if counted else quantity * 1000)
    return amounts
