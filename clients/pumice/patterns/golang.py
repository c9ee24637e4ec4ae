"""Parses booleans, numbers and durations of configurations, annotations and flags as Go does."""

from __future__ import annotations

import re
from typing import Final

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)

_UNIT_NS: Final = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM: Final = re.compile(r"([0-9]*)(?:(\.)([0-9]*))?([^0-9.]+)")
# Python rejects numbers with more than 4,300 digits; Go accepts any length.
MAX_DURATION_LENGTH: Final = 1_000
# The magnitude of the longest negative duration; the longest positive one is 1 ns shorter.
_LONGEST_NS: Final = 1 << 63
# Go ignores further decimals of a duration beyond this value.
_MAX_INT64: Final = _LONGEST_NS - 1


def parse_bool(text: str) -> bool | None:
    """``strconv.ParseBool``; None for text that it rejects."""
    if text in _TRUE:
        return True
    return False if text in _FALSE else None


def parse_int(text: str, bits: int = 64) -> int | None:
    """``strconv.ParseInt(text, 10, bits)``; None for text that it rejects."""
    if len(text) > 64 or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(1 << (bits - 1)) <= number < 1 << (bits - 1) else None


def min_member(text: str) -> int:
    """Parses the annotation for the minimum number of pods; 1 for invalid text."""
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal()):
        return 1
    most = (1 << 31) - 1
    significant = digits.lstrip("0") or "0"
    return min(int(significant), most) if len(significant) <= len(str(most)) else most


def parse_decimal(text: str) -> float | None:
    """``strconv.ParseFloat`` for decimal numbers; None for text that it rejects."""
    return float(text) if _DECIMAL.fullmatch(text) else None


def parse_duration_ns(text: str) -> int | None:
    """``time.ParseDuration``; None for text that it rejects, and for very long text."""
    if len(text) > MAX_DURATION_LENGTH:
        return None
    negative = text.startswith("-")
    rest = text[1:] if text.startswith(("-", "+")) else text
    if rest == "0":
        return 0
    if not rest:
        return None
    total = _sum_of_terms(rest)
    if total is None:
        return None
    if negative:
        return -total
    return None if total == _LONGEST_NS else total


def _sum_of_terms(text: str) -> int | None:
    total = position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        nanoseconds = None if match is None else _term_ns(match)
        if match is None or nanoseconds is None or total + nanoseconds > _LONGEST_NS:
            return None
        total += nanoseconds
        position = match.end()
    return total


def _term_ns(match: re.Match[str]) -> int | None:
    whole, _, decimals, unit_name = match.groups(default="")
    unit = _UNIT_NS.get(unit_name)
    if unit is None or not (whole or decimals):
        return None
    if len(whole.lstrip("0")) > 19:
        return None
    nanoseconds = int(whole or "0") * unit
    if nanoseconds > _LONGEST_NS:
        return None
    if decimals:
        # Go multiplies floats here and truncates to nanoseconds; so do we.
        numerator, scale = _leading_fraction(decimals)
        nanoseconds += int(float(numerator) * (float(unit) / scale))
    return nanoseconds if nanoseconds <= _LONGEST_NS else None


def _leading_fraction(decimals: str) -> tuple[int, float]:
    numerator, scale = 0, 1.0
    for digit in decimals:
        longer = numerator * 10 + int(digit)
        if numerator > _MAX_INT64 // 10 or longer > _LONGEST_NS:
            break
        numerator, scale = longer, scale * 10
    return numerator, scale
