"""The format of a recording: a magic number, independent frames, and the offset of the index.

A frame is the length and the CRC-32 of a zstd frame, both as little-endian 32-bit numbers, and
that zstd frame. Its content is a sequence of RecordingEntry messages, each preceded by its length
as a varint. A complete file ends with a frame that contains the index, the offset of that frame
(64 bits) and ``PUMICEIX``. Without an index a reader scans all frames.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import zstandard

from pumice.v1.recording_pb2 import RecordingEntry

SUFFIX = ".pumice"
FORMAT_VERSION = 2
# The last byte is the version of the format.
MAGIC = b"\x89PUMICE\x01"
TRAILER_MAGIC = b"PUMICEIX"
LEVEL = 1
TRUNCATED = "is truncated"
# A greater length is damage, because no writer writes larger frames.
MOST_FRAME_BYTES = 64 * 1024 * 1024
_HEAD = struct.Struct("<II")
_TRAILER = struct.Struct("<Q8s")
TRAILER_BYTES = _TRAILER.size


@dataclass(frozen=True, slots=True)
class DamagedFrame:
    """A damaged frame: its offset and the problem."""

    offset: int
    problem: str


def pack_entry(entry: RecordingEntry) -> bytes:
    data = entry.SerializeToString()
    return _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def pack_frame(payload: bytes, compressor: zstandard.ZstdCompressor) -> bytes:
    data = compressor.compress(payload)
    return _HEAD.pack(len(data), zlib.crc32(data)) + data


def pack_trailer(index_offset: int) -> bytes:
    return _TRAILER.pack(index_offset, TRAILER_MAGIC)


def read_trailer(data: bytes) -> int | None:
    """The offset of the index; None for bytes that are not a trailer."""
    if len(data) != TRAILER_BYTES:
        return None
    offset, magic = _TRAILER.unpack(data)
    return int(offset) if magic == TRAILER_MAGIC else None


def read_frame(file: BinaryIO, offset: int) -> tuple[bytes, int] | DamagedFrame | None:
    """The payload of the frame at an offset, and the offset of the next one; None at the end."""
    file.seek(offset)
    head = file.read(_HEAD.size)
    if not head:
        return None
    if len(head) < _HEAD.size:
        return DamagedFrame(offset, TRUNCATED)
    if _is_trailer(head, file):
        return None
    length, checksum = _HEAD.unpack(head)
    if length > MOST_FRAME_BYTES:
        return DamagedFrame(offset, "has an invalid length")
    data = file.read(length)
    if len(data) < length:
        return DamagedFrame(offset, TRUNCATED)
    if zlib.crc32(data) != checksum:
        return DamagedFrame(offset, "has a wrong checksum")
    payload = _unpacked(data)
    if payload is None:
        return DamagedFrame(offset, "cannot be decompressed")
    return payload, offset + _HEAD.size + length


def _is_trailer(head: bytes, file: BinaryIO) -> bool:
    where = file.tell()
    rest = file.read(TRAILER_BYTES - _HEAD.size + 1)
    file.seek(where)
    return read_trailer(head + rest) is not None


def _unpacked(data: bytes) -> bytes | None:
    try:
        size = zstandard.frame_content_size(data)
        if not 0 <= size <= MOST_FRAME_BYTES:
            return None
        return zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError:
        return None


def entries_of(payload: bytes) -> Iterator[RecordingEntry]:
    """The messages of a frame. Raises ValueError for other bytes."""
    position, end = 0, len(payload)
    while position < end:
        length, shift = 0, 0
        while True:
            if position >= end or shift > 35:
                raise ValueError("invalid length")
            byte = payload[position]
            position += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if position + length > end:
            raise ValueError("entry longer than its frame")
        entry = RecordingEntry()
        try:
            entry.MergeFromString(payload[position : position + length])
        except Exception as error:  # The implementations of protobuf have different DecodeErrors.
            raise ValueError("invalid entry") from error
        position += length
        yield entry
