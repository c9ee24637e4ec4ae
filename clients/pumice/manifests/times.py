"""Parses RFC 3339 times of Kubernetes objects."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from pumice.manifests.errors import FieldError

_PATTERN: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
# Go's zero time, which means no time.
_ZERO_TIME: Final = "0001-01-01T00:00:00Z"
_SECOND_NS: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
# The limits of signed 64-bit integers.
_EARLIEST: Final = -(2**63)
_LATEST: Final = 2**63 - 1


def fill_time(target: Timestamp, text: str | None, field: str) -> None:
    """Fills the target, unless the text is None, empty or Go's zero time."""
    if text and text != _ZERO_TIME:
        target.seconds, target.nanos = divmod(timestamp_ns(text, field), _SECOND_NS)


def timestamp_ns(text: str, field: str) -> int:
    """Nanoseconds since 1970; 0 for an empty text or Go's zero time.

    A time before 1677 or after 2262 is clamped to the limits of 64 bits.
    """
    try:
        return _nanoseconds(text)
    except ValueError:
        raise FieldError(
            field, f"{text[:80]!r} is not a time", "RFC 3339, such as 2026-01-31T12:00:00Z"
        ) from None


# Objects that are created together have the same time, so most texts repeat.
@lru_cache(maxsize=1 << 14)
def _nanoseconds(text: str) -> int:
    if not text or text == _ZERO_TIME:
        return 0
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    seconds = (moment - _EPOCH) // _SECOND
    if match[8]:
        offset = int(match[9]) * 3600 + int(match[10]) * 60
        seconds += -offset if match[8] == "+" else offset
    nanoseconds = seconds * _SECOND_NS + int((match[7] or "").ljust(9, "0")[:9])
    return max(_EARLIEST, min(nanoseconds, _LATEST))
