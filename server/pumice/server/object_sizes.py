"""Sizes of the objects of a cluster: which ops of a batch are large, and how much they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pumice.server.limits import LARGE_OBJECT_BYTES
from pumice.server.ops import NumberedOp, NumberedPods
from pumice.v1 import object_pb2

_POD = object_pb2.KIND_POD
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_CONTINUES = 0x80
# ConnectRequest.delta_batch and DeltaBatch.ops have this field number.
_FIELD = 2
_NONE: Mapping[int, int] = {}


def large_ops(request: bytes, first_seq: int) -> Mapping[int, int]:
    """The sizes of the large ops in a serialized ConnectRequest, by their sequence numbers.

    Reads the lengths in the bytes: a message would have to be written again to learn its size.
    """
    if len(request) <= LARGE_OBJECT_BYTES:
        return _NONE
    sizes = [
        size
        for begin, end in _fields(request, 0, len(request))
        for size in (stop - start for start, stop in _fields(request, begin, end))
    ]
    return {
        first_seq + number: size for number, size in enumerate(sizes) if size > LARGE_OBJECT_BYTES
    }


def _fields(data: bytes, place: int, end: int) -> Iterable[tuple[int, int]]:
    """Begin and end of every field 2 between two places of a valid message."""
    while place < end:
        tag, place = _varint(data, place)
        kind = tag & 7
        if kind == _LENGTH:
            length, place = _varint(data, place)
            if tag >> 3 == _FIELD:
                yield place, place + length
            place += length
        elif kind == _VARINT:
            _, place = _varint(data, place)
        else:
            place += 8 if kind == _FIXED64 else 4


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = data[place]
    place += 1
    if value < _CONTINUES:
        return value, place
    value &= _CONTINUES - 1
    shift = 7
    while True:
        byte = data[place]
        place += 1
        value |= (byte & (_CONTINUES - 1)) << shift
        if byte < _CONTINUES:
            return value, place
        shift += 7


class LargeObjects:
    """The objects of a cluster that are large, with their sizes."""

    def __init__(self) -> None:
        self._sizes: dict[tuple[int, str], int] = {}
        self._large_pods = 0
        self.bytes = 0

    def apply(self, ops: Iterable[NumberedOp], large: Mapping[int, int]) -> None:
        """Ops were applied, of which these are large, by sequence number."""
        if not large and not self._sizes:
            return
        for op in ops:
            if isinstance(op, NumberedPods) and not self._large_pods and not large:
                continue
            for one in op.each():
                if one.uid:
                    size = large.get(one.seq, 0) if one.revision else 0
                    self._put((one.kind, one.uid), size)

    def _put(self, key: tuple[int, str], size: int) -> None:
        old = self._sizes.pop(key, 0)
        if size:
            self._sizes[key] = size
        self.bytes += size - old
        if key[0] == _POD:
            self._large_pods += bool(size) - bool(old)
