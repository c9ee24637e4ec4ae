"""Converts times and durations. The engine uses nanoseconds since 1970."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from pumice.server.wire.fields import FieldError

_SECOND_NS = 1_000_000_000
# Within this range, nanoseconds fit an int64. It covers the years 1677 to 2262.
SECONDS_LIMIT = 9_223_372_035


def read_time(field: str, message: Timestamp | Duration) -> int:
    """Nanoseconds; 0 for an absent message."""
    seconds, nanos = message.seconds, message.nanos
    if -SECONDS_LIMIT <= seconds <= SECONDS_LIMIT and 0 <= nanos < _SECOND_NS:
        return seconds * _SECOND_NS + nanos
    raise FieldError(
        field,
        f"{seconds} s and {nanos} ns are out of range; seconds must be between"
        f" -{SECONDS_LIMIT} and {SECONDS_LIMIT}, nanos between 0 and {_SECOND_NS - 1}",
    )


def timestamp(time_ns: int) -> Timestamp:
    return Timestamp(seconds=time_ns // _SECOND_NS, nanos=time_ns % _SECOND_NS)


def write_time(time_ns: int) -> Timestamp | None:
    """None for 0, which means that the time is unknown."""
    return timestamp(time_ns) if time_ns else None


def duration(nanoseconds: int) -> Duration:
    """For durations that are not negative."""
    return Duration(seconds=nanoseconds // _SECOND_NS, nanos=nanoseconds % _SECOND_NS)
