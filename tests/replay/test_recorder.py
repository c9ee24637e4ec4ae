"""The recorder: files one after another, each whole by itself; trouble with disks hurts nobody."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from pumice.recordings import Recording, RecordingWriter
from pumice.server.recording import recorder as recorder_module
from pumice.testing import assert_replay_identical, recordings_in
from pumice.v1.recording_pb2 import RecordingEntry
from tests.replay.walks import Walk
from tests.server.running import SECOND


def drain(recorder: recorder_module.Recorder) -> None:
    """Waits until all that was noted is written."""
    done = threading.Event()
    recorder._queue.put(recorder._flush)
    recorder._queue.put(done.set)
    assert done.wait(30)


def first_sessions(folder: Path) -> list[int]:
    found = []
    for path in recordings_in(folder):
        with Recording(path) as held:
            found.append(held.header.first_session)
    return found


@pytest.mark.parametrize(
    "limit", [{"max_age_ns": 5 * SECOND}, {"max_bytes": 6_000}], ids=["age", "size"]
)
def test_files_are_changed_when_they_are_full_and_each_replays_alone(
    tmp_path: Path, limit: dict[str, int]
) -> None:
    walk = Walk(3)
    recorder = walk.record(tmp_path, **limit)

    def between(_: int) -> None:
        # The recorder's thread says when the file is full; the owner looks at its next session.
        drain(recorder)

    walk.run(40, between)
    walk.close()
    numbers = first_sessions(tmp_path)
    assert len(numbers) > 2
    assert numbers == sorted(set(numbers))
    total = sum(sessions_in(path) for path in recordings_in(tmp_path))
    assert total == 40


def sessions_in(path: Path) -> int:
    """How many there are, all of which replay; the last file may have been begun for nothing."""
    with Recording(path) as held:
        if not held.sessions():
            return 0
    return assert_replay_identical(path, statuses=True).sessions


def test_a_file_that_is_full_is_followed_by_one_other(tmp_path: Path) -> None:
    """Also where its thread lags behind, and hears of more sessions before it can change files."""
    walk = Walk(3)
    recorder = walk.record(tmp_path, max_age_ns=0)
    drain(recorder)
    held = threading.Event()
    walk.run(1)
    drain(recorder)

    def lag() -> None:
        held.wait(30)

    recorder._queue.put(lag)
    walk.run(6)
    held.set()
    drain(recorder)
    walk.close()
    numbers = first_sessions(tmp_path)
    assert len(numbers) == len(set(numbers)) <= 3


def test_only_the_newest_files_are_kept_when_asked(tmp_path: Path) -> None:
    walk = Walk(3)
    walk.record(tmp_path, max_age_ns=SECOND, kept_files=2)
    walk.run(30)
    walk.close()
    assert 1 <= len(recordings_in(tmp_path)) <= 2


def test_files_of_clusters_with_longer_names_are_left_alone(tmp_path: Path) -> None:
    others = ["walk-2-20261115T120000Z-00000001", "walk-x", "other-20261115T120000Z-00000001"]
    for name in others:
        (tmp_path / f"{name}.pumice").touch()
    walk = Walk(3)
    recorder = walk.record(tmp_path, max_age_ns=SECOND, kept_files=1)
    walk.run(20, lambda _: drain(recorder))
    walk.close()
    left = {path.stem for path in recordings_in(tmp_path)}
    assert left >= set(others)
    assert len(left) == len(others) + 1


def test_one_file_for_two_clusters_is_the_first_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "one.pumice"
    first, second = Walk(1), Walk(2)
    drain(first.record(path))
    drain(second.record(path))
    for walk in (first, second):
        walk.run(5)
    for walk in (first, second):
        walk.close()
    assert "is retried in a minute" in caplog.text
    assert "another cluster" in caplog.text
    assert assert_replay_identical(path, statuses=True).sessions == 5


def test_a_disk_that_was_full_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder_module, "_RETRY_SECONDS", 0.0)
    walk = Walk(1)
    recorder = walk.record(tmp_path)
    walk.run(3)
    drain(recorder)

    def fail() -> None:
        raise OSError(28, "No space left on device")

    recorder._queue.put(fail)
    walk.run(2)
    drain(recorder)
    walk.run(6)
    walk.close()
    assert "is retried in a minute" in caplog.text
    before, after = recordings_in(tmp_path)
    assert assert_replay_identical(before, statuses=True).last_session == 3
    assert assert_replay_identical(after, statuses=True).last_session == 11


def test_a_recorder_without_files_and_listeners_takes_no_notes() -> None:
    walk = Walk(1)
    idle = recorder_module.Recorder(walk.origin)
    walk.recorders.append(idle)
    walk.run(3)
    assert idle._queue.empty()
    walk.close()


def test_a_folder_that_cannot_be_created_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder_module, "_RETRY_SECONDS", 0.0)
    folder = tmp_path / "folder"
    folder.write_text("in the way")
    walk = Walk(1)
    recorder = walk.record(folder)
    walk.run(3)
    drain(recorder)
    assert "is retried in a minute" in caplog.text
    assert walk.failures
    folder.unlink()
    walk.run(1)
    drain(recorder)
    walk.run(4)
    walk.close()
    assert len(walk.results) == 8
    (path,) = recordings_in(folder)
    assert assert_replay_identical(path, statuses=True).last_session == 8


@pytest.mark.parametrize("name", ["", "one.pumice"], ids=["folder", "file"])
def test_a_recording_that_is_deleted_is_followed_by_another(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    walk = Walk(1)
    recorder = walk.record(folder / name if name else folder)
    walk.run(3)
    drain(recorder)
    shutil.rmtree(folder)
    drain(recorder)
    assert "the recording was removed" in caplog.text
    walk.run(5)
    walk.close()
    (path,) = recordings_in(folder)
    assert assert_replay_identical(path, statuses=True).last_session == 8


class FullDisk:
    """A file on a disk without space: each write writes a few bytes of the data, and fails."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        self._file.write(data[:3])
        raise OSError(28, "No space left on device")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_attempts_on_a_full_disk_leave_no_files_and_delete_no_recordings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "_RETRY_SECONDS", 0.0)
    walk = Walk(3)
    recorder = walk.record(tmp_path, max_age_ns=SECOND, kept_files=4)
    walk.run(20, lambda _: drain(recorder))
    whole = set(recordings_in(tmp_path))
    assert len(whole) == 4
    opened, begin = os.fdopen, RecordingWriter._begin
    is_late = itertools.cycle([False, True])

    def fdopen(descriptor: int, *arguments: Any) -> Any:
        return FullDisk(opened(descriptor, *arguments))

    def begin_late(writer: RecordingWriter, file: Any) -> None:
        # Every other attempt fails after the first bytes of the file.
        begin(writer, file._file if next(is_late) else file)

    with monkeypatch.context() as full:
        full.setattr(os, "fdopen", fdopen)
        full.setattr(RecordingWriter, "_begin", begin_late)
        walk.run(20, lambda _: drain(recorder))
        left = set(recordings_in(tmp_path))
    # One makes place for the next one, which is not there.
    assert left < whole
    assert len(left) == 3
    walk.run(3, lambda _: drain(recorder))
    walk.close()
    assert assert_replay_identical(recordings_in(tmp_path)[-1], statuses=True).last_session == 43


def test_after_a_clock_was_set_back_the_newest_files_are_kept(tmp_path: Path) -> None:
    """The times in their names are older than those of files that are deleted."""
    walk = Walk(3)
    recorder = walk.record(tmp_path, max_age_ns=SECOND, kept_files=2)
    walk.run(10, lambda _: drain(recorder))
    before = set(recordings_in(tmp_path))
    walk.now_ns -= 3600 * SECOND
    # The age of a file says nothing now, so the next one begins because this one is deleted.
    for path in before:
        path.unlink()
        path.touch()
    drain(recorder)
    walk.run(10, lambda _: drain(recorder))
    walk.close()
    left = recordings_in(tmp_path)
    assert len(left) == 2
    assert not before & set(left)
    assert assert_replay_identical(left[-1], statuses=True).last_session == 20


def test_what_cannot_keep_up_begins_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder_module, "MAX_QUEUED_ENTRIES", 0)
    walk = Walk(4)
    recorder = walk.record(tmp_path)
    recorder._queue.put(lambda: None)
    recorder._queue.put(lambda: None)
    for _ in range(20):
        walk.run(1)
        drain(recorder)
    walk.close()
    for path in recordings_in(tmp_path):
        with Recording(path) as held:
            whole = any(entry.HasField("session_end") for entry in held.entries())
        if whole:
            assert_replay_identical(path)


class Kept:
    """A listener that keeps what it hears."""

    def __init__(self) -> None:
        self.entries: list[RecordingEntry] = []
        self.ends: list[bool] = []

    def put(self, entry: RecordingEntry) -> None:
        self.entries.append(entry)

    def end(self, *, lost: bool) -> None:
        self.ends.append(lost)


def test_a_listener_hears_a_checkpoint_and_all_that_follows() -> None:
    walk = Walk(2)
    recorder = recorder_module.Recorder(walk.origin)
    walk.recorders.append(recorder)
    walk.run(5)
    kept = Kept()
    recorder.add_listener(kept, walk.state, walk.now_ns)
    walk.run(3)
    walk.close()
    kinds = [entry.WhichOneof("entry") for entry in kept.entries]
    assert kinds[:2] == ["header", "checkpoint"]
    assert [e.session_end.session for e in kept.entries if e.HasField("session_end")] == [6, 7, 8]
    assert kept.ends == [False]
