"""Sections of consecutive sessions in recordings, and the gaps between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from pumice.recordings.errors import RecordingError
from pumice.recordings.reader import Recording
from pumice.v1.recording_pb2 import RecordingEntry


@dataclass(slots=True)
class Section:
    """The sessions of one core from one checkpoint to the next."""

    path: Path
    core_id: str
    # The first session according to the header, and the last session; 0 if there is none.
    first_session: int
    last_session: int = 0
    start_ns: int = 0
    end_ns: int = 0


@dataclass(slots=True)
class Sections:
    """Collects sections while the entries of recordings are read in order."""

    found: list[Section] = field(default_factory=list)

    def entries(self, recordings: Iterable[Recording]) -> Iterator[RecordingEntry]:
        """All entries, one recording after another."""
        self.found.clear()
        for held in recordings:
            for entry in held.entries():
                self.note(held.path, entry)
                yield entry

    def note(self, path: Path, entry: RecordingEntry) -> None:
        at_ns = entry.entry_time.ToNanoseconds()
        if entry.HasField("header"):
            header = entry.header
            self.found.append(Section(path, header.core_id, header.first_session, 0, at_ns))
        section = self.found[-1]
        section.end_ns = max(section.end_ns, at_ns)
        if entry.HasField("session_end"):
            section.last_session = entry.session_end.session

    def gaps(self) -> list[str]:
        """Messages about sessions that are missing between two sections of one core."""
        return [
            f"sessions {before.last_session + 1} to {after.first_session - 1} are missing: "
            f"{before.path.name} ends before them, and {after.path.name} begins after them "
            f"({(after.start_ns - before.end_ns) / 1e9:.1f} s)"
            for before, after in self._pairs()
            if after.first_session > before.last_session + 1
        ]

    def check_order(self) -> None:
        """Raises RecordingError for recordings that contain the same sessions."""
        for error in self.overlaps():
            raise error

    def overlaps(self) -> list[RecordingError]:
        """Errors about recordings that contain the same sessions."""
        return [
            RecordingError(
                str(after.path),
                f"begins with session {after.first_session}, and {before.path} contains the "
                f"sessions up to {before.last_session}; name each recording only once",
            )
            for before, after in self._pairs()
            if after.first_session <= before.last_session
        ]

    def _pairs(self) -> Iterator[tuple[Section, Section]]:
        held = [section for section in self.found if section.last_session]
        for before, after in pairwise(held):
            if before.core_id == after.core_id:
                yield before, after


def damage(recordings: Sequence[Recording]) -> list[str]:
    """Messages about damaged recordings, after they were read."""
    return [f"{held.path}: {held.ending}" for held in recordings if held.ending]


def in_order(recordings: Sequence[Recording]) -> list[Recording]:
    """The recordings, ordered by time. Raises RecordingError if they are of several clusters."""
    names = sorted({held.header.cluster for held in recordings})
    if len(names) > 1:
        problem = f"the recordings are of several clusters: {', '.join(names)}"
        raise RecordingError(str(recordings[0].path), problem)
    return sorted(
        recordings,
        key=lambda held: (held.header.creation_time.ToNanoseconds(), held.header.first_session),
    )
