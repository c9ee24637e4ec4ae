"""The reader of recordings, which stops at the end or at the first damage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pumice.recordings import frames
from pumice.recordings.errors import NothingRecordedError, RecordingError
from pumice.recordings.frames import FORMAT_VERSION, MAGIC, DamagedFrame
from pumice.v1.recording_pb2 import RecordingEntry, RecordingFrame, RecordingHeader


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a damaged or incomplete file."""

    # All data before the offset is complete.
    offset: int
    size: int
    problem: str

    def __str__(self) -> str:
        return (
            f"the frame at byte {self.offset} {self.problem}; "
            f"the {self.size - self.offset} bytes from there on are ignored"
        )


class Recording:
    """A recording in a file. Raises RecordingError for other files and newer formats."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        try:
            self._file: BinaryIO = self.path.open("rb")
        except OSError as error:
            raise RecordingError(str(path), error.strerror or str(error)) from error
        try:
            self._check_magic()
            # The offset of the end, and the problem if there is one, as far as the file was read.
            self.whole_until = len(MAGIC)
            self.ending: Ending | None = None
            # Number of entries of unknown kinds.
            self.unknown = 0
            self.header = self._first_header()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def _check_magic(self) -> None:
        found = self._file.read(len(MAGIC))
        if found == MAGIC:
            return
        if found[:-1] == MAGIC[:-1] and len(found) == len(MAGIC):
            self._other_format(found[-1])
        if not found:
            raise RecordingError(str(self.path), "is empty")
        raise RecordingError(str(self.path), "is not a recording of pumice")

    def _other_format(self, version: int) -> None:
        age = "a newer" if version > FORMAT_VERSION else "an older"
        raise RecordingError(
            str(self.path),
            f"has format {version} of {age} version of pumice; this version reads {FORMAT_VERSION}",
        )

    def _first_header(self) -> RecordingHeader:
        for entry in self.entries():
            if entry.HasField("header"):
                return entry.header
            break
        why = f": {self.ending}" if self.ending else ""
        problem = f"does not begin with a header{why}"
        if self.ending is None or self.ending.problem == frames.TRUNCATED:
            raise NothingRecordedError(str(self.path), problem)
        raise RecordingError(str(self.path), problem)

    def entries(self, session: int = 0) -> Iterator[RecordingEntry]:
        """All entries, or those from the last checkpoint before a session on."""
        offset = self._start_for(session) if session else len(MAGIC)
        for _, held in self._frames_from(offset):
            for entry in held:
                kind = entry.WhichOneof("entry")
                if kind is None:
                    self.unknown += 1
                elif kind != "index":
                    if kind == "header" and entry.header.format_version != FORMAT_VERSION:
                        self._other_format(entry.header.format_version)
                    yield entry

    def _frames_from(self, offset: int) -> Iterator[tuple[int, list[RecordingEntry]]]:
        """Frames from an offset on, up to the end or a problem, which is stored in ``ending``."""
        while True:
            found = frames.read_frame(self._file, offset)
            if found is None:
                self.whole_until = offset
                return
            held: list[RecordingEntry] = []
            if not isinstance(found, DamagedFrame):
                try:
                    held = list(frames.entries_of(found[0]))
                except ValueError as error:
                    found = DamagedFrame(offset, f"contains invalid data: {error}")
            if isinstance(found, DamagedFrame):
                self.whole_until = offset
                self.ending = Ending(offset, self.size, found.problem)
                return
            yield offset, held
            offset = found[1]

    @property
    def is_closed(self) -> bool:
        """Whether the file was closed properly, so that it ends with an index."""
        return bool(self._indexed())

    def frames(self) -> list[RecordingFrame]:
        """The frames, except that of the index; from the index, or else from the whole file."""
        return self._indexed() or self._walked()

    def _indexed(self) -> list[RecordingFrame]:
        self._file.seek(max(self.size - frames.TRAILER_BYTES, 0))
        where = frames.read_trailer(self._file.read())
        if where is None:
            return []
        found = frames.read_frame(self._file, where)
        if not isinstance(found, tuple):
            return []
        try:
            entries = list(frames.entries_of(found[0]))
        except ValueError:
            return []
        for entry in entries:
            if entry.HasField("index"):
                self.whole_until = where
                return list(entry.index.frames)
        return []

    def whole_frames(self) -> list[RecordingFrame]:
        """The frames before the first damaged one, read without the index."""
        indexed = self._indexed()
        for number, frame in enumerate(indexed):
            found = frames.read_frame(self._file, frame.offset_bytes)
            if isinstance(found, DamagedFrame):
                self.whole_until = frame.offset_bytes
                self.ending = Ending(frame.offset_bytes, self.size, found.problem)
                return indexed[:number]
        return indexed or self._walked()

    def _walked(self) -> list[RecordingFrame]:
        found = []
        for offset, held in self._frames_from(len(MAGIC)):
            frame = RecordingFrame(offset_bytes=offset)
            for entry in held:
                if entry.HasField("header"):
                    frame.checkpoint = True
                    frame.first_session = entry.header.first_session
                elif entry.HasField("tick") and not frame.first_session:
                    frame.first_session = entry.tick.session
                if entry.HasField("entry_time") and not frame.HasField("first_entry_time"):
                    frame.first_entry_time.CopyFrom(entry.entry_time)
            found.append(frame)
        return found

    def _start_for(self, session: int) -> int:
        """The last checkpoint before a session; a restarted core numbers its sessions from 1."""
        found = [f for f in self.frames() if f.checkpoint and f.first_session <= session]
        starts = [frame.offset_bytes for frame in found]
        held = (start for start in reversed(starts) if self._holds(start, session))
        return next(held, starts[-1] if starts else len(MAGIC))

    def _holds(self, start: int, session: int) -> bool:
        """Whether a session is between a checkpoint and the next one."""
        for offset, held in self._frames_from(start):
            for entry in held:
                if entry.HasField("header") and offset != start:
                    return False
                if entry.session_end.session == session:
                    return True
        return False

    def sessions(self) -> list[tuple[int, int]]:
        """The first and last complete session of each run of numbers."""
        found: list[tuple[int, int]] = []
        for entry in self.entries():
            if entry.HasField("session_end"):
                number = entry.session_end.session
                if found and number > found[-1][1]:
                    found[-1] = (found[-1][0], number)
                else:
                    found.append((number, number))
        return found
