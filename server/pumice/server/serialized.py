"""Reads the fields of serialized messages without building the messages.

A message in memory takes up to a hundred times its bytes, and any caller may send one. So sizes and
numbers of objects are checked before the objects are built.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError, Message

from pumice.server.errors import LimitError, MalformedMessageError
from pumice.server.limits import Limits
from pumice.v1.configuration_pb2 import Configuration
from pumice.v1.scheduling_service_pb2 import ClusterSource, ObjectSet, ScheduleRequest

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_CONTINUES = 0x80
_VARINT_BITS = 70
# ConnectRequest.delta_batch and DeltaBatch.ops have this field number.
_OPS = 2
# Fields of ScheduleRequest, InlineSource and ClusterSource.
_INLINE, _CLUSTER, _CONFIGURATION = 2, 3, 4
_OBJECTS, _HYPOTHETICAL, _REMOVED, _REMOVED_KEYS = 1, 2, 3, 4
# Field of ObjectSet: text, which takes no more memory than its bytes, so its size is not checked.
_MANIFESTS = 6
# Bytes of objects that are built at once.
_PIECE_BYTES = 256 * 1024
# Number of fields of a ScheduleRequest that are not objects, including unknown fields.
MAX_OTHER_FIELDS = 1_000

Field = tuple[int, int, int, int]


def fields(data: bytes, position: int, end: int) -> Iterator[Field]:
    """Number, start, start of the value, and end of each field between two positions."""
    try:
        while position < end:
            start = position
            tag, position = _varint(data, position)
            kind, begin = tag & 7, position
            if kind == _LENGTH:
                length, begin = _varint(data, position)
                position = begin + length
            elif kind == _VARINT:
                _, position = _varint(data, position)
            elif kind in (_FIXED64, _FIXED32):
                position += 8 if kind == _FIXED64 else 4
            else:
                raise MalformedMessageError("message")
            if position > end:
                raise MalformedMessageError("message")
            yield tag >> 3, start, begin, position
    except IndexError:
        raise MalformedMessageError("message") from None


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = data[position]
    position += 1
    if value < _CONTINUES:
        return value, position
    value &= _CONTINUES - 1
    for shift in range(7, _VARINT_BITS, 7):
        byte = data[position]
        position += 1
        value |= (byte & (_CONTINUES - 1)) << shift
        if byte < _CONTINUES:
            return value, position
    raise MalformedMessageError("message")


def op_sizes(request: bytes, most: int) -> list[int]:
    """The sizes of the ops in a ConnectRequest. Raises LimitError for more than ``most`` ops."""
    sizes: list[int] = []
    for number, _, begin, end in fields(request, 0, len(request)):
        if number == _OPS:
            for inner, _, start, stop in fields(request, begin, end):
                if inner == _OPS:
                    sizes.append(stop - start)
                    if len(sizes) > most:
                        raise LimitError("credit", most, len(sizes))
    return sizes


@dataclass(frozen=True, slots=True)
class ScheduleBytes:
    """A serialized ScheduleRequest whose objects are not built."""

    data: bytes
    # The request without objects, removed objects and configuration.
    header: ScheduleRequest
    # Type, begin and end of the other parts. A piece is one object, or at most _PIECE_BYTES.
    pieces: tuple[tuple[type[Message], int, int], ...]

    def parts(self) -> Iterator[Message]:
        """The header and then each piece, as messages."""
        yield self.header
        for type_, begin, end in self.pieces:
            yield _built(type_, self.data[begin:end])


def _built(type_: type[Any], data: bytes) -> Any:
    try:
        return type_.FromString(data)
    except (DecodeError, UnicodeDecodeError):
        raise MalformedMessageError("ScheduleRequest") from None


def read_schedule(data: bytes, limits: Limits) -> ScheduleBytes:
    """Raises LimitError for too many or too large objects, and MalformedMessageError."""
    reader = _ScheduleReader(data, limits)
    reader.read()
    header: ScheduleRequest = _built(ScheduleRequest, bytes(reader.header))
    return ScheduleBytes(data, header, tuple(reader.pieces))


class _ScheduleReader:
    """Separates the objects of a request from the rest."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self._data = data
        self._limits = limits
        self._objects = self._others = 0
        self.header = bytearray()
        self.pieces: list[tuple[type[Message], int, int]] = []

    def read(self) -> None:
        for number, start, begin, end in fields(self._data, 0, len(self._data)):
            self._count_other()
            if number in (_INLINE, _CLUSTER):
                self._source(number, begin, end)
            elif number == _CONFIGURATION:
                self._check_size("bytes of the configuration of a request", end - begin)
                self.pieces.append((Configuration, begin, end))
            else:
                self.header += self._data[start:end]

    def _source(self, source: int, begin: int, end: int) -> None:
        kept = bytearray()
        objects = _OBJECTS if source == _INLINE else _HYPOTHETICAL
        for number, start, inner, stop in fields(self._data, begin, end):
            if number == objects:
                self._count_other()
                for field, *position in fields(self._data, inner, stop):
                    self._add(ObjectSet, *position, is_text=field == _MANIFESTS)
            elif source == _CLUSTER and number in (_REMOVED, _REMOVED_KEYS):
                self._add(ClusterSource, start, inner, stop)
            else:
                self._count_other()
                kept += self._data[start:stop]
        self.header += bytes((source << 3 | _LENGTH,)) + _as_varint(len(kept)) + kept

    def _add(
        self, type_: type[Message], start: int, begin: int, end: int, *, is_text: bool = False
    ) -> None:
        """Adds an object to the last piece, or as a new piece."""
        self._objects += 1
        if self._objects > self._limits.trial_objects:
            raise LimitError("objects of a request", self._limits.trial_objects, self._objects)
        if not is_text:
            self._check_size("bytes of an object of a request", end - begin)
        if self.pieces:
            last, first, until = self.pieces[-1]
            if last is type_ and until == start and end - first <= _PIECE_BYTES:
                self.pieces[-1] = (type_, first, end)
                return
        self.pieces.append((type_, start, end))

    def _count_other(self) -> None:
        self._others += 1
        if self._others > MAX_OTHER_FIELDS:
            raise LimitError("fields of a request", MAX_OTHER_FIELDS, self._others)

    def _check_size(self, name: str, size: int) -> None:
        if size > self._limits.trial_object_bytes:
            raise LimitError(name, self._limits.trial_object_bytes, size)


def _as_varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= _CONTINUES:
        encoded.append(number & (_CONTINUES - 1) | _CONTINUES)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
