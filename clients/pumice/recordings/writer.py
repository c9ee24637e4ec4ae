"""The writer of recordings; a crash loses at most the frame in memory."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import BinaryIO

import zstandard
from google.protobuf.timestamp_pb2 import Timestamp

from pumice.recordings.errors import NothingRecordedError, RecordingError
from pumice.recordings.frames import LEVEL, MAGIC, pack_entry, pack_frame, pack_trailer
from pumice.recordings.reader import Recording
from pumice.v1.recording_pb2 import RecordingEntry, RecordingFrame, RecordingIndex

# Size at which a frame is written.
FRAME_BYTES = 256 * 1024


class RecordingWriter:
    """Writes a recording to a file; continues an existing file after its last complete frame.

    Raises RecordingError for a file that another process is writing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        self._frames: list[RecordingFrame] = []
        self._pending = bytearray()
        # Bytes after the last complete frame of an existing file.
        self.cut_bytes = 0
        self._new_frame()
        self._file = self._opened(path)
        self.size = self._file.tell()
        self.entries = 0

    def _opened(self, path: Path) -> BinaryIO:
        try:
            # A recording contains every object of a cluster, so only its owner can read it.
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
            file: BinaryIO = os.fdopen(os.open(path, flags, 0o600), "a+b")
        except OSError as error:
            raise RecordingError(str(path), error.strerror or str(error)) from error
        try:
            self._claim(file)
            if os.fstat(file.fileno()).st_size:
                self._go_on(file)
            else:
                self._begin(file)
        except BaseException:
            file.close()
            raise
        return file

    def _begin(self, file: BinaryIO) -> None:
        try:
            file.write(MAGIC)
            file.flush()
        except OSError:
            # An empty file is not a recording.
            self.path.unlink(missing_ok=True)
            raise

    def _claim(self, file: BinaryIO) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            why = "is in use, for another cluster or by another process"
            raise RecordingError(str(self.path), why) from None

    def _go_on(self, file: BinaryIO) -> None:
        try:
            with Recording(self.path) as old:
                self._frames = old.whole_frames()
                end = old.whole_until
                self.cut_bytes = 0 if old.ending is None else old.size - end
        except NothingRecordedError:
            # The process that created the file crashed before the first frame was complete.
            end = len(MAGIC)
            self.cut_bytes = self.path.stat().st_size - end
        file.truncate(end)
        file.seek(end)

    def _new_frame(self) -> None:
        self._pending.clear()
        self._first_session = 0
        self._first_time: Timestamp | None = None
        self._checkpoint = False

    def write(self, entry: RecordingEntry) -> None:
        """Adds an entry; a header begins a new frame."""
        kind = entry.WhichOneof("entry")
        if kind == "header":
            self.flush()
            self._checkpoint = True
            self._first_session = entry.header.first_session
        elif kind == "tick" and not entry.tick.skipped:
            self._first_session = self._first_session or entry.tick.session
        if self._first_time is None and entry.HasField("entry_time"):
            self._first_time = entry.entry_time
        self._pending += pack_entry(entry)
        self.entries += 1
        if len(self._pending) >= FRAME_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes the pending entries as a frame."""
        if not self._pending:
            return
        frame = RecordingFrame(
            offset_bytes=self.size,
            first_session=self._first_session,
            first_entry_time=self._first_time,
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

    @property
    def is_removed(self) -> bool:
        """Whether another file, or none, has the path of this one."""
        try:
            return not os.path.samestat(self.path.stat(), os.fstat(self._file.fileno()))
        except OSError:
            return True

    def close(self) -> None:
        """Writes the index, and syncs the file to the disk."""
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
