"""``pumice conf check``: is this configuration right, and what does each line do."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import CONF, process, pumice

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "scheduler.conf"
    path.write_text(CONF, encoding="utf-8")
    return path


def test_a_good_configuration_is_explained_line_by_line(conf: Path, capsys: Capture) -> None:
    done = pumice(capsys, "conf", "check", conf)
    assert (done.code, done.err) == (0, "")
    rows = [line.split(maxsplit=1) for line in done.out.splitlines()]
    assert ["4", "priority: orders jobs and pods by priority"] in [
        [first, rest.strip()] for first, rest in (row for row in rows if len(row) == 2)
    ]
    assert rows[-1][0] == "valid,"
    assert "pages in docs/reference/plugins: priority.md, gang.md" in done.out


def test_each_problem_has_its_line_and_the_nearest_word(conf: Path, capsys: Capture) -> None:
    text = CONF.replace("gang", "gnag").replace("nodeorder", "nodeordr")
    conf.write_text(text, encoding="utf-8")
    done = pumice(capsys, "conf", "check", conf)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == [
        f"pumice: {conf}:5: tiers[0].plugins[1].name: unknown plugin 'gnag'; did you mean 'gang'?",
        f"pumice: {conf}:8: tiers[1].plugins[1].name: unknown plugin 'nodeordr'; "
        "did you mean 'nodeorder'?",
    ]


def test_json(conf: Path, capsys: Capture) -> None:
    good = json.loads(pumice(capsys, "conf", "check", conf, "--json").out)
    assert good["valid"] is True
    assert good["problems"] == []
    assert good["hash"]
    assert {note["line"] for note in good["notes"]} == {1, 3, 4, 5, 6, 7, 8}
    conf.write_text(CONF.replace("gang", "gnag"), encoding="utf-8")
    done = pumice(capsys, "conf", "check", conf, "--json")
    (problem,) = json.loads(done.out)["problems"]
    assert done.code == 2
    assert (problem["line"], problem["suggestion"]) == (5, "gang")


def test_what_deserves_a_look_is_a_warning(conf: Path, capsys: Capture) -> None:
    conf.write_text("actions: allocate\n", encoding="utf-8")
    done = pumice(capsys, "conf", "check", conf)
    assert done.code == 0
    assert done.err.startswith("pumice: warning: ")


def test_an_empty_file_means_the_built_in_configuration(conf: Path, capsys: Capture) -> None:
    conf.write_text("\n", encoding="utf-8")
    done = pumice(capsys, "conf", "check", conf)
    assert done.code == 0
    assert "The file is empty: the built-in configuration would be used." in done.out


def test_a_configuration_can_come_from_a_pipe() -> None:
    done = process("conf", "check", "-", stdin="actions: alocate\n")
    assert done.code == 2
    assert "<stdin>:1: actions: unknown action 'alocate'; did you mean 'allocate'?" in done.err
