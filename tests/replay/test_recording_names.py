"""Recordings of different clusters never share a file, and nobody else can read them."""

import stat
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pumice.server.recording.files import RecordingFiles, RecordingOptions, file_name_of

NOW = 1_800_000_000 * 1_000_000_000


@given(st.lists(st.text(min_size=1, max_size=253), unique=True, min_size=2, max_size=2))
def test_two_clusters_have_two_names(names: list[str]) -> None:
    first, second = map(file_name_of, names)
    assert first != second
    assert all(len(name) <= 180 and not name.startswith(".") for name in (first, second))


def test_names_that_differ_in_one_character_stay_apart() -> None:
    alike = ["a/b", "a_b", "a%2Fb", "a~b", "a.b", ".a", "x" * 253, "x" * 252 + "y"]
    assert len({file_name_of(name) for name in alike}) == len(alike)


def test_a_cluster_deletes_its_own_files_only(tmp_path: Path) -> None:
    options = RecordingOptions(tmp_path / "kept", kept_files=1)
    sinks = [RecordingFiles(options, name) for name in ("a/b", "a_b")]
    for number in range(2):
        for sink in sinks:
            sink.begin(number + 1, NOW + number)
    left = sorted(path.name for path in options.path.iterdir())
    assert [name.partition("-")[0] for name in left] == ["a%2Fb", "a_b"]
    for sink in sinks:
        sink.close()


def test_the_longest_name_is_recorded(tmp_path: Path) -> None:
    sink = RecordingFiles(RecordingOptions(tmp_path), "\u00e4" * 253)
    sink.begin(1, NOW)
    sink.close()
    assert len(list(tmp_path.iterdir())) == 1


def test_files_and_folders_are_for_their_owner_only(tmp_path: Path) -> None:
    options = RecordingOptions(tmp_path / "recordings")
    sink = RecordingFiles(options, "c1")
    sink.begin(1, NOW)
    sink.close()
    (file,) = options.path.iterdir()
    assert stat.S_IMODE(options.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
