"""``pumice recording``, and recordings that are damaged, incomplete or not alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pumice.cli.main import run
from pumice.cli.simulation.reports import clock
from pumice.evaluation import Candidate, what_if
from pumice.recordings import Recording, RecordingError
from pumice.recordings.history import History
from pumice.recordings.redaction import pseudonyms
from pumice.testing import assert_replay_identical, recordings_in
from tests.replay.walks import recorded

GOLDEN = recordings_in(Path(__file__).parents[1] / "recordings")
DEMO = next(path for path in GOLDEN if "evictions" in path.stem)


def times() -> list[int]:
    with Recording(DEMO) as held:
        return History.read(held.entries()).ticks


@pytest.fixture(scope="module")
def thirds(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The demo in three files, as a rotation makes them."""
    folder = tmp_path_factory.mktemp("thirds")
    ticks = times()
    first, second = ticks[60], ticks[120]
    parts = [
        ("1", ["--until", clock(first - 1)]),
        ("2", ["--from", clock(first), "--until", clock(second - 1)]),
        ("3", ["--from", clock(second)]),
    ]
    for name, options in parts:
        target = folder / f"{name}.pumice"
        assert run(["recording", "cut", str(DEMO), "-o", str(target), *options]) == 0
    return sorted(folder.glob("*.pumice"))


def told(capsys: pytest.CaptureFixture[str]) -> str:
    found = capsys.readouterr()
    return found.out + found.err


def test_info_shows_what_a_recording_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recording", "info", str(DEMO)]) == 0
    text = capsys.readouterr().out
    assert "sessions       168 (1 to 168)" in text
    assert "371 binds, 25 evictions" in text
    assert run(["recording", "info", str(DEMO), "--json", "--strict"]) == 0
    found = json.loads(capsys.readouterr().out)["recordings"][0]
    assert (found["session_count"], found["problems"], found["is_closed"]) == (168, [], True)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_time_range_replays_as_recorded(path: Path, tmp_path: Path) -> None:
    with Recording(path) as held:
        ticks = History.read(held.entries()).ticks
    target = tmp_path / "part.pumice"
    begin, end = ticks[len(ticks) // 3], ticks[2 * len(ticks) // 3]
    asked = ["recording", "cut", str(path), "-o", str(target)]
    assert run([*asked, "--from", clock(begin), "--until", clock(end)]) == 0
    found = assert_replay_identical(target, statuses=True, strict=True)
    assert found.first_ns == begin
    assert 0 < found.sessions < len(ticks)


def test_parts_that_are_joined_are_the_whole(thirds: list[Path], tmp_path: Path) -> None:
    target = tmp_path / "whole.pumice"
    assert run(["recording", "join", *map(str, reversed(thirds)), "-o", str(target)]) == 0
    assert assert_replay_identical(target, statuses=True).sessions == 168
    old, new = (what_if([path], Candidate()).old for path in (DEMO, target))
    assert {name: job.wait for name, job in old.jobs.items()} == {
        name: job.wait for name, job in new.jobs.items()
    }


def test_a_missing_file_in_the_middle_is_named(
    thirds: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gap = "sessions 61 to 120 are missing: 1.pumice ends before them, and 3.pumice begins after"
    ends = [str(thirds[0]), str(thirds[2])]
    for code, command in (
        (0, ["replay", *ends]),
        (2, ["replay", *ends, "--strict"]),
        (0, ["replay", *ends, "--closed"]),
        (2, ["replay", *ends, "--closed", "--strict"]),
        (0, ["recording", "info", *ends]),
        (2, ["recording", "info", *ends, "--strict"]),
        (2, ["recording", "join", *ends, "--strict", "-o", str(tmp_path / "no.pumice")]),
        (0, ["recording", "join", *ends, "-o", str(tmp_path / "yes.pumice")]),
    ):
        assert run(command) == code, command
        assert gap in " ".join(told(capsys).split()), command


def test_a_recording_twice_is_refused(
    thirds: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twice = [str(thirds[1]), str(thirds[1])]
    assert run(["recording", "join", *twice, "-o", str(tmp_path / "x.pumice")]) == 2
    assert "name each recording only once" in told(capsys)
    assert run(["replay", *twice, "--closed"]) == 2
    assert "name each recording only once" in told(capsys)


def test_a_folder_is_read_to_its_end(
    thirds: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in thirds:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "2.pumice").write_text("no recording at all")
    assert run(["replay", str(tmp_path)]) == 2
    text = told(capsys)
    assert text.count("identical: ") == 2
    assert "2.pumice: is not a recording of pumice" in text
    assert run(["replay", str(tmp_path), "--closed"]) == 2
    text = told(capsys)
    assert "2.pumice: is not a recording of pumice" in text
    assert "sessions 61 to 120 are missing" in " ".join(text.split())
    assert "the same in all" in text
    assert run(["recording", "info", str(tmp_path)]) == 2
    assert told(capsys).count("cluster        demo") == 2


def test_a_flipped_bit_is_damage_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "flipped.pumice"
    body = bytearray(DEMO.read_bytes())
    with Recording(DEMO) as held:
        where = held.frames()[5].offset_bytes
    body[where + 40] ^= 4
    path.write_bytes(body)
    for command in (["replay"], ["replay", "--closed"], ["recording", "info"]):
        assert run([*command, str(path)]) == 0
        assert f"the frame at byte {where}" in told(capsys)
        assert run([*command, str(path), "--strict"]) == 2
        told(capsys)


def test_wherever_a_file_is_cut_off_there_is_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, body = tmp_path / "torn.pumice", DEMO.read_bytes()
    for size in (0, 3, 8, 20, 482, 500, 12_700, len(body) - 1):
        path.write_bytes(body[:size])
        for command in (["replay"], ["replay", "--closed"], ["recording", "info"]):
            assert run([*command, str(path)]) in (0, 2)
            text = told(capsys)
            assert text
            assert "internal error" not in text, (size, command)


def test_jobs_and_queues_are_cut_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "rest.pumice"
    asked = ["recording", "cut", str(DEMO), "--without-queue", "research", "-o", str(target)]
    assert run([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["jobs_left_out"] == 26
    assert found["differing_sessions"] > 0
    assert "influenced them" in found["notes"][0]
    with Recording(target) as held:
        history = History.read(held.entries())
    assert {job.queue for job in history.jobs.values()} == {"default", "production"}
    one = tmp_path / "one.pumice"
    assert run(["recording", "cut", str(DEMO), "--job", "*/job-0001", "-o", str(one)]) == 0
    with Recording(one) as held:
        assert list(History.read(held.entries()).jobs) == ["simulated/job-0001"]
    assert what_if([one], Candidate()).old.jobs.keys() == {"simulated/job-0001"}


def test_anonymised_recordings_share_their_names(
    thirds: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "key"
    key.write_text("a key that is long enough")
    folder = tmp_path / "anonymous"
    asked = ["recording", "anonymise", *map(str, thirds), "--key-file", str(key)]
    assert run([*asked, "-o", str(folder)]) == 0
    made = sorted(folder.glob("*.pumice"))
    assert len(made) == 3
    jobs = []
    for path in made:
        assert_replay_identical(path)
        with Recording(path) as held:
            assert held.header.redacted
            jobs.append(set(History.read(held.entries()).jobs))
            text = " ".join(str(entry) for entry in held.entries())
        assert "job-00" not in text
        assert "research" not in text
    assert jobs[0] & jobs[1]
    joined = tmp_path / "joined.pumice"
    assert run(["recording", "join", *map(str, made), "-o", str(joined)]) == 0
    assert assert_replay_identical(joined).sessions == 168


def test_a_hash_of_a_name_depends_on_the_key_alone() -> None:
    with Recording(DEMO) as held, Recording(GOLDEN[-1]) as other:
        one = pseudonyms([held], b"key").name("production")
        two = pseudonyms([held, other], b"key").name("production")
        third = pseudonyms([held], b"other").name("production")
    assert one.rpartition("-h")[2] == two.rpartition("-h")[2] != third.rpartition("-h")[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["cut", str(DEMO), "-o", "{}/x.pumice"], "nothing selected"),
        (["cut", str(DEMO), "-o", "{}/x.rec", "--queue", "default"], "must end in .pumice"),
        (["cut", str(DEMO), "-o", "{}/there.pumice", "--queue", "default"], "already exists"),
        (["cut", str(DEMO), "-o", "{}/x.pumice", "--queue", "nobody"], "the selection has no jobs"),
        (
            ["cut", str(DEMO), "-o", "{}/x.pumice", "--from", "2031-01-01T00:00:00Z"],
            "contains no session at or after",
        ),
        (["join", *map(str, GOLDEN), "-o", "{}/x.pumice"], "several clusters"),
        (["join", "{}/none.pumice", "-o", "{}/x.pumice"], "No such file"),
        (["anonymise", str(DEMO), "-o", "{}/x.pumice", "--key-file", "{}/short"], "16 bytes"),
        (["anonymise", *map(str, GOLDEN), "-o", "{}/x.pumice"], "several recordings need a folder"),
        (["inform", str(DEMO)], "did you mean 'info'"),
    ],
)
def test_what_cannot_be_copied_is_said(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there.pumice").write_text("")
    (tmp_path / "short").write_text("short")
    assert run(["recording", *(word.format(tmp_path) for word in arguments)]) == 2
    assert said in told(capsys)
    assert not (tmp_path / "x.pumice").exists()


def test_a_recording_without_jobs_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "short.pumice"
    recorded(path, seed=1, sessions=1)
    assert run(["replay", str(path), "--closed", "--page", str(tmp_path / "p.html")]) == 0
    assert "the same in all" in told(capsys)
    assert (tmp_path / "p.html").exists()
    recorded(tmp_path / "none.pumice", seed=1, sessions=0)
    with pytest.raises(RecordingError, match="contains no session"):
        what_if([tmp_path / "none.pumice"], Candidate())
