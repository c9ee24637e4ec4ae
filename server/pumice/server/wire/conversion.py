"""Conversions between messages and the engine's values, each declared once for both directions.

Objects that arrive in large numbers (pods, nodes and PodGroups) have functions of their own, which
are faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf.message import Message

from pumice.server.wire.fields import amount, amounts, at_least, enum_value, non_empty, plain_dict
from pumice.server.wire.times import read_time, write_time

T = TypeVar("T")


class Converter(Protocol):
    """Reads a part of a message, and writes it. Errors name the path of the part."""

    @property
    def read(self) -> Callable[[str, Any], Any]: ...

    @property
    def write(self) -> Callable[[Any], Any]: ...


@dataclass(frozen=True, slots=True)
class Field:
    """How one field is read and written."""

    read: Callable[[str, Any], Any]
    write: Callable[[Any], Any]
    # The field of the message; empty: it has the same name as the field of the value.
    name: str = ""
    # Whether the message may lack the field, and the value that stands for its absence.
    is_optional: bool = False
    absent: Any = None


class Conversion(Generic[T]):
    """Reads messages of one type as values of one class, and writes them.

    A field of the value without a declaration is copied. A declared name such as ``pool.name`` is a
    field of a part of the message.
    """

    def __init__(self, value: type[T], message: type[Message], /, **declared: Converter) -> None:
        self.value = value
        self._message = message
        # The field of the value, the name and the part of the message, and the declaration.
        self._fields: list[tuple[str, str, str, Field]] = []
        for each in (each for each in fields(value) if each.init):  # type: ignore[arg-type]
            field = _field_of(declared.pop(each.name, COPIED))
            name = field.name or each.name
            part, _, _ = name.rpartition(".")
            if (part or name) not in message.DESCRIPTOR.fields_by_name:
                raise TypeError(f"{message.__name__} has no field {name} for {value.__name__}")
            self._fields.append((each.name, name, part, field))
        if declared:
            raise TypeError(f"{value.__name__} has no fields {', '.join(declared)}")

    def read(self, path: str, message: Any) -> T:
        """Reads a message. The path is empty for a whole object."""
        prefix = f"{path}." if path else ""
        values = []
        for _, name, part, field in self._fields:
            if field.is_optional and not message.HasField(name):
                values.append(field.absent)
            else:
                held = attrgetter(name)(message) if part else getattr(message, name)
                values.append(field.read(prefix + name, held))
        return self.value(*values)

    def write(self, value: T) -> Any:
        written: dict[str, Any] = {}
        for own, name, part, field in self._fields:
            held = getattr(value, own)
            # An empty list need not be written.
            if held is None or (held == () and not field.is_optional):
                continue
            if part:
                inner = name.removeprefix(f"{part}.")
                written.setdefault(part, {})[inner] = field.write(held)
            else:
                written[name] = field.write(held)
        return self._message(**written)


def _field_of(converter: Converter) -> Field:
    return converter if isinstance(converter, Field) else Field(converter.read, converter.write)


# Declarations.


def _same(value: Any) -> Any:
    return value


COPIED = Field(lambda _path, value: value, _same)
NON_EMPTY = Field(non_empty, _same)
TEXTS = Field(lambda _path, values: tuple(values), _same)
TEXT_MAP = Field(lambda _path, values: plain_dict(values), _same)
AMOUNT = Field(amount, _same)
AMOUNTS = Field(amounts, dict)
TIME = Field(read_time, write_time)


def named(name: str, converter: Converter = COPIED) -> Field:
    """A field that has another name in the message."""
    return replace(_field_of(converter), name=name)


def optional(converter: Converter = COPIED, absent: Any = None) -> Field:
    """A field that the message may lack."""
    return replace(_field_of(converter), is_optional=True, absent=absent)


def bounded(least: int) -> Field:
    """A whole number that is not below ``least``."""
    return Field(lambda path, value: at_least(path, value, least), _same)


def choice(choices: Mapping[Any, Any]) -> Field:
    """A value of an enum, by its number in the protocol."""
    numbers = {value: number for number, value in choices.items()}
    return Field(lambda path, number: enum_value(path, number, choices), numbers.__getitem__)


def repeated(converter: Converter) -> Field:
    """A tuple of parts."""

    def read(path: str, messages: Any) -> tuple[Any, ...]:
        if not messages:
            return ()
        return tuple([converter.read(f"{path}[{i}]", part) for i, part in enumerate(messages)])

    return Field(read, lambda values: [converter.write(value) for value in values])


def by_name(converter: Converter) -> Field:
    """Parts by name, in the order of names."""

    def read(path: str, messages: Mapping[str, Any]) -> dict[str, Any]:
        names = sorted(messages)
        return {name: converter.read(f"{path}[{name}]", messages[name]) for name in names}

    return Field(
        read, lambda values: {name: converter.write(value) for name, value in values.items()}
    )
