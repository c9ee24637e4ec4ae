"""``pumice tune``: a search that can be repeated, and whose evaluations can be run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pumice.cli.main import run
from pumice.evaluation.candidate import check_configuration
from pumice.evaluation.ranking import dominates
from pumice.evaluation.search import Search
from pumice.evaluation.search_space import ARGUMENTS, read_body, space_of
from pumice.recordings import RecordingError
from pumice.server.local import built_in_configuration
from pumice.testing import recordings_in
from pumice.v1.configuration_pb2 import Configuration

TROUBLE = next(
    path
    for path in recordings_in(Path(__file__).parents[1] / "recordings")
    if path.stem == "trouble"
)
GOALS = ["--goal", "wait.mean", "--goal", "use.cpu"]


def tuned(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    asked = ["tune", str(TROUBLE), *GOALS, "--into", str(folder), "--processes", "1", "--json"]
    assert run([*asked, *options]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_seed_gives_the_same_evaluations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--evaluations", "5", "--seed", "7", "--vary", "queues/*/weight=1,9")
    one, two = (tuned(tmp_path / name, capsys, *options) for name in "ab")
    texts = [
        json.dumps(found).replace(str(tmp_path / name), "")
        for name, found in zip("ab", (one, two), strict=True)
    ]
    assert texts[0] == texts[1]
    assert one["ended"] == "5 evaluations were made"
    assert one["evaluations"][0]["changes"] == {}
    other = tuned(tmp_path / "c", capsys, "--evaluations", "5", "--seed", "8")
    changes = [[each["changes"] for each in found["evaluations"]] for found in (one, other)]
    assert changes[0] != changes[1]


def test_trade_offs_are_those_that_none_beats_and_each_runs_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = tuned(tmp_path / "a", capsys, "--evaluations", "6")["evaluations"]
    costs = [(one["goals"]["wait.mean"], -one["goals"]["use.cpu"]) for one in found]
    for one, own in zip(found, costs, strict=True):
        if one["best"]:
            assert not any(dominates(other, own) for other in costs)
    assert any(one["best"] for one in found)
    words = found[3]["command"].split()
    assert run([*words[1:], "--json"]) == 0
    again = {goal["name"]: goal["new"] for goal in json.loads(capsys.readouterr().out)["goals"]}
    assert again["wait.mean"] == found[3]["goals"]["wait.mean"]
    assert again["use.cpu"] == found[3]["goals"]["use.cpu"]


def test_time_ends_a_search_after_the_base(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = tuned(tmp_path / "a", capsys, "--minutes", "0.00001")
    assert found["ended"] == "the time limit is reached"
    assert len(found["evaluations"]) == 1


def test_a_search_that_ends_early_keeps_its_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Search._judge

    def once(search: Search, *arguments: Any) -> None:
        if search.evaluations:
            raise RecordingError("rec", "is gone")
        judge(search, *arguments)

    monkeypatch.setattr(Search, "_judge", once)
    folder = tmp_path / "a"
    assert run(["tune", str(TROUBLE), *GOALS, "--into", str(folder), "--processes", "1"]) == 2
    assert [file.name for file in folder.iterdir()] == ["00.yaml"]


def test_the_output_shows_the_configuration_and_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["tune", str(TROUBLE), *GOALS, "--into", str(tmp_path / "a"), "--processes", "1"]
    assert run([*asked, "--evaluations", "1"]) == 0
    text = capsys.readouterr().out
    assert "recorded" in text
    assert f"pumice replay {TROUBLE} --candidate {tmp_path}/a/00.yaml" in text
    assert "- name: gang" in text


def test_every_varied_argument_is_one_of_its_plugin() -> None:
    for plugin, arguments in ARGUMENTS.items():
        for name, values in arguments.items():
            for value in values:
                text = (
                    'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n'
                    f"  - name: {plugin}\n    arguments: {{{name}: {value}}}\n"
                )
                check_configuration(name, Configuration(scheduler_conf=text))


def test_switches_turn_around_what_the_base_has() -> None:
    body = read_body(built_in_configuration())
    space = {dimension.name: dimension for dimension in space_of(body, {})}
    for name in ("action preempt", "plugin binpack"):
        dimension = space[name]
        assert dimension.values == (True,)
        assert dimension.change is not None
        dimension.change(body, True)
    assert body["actions"] == "enqueue, allocate, preempt, backfill"
    assert body["tiers"][-1]["plugins"][-1] == {"name": "binpack"}
    change = space["plugin nodeorder"].change
    assert space["plugin nodeorder"].values == (False,)
    assert change is not None
    change(body, False)
    assert {"name": "nodeorder"} not in body["tiers"][-1]["plugins"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--goal", "speed"], "unknown goal 'speed'"),
        (["--vary", "queues/a/weight"], "expected PATH=VALUE,VALUE"),
        (["--vary", "queues/a/weight=0"], "from 1 to 65535"),
        (["--vary", "queues/a/weight=3"], "queues/a: matches no object of the recording"),
        (["--conf", "{}/list.yaml"], "expected a mapping with actions"),
        (["--into", "{}"], "is not empty"),
    ],
)
def test_what_cannot_be_searched_is_said(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "list.yaml").write_text("- 1\n")
    asked = ["tune", str(TROUBLE), "--goal", "wait.p90", "--into", f"{tmp_path}/a"]
    asked += ["--processes", "1", *(word.format(tmp_path) for word in options)]
    assert run([*asked, "--evaluations", "1"]) == 2
    assert said in capsys.readouterr().err
