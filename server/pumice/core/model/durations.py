"""Durations as configurations write them: ``1h2m3.5s``."""

from __future__ import annotations

import re
from fractions import Fraction

_UNIT_NS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)", re.ASCII)
_LONGEST_TEXT = 64
_LONGEST_NS = (1 << 63) - 1


def parse_duration_ns(text: str) -> int | None:
    """Nanoseconds; None for what Go would not read as a duration."""
    negative = text.startswith("-")
    rest = text[1:] if text.startswith(("-", "+")) else text
    if rest == "0":
        return 0
    if not rest or len(rest) > _LONGEST_TEXT:
        return None
    total, position = 0, 0
    while position < len(rest):
        term = _TERM.match(rest, position)
        if term is None:
            return None
        number, unit = term.groups()
        # What is left below a nanosecond is cut off.
        total += int(Fraction(f"0{number}") * _UNIT_NS[unit])
        position = term.end()
    if total > _LONGEST_NS:
        return None
    return -total if negative else total
