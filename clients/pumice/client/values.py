"""The base of all results: frozen values with a JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Value:
    """A frozen dataclass. Subclasses only declare fields."""

    def to_dict(self) -> dict[str, Any]:
        """The value as JSON types: a key for each field, enums as strings, times in ISO 8601."""
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}


def _plain(held: object) -> object:
    match held:
        case Enum():
            return held.value
        case datetime():
            return held.isoformat()
        case Value():
            return held.to_dict()
        case Mapping():
            return {key: _plain(held[key]) for key in sorted(held)}
        case tuple():
            return [_plain(each) for each in held]
        case _:
            return held


def time_from(message: Timestamp) -> datetime | None:
    """The time in UTC; None if the core sent none."""
    if not (message.seconds or message.nanos):
        return None
    return message.ToDatetime(tzinfo=UTC)


def seconds_from(message: Duration) -> float:
    return message.seconds + message.nanos / _SECOND_NS


def duration_of(seconds: float) -> Duration:
    duration = Duration()
    duration.FromNanoseconds(int(seconds * _SECOND_NS))
    return duration
