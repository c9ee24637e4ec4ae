"""``pumice replay`` and what belongs to it, as a person or a script calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pumice.cli.main import run
from pumice.recordings import Recording, redaction
from pumice.testing import assert_replay_identical, assert_scenario, recordings_in
from pumice.v1.pod_pb2 import Pod
from tests.replay.walks import PACKING, recorded

GOLDEN = recordings_in(Path(__file__).parents[1] / "recordings")


@pytest.fixture(scope="module")
def walk_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("walk") / "walk.pumice"
    recorded(path, seed=5, sessions=30)
    return path


@pytest.fixture
def packing(tmp_path: Path) -> Path:
    path = tmp_path / "packing.yaml"
    path.write_text(PACKING)
    return path


def test_identical_is_said_and_the_code_is_0(
    walk_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", str(walk_file), "--diff"]) == 0
    assert capsys.readouterr().out.startswith("identical: 30 sessions (1 to 30), ")


def test_differences_are_shown_by_session_and_pod_and_the_code_is_1(
    walk_file: Path, packing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", str(walk_file), "--diff", "--conf", str(packing)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("session ")
    assert lines[1].startswith("  team/job-")
    assert "recorded bind to" in lines[1]
    assert lines[-1].startswith("different: ")


def test_one_session_alone_is_compared(walk_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(walk_file), "--session", "17", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["first_session"], found["sessions"], found["identical"]) == (17, 1, True)


def test_until_stops_early(walk_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Recording(walk_file) as held:
        ticks = [e.tick.session_time.ToNanoseconds() for e in held.entries() if e.HasField("tick")]
    moment = f"@{ticks[9]}"
    assert run(["replay", str(walk_file), "--until", moment]) == 2
    capsys.readouterr()
    from pumice.cli.simulation.reports import clock

    assert run(["replay", str(walk_file), "--until", clock(ticks[9]), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sessions"] == 10


def test_several_recordings_are_compared_one_after_another(
    walk_file: Path, packing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", str(walk_file), str(GOLDEN[0])]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if line.endswith(".pumice:")] == [
        f"{walk_file}:",
        f"{GOLDEN[0]}:",
    ]
    assert sum(line.startswith("identical: ") for line in said) == 2
    assert run(["replay", str(walk_file), str(GOLDEN[0]), "--diff", "--conf", str(packing)]) == 1


def test_another_pace_is_a_question_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", str(GOLDEN[0]), "--no-eager", "--schedule-period", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sessions"] < 20
    assert any("not at their recorded times" in line for line in found["assumptions"])


def test_what_would_have_been_is_a_table_json_and_a_plot(
    packing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "plot.svg"
    command = ["replay", str(GOLDEN[0]), "--conf", str(packing)]
    assert run([*command, "--plot", str(plot)]) == 0
    text = capsys.readouterr().out
    for word in ("old → new", "mean wait", "evicted", "pods waiting", "assumptions:"):
        assert word in text
    assert plot.read_text().startswith("<svg ")
    assert run([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["old"]["queues"]["all"]["pods"] > 100
    assert found["new"]["queues"]["all"]["evictions"] == 0
    assert found["assumptions"]


def test_a_session_is_cut_out_as_a_scenario_that_decides_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "cut.json"
    with Recording(GOLDEN[0]) as held:
        busy = next(e.decision_batch.session for e in held.entries() if e.decision_batch.decisions)
    command = ["replay", str(GOLDEN[0]), "--session", str(busy), "--export-scenario", str(target)]
    assert run(command) == 0
    assert run(["simulate", "--check", str(target)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed"
    assert assert_scenario(target)[0].binds
    assert run([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warning"] == ""


def test_a_redacted_copy_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "redacted.pumice"
    assert run(["replay", str(GOLDEN[0]), "--redact", str(target), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == str(target)
    assert_replay_identical(target)
    assert run(["replay", str(GOLDEN[0]), "--redact", str(target)]) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replay", "{}/none.pumice"], "none.pumice: No such file"),
        (["replay", "{}/text.pumice"], "is not a recording of pumice"),
        (
            ["replay", str(GOLDEN[0]), "--session", "99999"],
            "no complete session 99999; complete sessions: 1 to 168",
        ),
        (
            ["replay", str(GOLDEN[0]), "--until", "2020-01-01T00:00:00Z"],
            "no session until then",
        ),
        (
            ["replay", str(GOLDEN[0]), "--closed", "--until", "2020-01-01T00:00:00Z"],
            "contains no session before --until",
        ),
        (["replay", *map(str, GOLDEN), "--closed"], "of several clusters: demo, sim, walk"),
        (["replay", *map(str, GOLDEN), "--session", "3"], "accepts only one recording"),
        (["replay", "{}/empty"], "no file in this folder ends in .pumice"),
        (["replay", str(GOLDEN[0]), "--diff", "--closed"], "cannot be used with --closed"),
        (["replay", str(GOLDEN[0]), "--plot", "{}/x.svg"], "--plot needs a what-if run"),
        (["replay", str(GOLDEN[0]), "--diff", "--conf", "{}/fly"], "unknown action 'fly'"),
        (["replay", str(GOLDEN[0]), "--export-scenario", "{}/x"], "needs --session"),
        (["replay", str(GOLDEN[0]), "--conf", "{}/text.pumice"], "text: configuration"),
        (["record", "{}/x.rec", "--core", "unix:{}/none"], "must end in .pumice"),
        (["record", "{}/text.pumice", "--core", "unix:{}/none"], "already exists"),
        (["record", "{}/none/new.pumice", "--core", "unix:{}/none"], "not a folder"),
        (
            ["record", "{}/new.pumice", "--tls-cert", "{}/text.pumice"],
            "only one of tls_cert and tls_key is set",
        ),
        (["adapter", "replay", "{}/text.pumice", "--core", "unix:{}/none"], "not a recording"),
        (["demo", "--record", "{}/x.rec"], "must end in .pumice"),
        (["demo", "--record", "{}/none/x.pumice"], "none is not a folder"),
        (["core", "--record", "{}/text.pumice"], "text.pumice: is not a recording"),
        (["core", "--record", "{}/fly/there"], "fly/there: Not a directory"),
        (["core", "--record-keep", "2"], "--record-keep needs --record"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    tmp_path: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.pumice").write_text("no: recording\n")
    (tmp_path / "fly").write_text("actions: fly\n")
    (tmp_path / "empty").mkdir()
    assert run([word.format(tmp_path) for word in arguments]) == 2
    problem = capsys.readouterr().err
    assert said in problem
    assert "Traceback" not in problem


def test_a_torn_file_is_replayed_and_its_end_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = tmp_path / "torn.pumice"
    with Recording(GOLDEN[0]) as held:
        end = held.frames()[4].offset_bytes
    torn.write_bytes(GOLDEN[0].read_bytes()[: end + 9])
    code = run(["replay", str(torn)])
    text = capsys.readouterr().out
    assert f"the frame at byte {end} is truncated" in text
    assert code == 0


def test_a_file_of_two_runs_is_told_as_such_and_searched_in_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "two.pumice"
    for seed, sessions in ((1, 9), (2, 4)):
        recorded(path, seed, sessions)
    assert run(["replay", str(path)]) == 0
    assert capsys.readouterr().out.startswith("identical: 13 sessions (1 to 9, 1 to 4), ")
    assert run(["replay", str(path), "--session", "8"]) == 0
    assert run(["replay", str(path), "--session", "10"]) == 2
    assert "no complete session 10; complete sessions: 1 to 9, 1 to 4" in capsys.readouterr().err


def test_a_file_without_a_whole_session_says_so(
    walk_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = tmp_path / "torn.pumice"
    with Recording(walk_file) as held:
        torn.write_bytes(walk_file.read_bytes()[: held.frames()[1].offset_bytes])
    assert run(["replay", str(torn)]) == 2
    assert capsys.readouterr().out == "nothing to compare: no complete session\n"


def test_run_times_and_numbers_of_cpus_survive_redaction() -> None:
    class Renamed:
        """Renames everything."""

        def name(self, text: str) -> str:
            return "x"

        namespace = label_key = name

    kept = {"pumice.sh/run-time": "1h30m", "pumice.sh/numa-cpus": "0-3,8"}
    pod = Pod(name="secret", annotations={**kept, "example.com/owner": "secret"})
    redaction.rewrite(pod, Renamed())
    assert dict(pod.annotations) == kept
