"""Message types with some fields of another type, to parse only these fields from its bytes.

Such a message holds the other fields as unknown fields until they are discarded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Message = descriptor_pb2.DescriptorProto
_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "partial"
# Strings, maps and messages are parsed as bytes.
_PARSED_AS = {
    _Field.TYPE_STRING: _Field.TYPE_BYTES,
    _Field.TYPE_MESSAGE: _Field.TYPE_BYTES,
    _Field.TYPE_ENUM: _Field.TYPE_INT32,
    _Field.TYPE_INT32: _Field.TYPE_INT32,
    _Field.TYPE_INT64: _Field.TYPE_INT64,
    _Field.TYPE_BOOL: _Field.TYPE_BOOL,
}
# Fields to omit; for a nested message, a mapping with the fields to omit in it.
Fields = Mapping[str, "Fields | None"]


class Types:
    """Builds message types. All types are added before the first is used."""

    def __init__(self) -> None:
        # The file is proto2, whose fields have presence: an absent preemptable means true.
        self._file = descriptor_pb2.FileDescriptorProto(name="partial.proto", package=_PACKAGE)

    def add(self, name: str) -> _Message:
        return self._file.message_type.add(name=name)

    def add_without(self, name: str, source: Any, omitted: Fields) -> None:
        """Adds a type like the source, without some fields."""
        made = self.add(name)
        for field in source.fields:
            inner = omitted.get(field.name)
            kind: int | str = _PARSED_AS[field.type]
            if inner is not None:
                kind = f"{name}_{field.name}"
                self.add_without(kind, field.message_type, inner)
            elif field.name in omitted:
                continue
            copy_field(made, source, field.name, kind, repeated=field.is_repeated)

    def classes(self, *names: str) -> list[Any]:
        """The classes of these types."""
        pool = descriptor_pool.DescriptorPool()
        pool.Add(self._file)
        found = [pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in names]
        return [message_factory.GetMessageClass(type_) for type_ in found]


def copy_field(
    into: _Message, source: Any, name: str, kind: int | str, *, repeated: bool = False
) -> None:
    """Adds a field with its name and number in the source. A string kind is a message type."""
    field = into.field.add(name=name, number=source.fields_by_name[name].number)
    field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    if isinstance(kind, str):
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    else:
        field.type = _Field.Type.ValueType(kind)
