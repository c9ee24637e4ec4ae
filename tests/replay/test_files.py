"""Recordings as files: whole, cut, damaged, foreign, newer, and gone on with."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from pumice.recordings import FORMAT_VERSION, Recording, RecordingError, RecordingWriter
from pumice.recordings.frames import MAGIC
from pumice.v1.recording_pb2 import (
    RecordingEntry,
    RecordingHeader,
    RecordingSessionEnd,
    RecordingTick,
)


def entry(session: int) -> RecordingEntry:
    return RecordingEntry(
        tick=RecordingTick(session=session, session_time=Timestamp(nanos=session * 10))
    )


def header(first_session: int = 1, version: int = FORMAT_VERSION) -> RecordingEntry:
    held = RecordingHeader(format_version=version, cluster="c", first_session=first_session)
    return RecordingEntry(header=held)


def written(path: Path, frames: int = 4, *, close: bool = True) -> Path:
    """A file with a header and one session a frame."""
    writer = RecordingWriter(path)
    writer.write(header())
    for session in range(1, frames + 1):
        writer.flush()
        writer.write(entry(session))
    writer.flush()
    if close:
        writer.close()
    else:
        writer.abandon()
    return path


def sessions(recording: Recording) -> list[int]:
    return [e.tick.session for e in recording.entries() if e.HasField("tick")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "one.pumice"


def test_what_was_written_is_read(path: Path) -> None:
    with Recording(written(path)) as held:
        assert sessions(held) == [1, 2, 3, 4]
        assert held.header.cluster == "c"
        assert held.ending is None


def test_a_file_that_was_not_closed_is_read_to_its_last_frame(path: Path) -> None:
    with Recording(written(path, close=False)) as held:
        assert sessions(held) == [1, 2, 3, 4]
        assert held.ending is None


def test_wherever_it_is_cut_only_the_last_frame_is_lost(path: Path) -> None:
    whole = written(path, close=False).read_bytes()
    with Recording(path) as held:
        starts = [frame.offset_bytes for frame in held.frames()]
    for cut in range(starts[-1], len(whole)):
        path.write_bytes(whole[:cut])
        with Recording(path) as held:
            assert sessions(held) == [1, 2, 3]
            assert (held.ending is None) == (cut == starts[-1])
            if held.ending is not None:
                assert held.ending.offset == starts[-1]
                assert str(starts[-1]) in str(held.ending)


def test_a_damaged_frame_ends_the_recording_before_it(path: Path) -> None:
    whole = bytearray(written(path).read_bytes())
    with Recording(path) as held:
        third = held.frames()[3].offset_bytes
    for byte in range(third, third + 12):
        broken = bytearray(whole)
        broken[byte] ^= 0x40
        path.write_bytes(broken)
        with Recording(path) as held:
            assert sessions(held) == [1, 2]
            assert held.ending is not None
            assert held.ending.offset == third


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04 something else", "is not a recording"),
        (b"\x89PUM", "is not a recording"),
        (MAGIC[:-1] + b"\x07rest", "format 7 of a newer version of pumice"),
        (MAGIC, "does not begin with a header"),
        (MAGIC + b"\xff" * 40, "invalid length"),
    ],
)
def test_what_is_no_recording_is_refused_with_the_reason(
    path: Path, content: bytes, problem: str
) -> None:
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=problem):
        Recording(path)


@pytest.mark.parametrize(("version", "age"), [(3, "a newer"), (1, "an older")])
def test_a_header_of_another_format_is_refused(path: Path, version: int, age: str) -> None:
    with RecordingWriter(path) as writer:
        writer.write(header(version=version))
    with pytest.raises(RecordingError, match=f"format {version} of {age} version of pumice"):
        Recording(path)


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(RecordingError, match=r"one\.pumice: No such file"):
        Recording(path)


def test_entries_of_a_newer_kind_are_skipped_and_counted(path: Path) -> None:
    with RecordingWriter(path) as writer:
        writer.write(header())
        # A field that this version does not have.
        writer.write(RecordingEntry.FromString(b"\xc2\x3e\x02hi"))
        writer.write(entry(1))
    with Recording(path) as held:
        assert sessions(held) == [1]
        assert held.unknown == 1


@pytest.mark.parametrize("close", [True, False])
def test_a_file_is_gone_on_with_after_its_last_whole_frame(path: Path, close: bool) -> None:
    written(path, close=close)
    if not close:
        with path.open("ab") as file:
            file.write(b"\x10\x00\x00\x00torn")
    with RecordingWriter(path) as writer:
        writer.write(header(first_session=9))
        writer.write(entry(9))
    with Recording(path) as held:
        assert sessions(held) == [1, 2, 3, 4, 9]
        assert held.ending is None
        assert [f.first_session for f in held.frames() if f.checkpoint] == [1, 9]


@pytest.mark.parametrize("indexed", [True, False])
def test_seeking_begins_at_the_last_checkpoint_before_the_session(
    path: Path, indexed: bool
) -> None:
    writer = RecordingWriter(path)
    for first in (1, 5, 9):
        writer.write(header(first_session=first))
        for session in range(first, first + 4):
            writer.write(entry(session))
            writer.write(RecordingEntry(session_end=RecordingSessionEnd(session=session)))
            writer.flush()
    if indexed:
        writer.close()
    else:
        writer.abandon()
    with Recording(path) as held:
        assert next(iter(held.entries(session=7))).header.first_session == 5
        assert next(iter(held.entries(session=12))).header.first_session == 9
        assert next(iter(held.entries(session=1))).header.first_session == 1


def two_runs(path: Path) -> Path:
    """A core counts to 6, and is started again: another one counts to 4."""
    for last in (6, 4):
        with RecordingWriter(path) as writer:
            writer.write(header())
            for session in range(1, last + 1):
                writer.write(entry(session))
                writer.write(RecordingEntry(session_end=RecordingSessionEnd(session=session)))
                writer.flush()
    return path


def test_a_session_is_found_in_the_last_run_that_got_so_far(path: Path) -> None:
    with Recording(two_runs(path)) as held:
        assert held.sessions() == [(1, 6), (1, 4)]
        in_both = [e.tick.session for e in held.entries(session=3) if e.HasField("tick")]
        in_one = [e.tick.session for e in held.entries(session=5) if e.HasField("tick")]
    assert in_both == [1, 2, 3, 4]
    assert in_one[:6] == [1, 2, 3, 4, 5, 6]


def test_what_is_behind_damage_is_cut_off_although_there_is_an_index(path: Path) -> None:
    broken = bytearray(written(path).read_bytes())
    with Recording(path) as held:
        third = held.frames()[3].offset_bytes
    broken[third + 10] ^= 0x40
    path.write_bytes(broken)
    with RecordingWriter(path) as writer:
        assert writer.cut_bytes == len(broken) - third
        writer.write(header(first_session=9))
        writer.write(entry(9))
    with Recording(path) as held:
        assert sessions(held) == [1, 2, 9]
        assert held.ending is None


@pytest.mark.parametrize("kept", [8, 9, 12, 20])
def test_a_file_of_a_crash_before_its_first_frame_is_begun_anew(path: Path, kept: int) -> None:
    path.write_bytes(written(path).read_bytes()[:kept])
    with RecordingWriter(path) as writer:
        assert writer.cut_bytes == kept - len(MAGIC)
        writer.write(header())
        writer.write(entry(1))
    with Recording(path) as held:
        assert sessions(held) == [1]


@pytest.mark.parametrize("content", [b"no recording at all", MAGIC[:-1] + b"\x07rest"])
def test_a_file_of_somebody_else_is_not_written_into(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(RecordingError):
        RecordingWriter(path)
    assert path.read_bytes() == content


def test_a_file_is_written_by_one_at_a_time(path: Path) -> None:
    with RecordingWriter(path) as writer:
        writer.write(header())
        with pytest.raises(RecordingError, match="is in use"):
            RecordingWriter(path)
    RecordingWriter(path).close()
