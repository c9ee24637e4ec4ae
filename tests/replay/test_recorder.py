"""The recorder: files one after another, each whole by itself; trouble with disks hurts nobody."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pumice.recordings import Recording
from pumice.server.recording import recorder as recorder_module
from pumice.testing import assert_replay_identical, recordings_in
from pumice.v1.recording_pb2 import RecordingEntry
from tests.replay.walks import Walk
from tests.server.running import SECOND


def drain(recorder: recorder_module.Recorder) -> None:
    """Waits until all that was noted is written."""
    done = threading.Event()
    recorder._notes.put(recorder._flush)
    recorder._notes.put(done.set)
    assert done.wait(30)


def first_sessions(folder: Path) -> list[int]:
    found = []
    for path in recordings_in(folder):
        with Recording(path) as held:
            found.append(held.header.first_session)
    return found


@pytest.mark.parametrize(
    "limit", [{"longest_ns": 5 * SECOND}, {"most_bytes": 6_000}], ids=["age", "size"]
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
    assert numbers == sorted(numbers)
    total = 0
    for path in recordings_in(tmp_path):
        with Recording(path) as held:
            if not any(entry.HasField("session_end") for entry in held.entries()):
                continue
        total += assert_replay_identical(path, statuses=True).sessions
    assert total == 40


def test_only_the_newest_files_are_kept_when_asked(tmp_path: Path) -> None:
    walk = Walk(3)
    walk.record(tmp_path, longest_ns=SECOND, kept_files=2)
    walk.run(30)
    walk.close()
    assert 1 <= len(recordings_in(tmp_path)) <= 2


def test_a_recorder_without_files_and_listeners_takes_no_notes() -> None:
    walk = Walk(1)
    idle = recorder_module.Recorder(walk.origin)
    walk.recorders.append(idle)
    walk.run(3)
    assert idle._notes.empty()
    walk.close()


def test_a_disk_that_fails_ends_the_recording_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    walk = Walk(1)
    walk.record(blocked / "folder")
    walk.run(5)
    walk.close()
    assert len(walk.results) == 5
    assert "no longer recorded" in caplog.text


def test_what_cannot_keep_up_begins_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recorder_module, "_MOST_NOTES", 0)
    walk = Walk(4)
    recorder = walk.record(tmp_path)
    recorder._notes.put(lambda: None)
    recorder._notes.put(lambda: None)
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
    recorder.listen(kept, walk.state, walk.now_ns)
    walk.run(3)
    walk.close()
    kinds = [entry.WhichOneof("entry") for entry in kept.entries]
    assert kinds[:2] == ["header", "checkpoint"]
    assert [e.session_end.session for e in kept.entries if e.HasField("session_end")] == [6, 7, 8]
    assert kept.ends == [False]
