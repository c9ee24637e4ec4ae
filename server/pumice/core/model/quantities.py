"""Quantities as Kubernetes writes them, in the engine's units, and durations as Go writes them."""

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


_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]+)", re.ASCII)
_LARGEST_NS = 2**63 - 1
# More digits than this are beyond what any duration can hold, or show.
_MOST_DIGITS = 19
# Python reads no number of more than 4,300 digits, and Go reads any.
MAX_DURATION_LENGTH = 1_000


def parse_duration_ns(text: str) -> int | None:
    """What ``time.ParseDuration`` makes of the text, in nanoseconds; None where it refuses."""
    if len(text) > MAX_DURATION_LENGTH:
        return None
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    total = position = 0
    while position < len(rest):
        term = _TERM.match(rest, position)
        amount = None if term is None else _term_ns(*term.groups(default=""))
        if term is None or amount is None:
            return None
        total += amount
        position = term.end()
    if not rest or total > _LARGEST_NS:
        return None
    return -total if text.startswith("-") else total


def _term_ns(whole: str, decimals: str, unit_name: str) -> int | None:
    unit = _UNITS_NS.get(unit_name)
    if unit is None or not (whole or decimals) or len(whole.lstrip("0")) > _MOST_DIGITS:
        return None
    decimals = decimals[:_MOST_DIGITS]
    # Go multiplies floats here and cuts off what is left below a nanosecond; so do we.
    fraction = int(float(int(decimals)) * (unit / 10.0 ** len(decimals))) if decimals else 0
    return int(whole or "0") * unit + fraction
