"""Decimal integers in texts, as Go reads them."""

from __future__ import annotations

import re

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}\Z")
_INT64 = range(-(2**63), 2**63)


def as_integer(text: str) -> int | None:
    """A decimal number of 64 bits; Python would take more for one, such as ``1_000``."""
    if not _INTEGER.match(text):
        return None
    number = int(text)
    return number if number in _INT64 else None
