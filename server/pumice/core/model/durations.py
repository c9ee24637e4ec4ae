"""Durations as Go writes them: 300ms, 1.5h, 2h45m."""

from __future__ import annotations

import re

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
