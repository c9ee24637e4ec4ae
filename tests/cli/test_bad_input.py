"""The wrong way: one line that says what, where and what is allowed; exit code 2; no trace."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.commands import CONF, job, node, outcome, process, pumice, queue, scenario

Capture = pytest.CaptureFixture[str]

BAD_FILES: dict[str, tuple[str, str]] = {
    "malformed YAML": ("a: [1,\nb: 2\n", "file.yaml:3: invalid YAML"),
    "text": ("hello\n", "given where an object was expected; allowed: an object with apiVersion"),
    "no objects": ("# nothing\n", "contains no objects"),
    "no kind": ("metadata: {name: a}\n", "apiVersion: is missing"),
}
BAD_SCENARIOS: dict[str, tuple[dict[str, Any], str]] = {
    "conf missing": ({"conf": None}, "conf is missing; allowed: the text of a scheduler conf"),
    "cycles missing": ({"cycles": None}, "cycles is missing; allowed: a whole number from 1"),
    "no cycles": ({"cycles": 0}, "cycles: invalid value 0; allowed: a whole number from 1"),
    "true cycles": ({"cycles": True}, "cycles: invalid value True"),
    "objects": ({"objects": {}}, "objects: invalid value {}; allowed: a list of Kubernetes"),
    "unknown key": ({"expcet": []}, "unknown key 'expcet'; did you mean 'expect'?"),
    "short expect": ({"expect": []}, "expect: has 0 entries; allowed: 1, one per cycle"),
    "odd expect": ({"expect": [{"binds": []}]}, "expect[0].binds: invalid value []; allowed"),
    "expect key": ({"expect": [{"bind": {}}]}, "expect[0]: key 'bind'; did you mean 'binds'?"),
    "both": ({"expect": [], "expect_any": []}, "has both expect and expect_any"),
    "conf is no YAML": ({"conf": "actions: ["}, "configuration line 1: invalid YAML"),
    "unknown action": (
        {"conf": CONF.replace("backfill", "backfil")},
        "configuration line 1: actions: unknown action 'backfil'; did you mean 'backfill'?",
    ),
    "unknown plugin": (
        {"conf": CONF.replace("gang", "gnag")},
        "line 5: tiers[0].plugins[1].name: unknown plugin 'gnag'; did you mean 'gang'?",
    ),
    "unknown conf key": ({"conf": CONF + "tears: []\n"}, "line 9: tears: unknown key 'tears'; did"),
}


def one_line(text: str) -> str:
    assert text.startswith("pumice: "), text
    assert text.count("\n") == 1, text
    assert "Traceback" not in text
    return text


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_cannot_be_read(name: str, tmp_path: Path, capsys: Capture) -> None:
    text, problem = BAD_FILES[name]
    file = tmp_path / "file.yaml"
    file.write_text(text, encoding="utf-8")
    done = pumice(capsys, "simulate", file)
    assert done.code == 2
    assert str(file) in one_line(done.err)
    assert problem in done.err


@pytest.mark.parametrize("name", BAD_SCENARIOS)
def test_a_scenario_with_something_missing_or_wrong(
    name: str, tmp_path: Path, capsys: Capture
) -> None:
    changes, problem = BAD_SCENARIOS[name]
    body = scenario(node("n1"), queue()) | changes
    file = tmp_path / "small.json"
    text = json.dumps({key: value for key, value in body.items() if value is not None})
    file.write_text(text, encoding="utf-8")
    done = pumice(capsys, "simulate", file)
    assert done.code == 2
    assert problem in one_line(done.err)
    assert str(file) in done.err


def test_a_bad_object_is_set_aside_by_name_and_the_rest_goes_on(
    tmp_path: Path, capsys: Capture
) -> None:
    huge = node("n3")
    huge["status"]["allocatable"]["memory"] = "7Ei"
    objects = [node("n1"), node("n2", "-4"), huge, node("n1"), queue(), *job("a")]
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    done = pumice(capsys, "simulate", file)
    assert done.code == 2
    assert "bind team/a-0 n1" in done.out
    negative, twice, absurd = done.err.splitlines()
    assert "Node n2: status.allocatable[cpu]: -4 is negative; allowed: zero or more" in negative
    assert "Node n1: metadata.name: duplicate name, first used at" in twice
    assert "Node n3: allocatable[memory]:" in absurd
    assert all(line.endswith("(set aside)") for line in done.err.splitlines())


def test_a_bad_file_fails_a_check_and_the_others_are_checked(
    tmp_path: Path, capsys: Capture
) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    right = [outcome({"team/a-0": "n1"}, a="Inqueue")]
    body = scenario(node("n1"), queue(), *job("a"), expect=right)
    good.write_text(json.dumps(body), encoding="utf-8")
    bad.write_text("{", encoding="utf-8")
    done = pumice(capsys, "simulate", "--check", bad, good)
    assert (done.code, done.out) == (2, "1 passed, 1 failed\n")
    assert str(bad) in one_line(done.err)


def test_a_scenario_without_expectations_cannot_be_checked(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "small.json"
    file.write_text(json.dumps(scenario(node("n1"))), encoding="utf-8")
    done = pumice(capsys, "simulate", "--check", file)
    assert (done.code, done.out) == (2, "0 passed, 1 failed\n")
    assert "expect is missing; --check needs expect or expect_any" in one_line(done.err)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["simulat"], "unknown command 'simulat'; did you mean 'simulate'? See 'pumice --help'."),
        (["adapter", "moon"], "unknown command 'moon'; allowed: "),
        (["simulate"], "Missing argument 'FILE…'. See 'pumice simulate --help'."),
        (["simulate", "--chekc", "x"], "No such option '--chekc'"),
        (
            ["simulate", "x", "--now", "noon"],
            "invalid time 'noon'; allowed: RFC 3339, such as 2026",
        ),
        (["simulate", "x", "--cycles", "0"], "0 is not in the range 1<=x<=100000"),
        (["simulate", "x", "--check", "--cycles", "2"], "--cycles cannot be used with --check"),
        (["simulate", "nowhere.json"], "nowhere.json: No such file or directory"),
        (["simulate", "x", "--scheduler-conf", "nowhere"], "nowhere: No such"),
        (["conf", "check", "nowhere.conf"], "nowhere.conf: No such file"),
    ],
)
def test_a_command_given_wrongly(arguments: list[str], problem: str, capsys: Capture) -> None:
    done = pumice(capsys, *arguments)
    assert (done.code, done.out) == (2, "")
    assert problem in one_line(done.err)


def test_a_trace_is_for_those_who_ask() -> None:
    hidden = process("simulat")
    assert (hidden.code, "Traceback" in hidden.err) == (2, False)
    shown = process("--traceback", "simulat")
    assert shown.code == 1
    assert "Traceback" in shown.err


def test_a_bug_is_one_line_too(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("pumice.cli.main.pumice.main", broken)
    done = pumice(capsys, "version")
    assert done.code == 1
    assert "internal error: RuntimeError: two lines; this is a bug" in one_line(done.err)
