"""Messages as JSON for programs: numbers are numbers, and what is zero or empty is there, too."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp


def plain(message: Message) -> dict[str, Any]:
    """Keys are those of protobuf's own JSON, and always the same; only absent messages are left out."""
    return {
        field.json_name: _of_field(message, field)
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


def _of_field(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    if not field.is_repeated:
        return _one(field, value)
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        kind = entry.fields_by_name["value"]
        return {str(key): _one(kind, value[key]) for key in sorted(value)}
    return [_one(field, each) for each in value]


def _one(field: Any, value: Any) -> Any:
    if isinstance(value, Timestamp | Duration):
        return value.ToJsonString()
    if isinstance(value, Message):
        return plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return b64encode(value).decode() if isinstance(value, bytes) else value
