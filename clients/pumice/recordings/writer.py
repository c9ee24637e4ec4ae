"""Writes a recording, frame by frame; a crash costs the frame that was not written yet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import zstandard

from pumice.recordings.errors import RecordingError
from pumice.recordings.frames import LEVEL, MAGIC, pack_entry, pack_frame, pack_trailer
from pumice.recordings.reader import Recording
from pumice.v1.recording_pb2 import RecordingEntry, RecordingFrame, RecordingIndex

# A frame is written when it holds so much, or when it is told to.
FRAME_BYTES = 256 * 1024


class RecordingWriter:
    """One file. A file that is there is gone on with, after its last whole frame."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        self._frames: list[RecordingFrame] = []
        self._pending = bytearray()
        self._new_frame()
        self._file = self._opened(path)
        self.size = self._file.tell()
        self.entries = 0

    def _opened(self, path: Path) -> BinaryIO:
        if path.exists() and path.stat().st_size:
            with Recording(path) as old:
                self._frames = old.frames()
                end = old.whole_until
            again: BinaryIO = path.open("r+b")
            again.truncate(end)
            again.seek(end)
            return again
        try:
            file: BinaryIO = path.open("wb")
        except OSError as error:
            raise RecordingError(str(path), error.strerror or str(error)) from error
        file.write(MAGIC)
        file.flush()
        return file

    def _new_frame(self) -> None:
        self._pending.clear()
        self._first_session = 0
        self._first_time_ns = 0
        self._checkpoint = False

    def write(self, entry: RecordingEntry) -> None:
        """Adds an entry; a header begins a frame of its own."""
        kind = entry.WhichOneof("entry")
        if kind == "header":
            self.flush()
            self._checkpoint = True
            self._first_session = entry.header.first_session
        elif kind == "tick" and not entry.tick.skipped:
            self._first_session = self._first_session or entry.tick.session
        self._first_time_ns = self._first_time_ns or entry.at_time_ns
        self._pending += pack_entry(entry)
        self.entries += 1
        if len(self._pending) >= FRAME_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hands the pending entries to the operating system, as a frame."""
        if not self._pending:
            return
        frame = RecordingFrame(
            offset_bytes=self.size,
            first_session=self._first_session,
            first_time_ns=self._first_time_ns,
            checkpoint=self._checkpoint,
        )
        self._put(bytes(self._pending))
        self._frames.append(frame)
        self._new_frame()

    def _put(self, payload: bytes) -> None:
        data = pack_frame(payload, self._compressor)
        self._file.write(data)
        self._file.flush()
        self.size += len(data)

    def close(self) -> None:
        """Writes the index and makes sure that all is on the disk."""
        if self._file.closed:
            return
        self.flush()
        where = self.size
        self._put(pack_entry(RecordingEntry(index=RecordingIndex(frames=self._frames))))
        self._file.write(pack_trailer(where))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        """Closes the file as a crash would leave it."""
        self._file.close()

    def __enter__(self) -> RecordingWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
