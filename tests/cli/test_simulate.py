"""``pumice simulate``: clusters in files, and what is decided on them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.commands import CONF, job, node, outcome, process, pumice, queue, scenario

Capture = pytest.CaptureFixture[str]


def written(folder: Path, body: Any, name: str = "small.json") -> Path:
    path = folder / name
    path.write_text(body if isinstance(body, str) else json.dumps(body), encoding="utf-8")
    return path


def test_a_scenario_shows_what_each_cycle_decides(tmp_path: Path, capsys: Capture) -> None:
    file = written(tmp_path, scenario(node("n1"), queue(), *job("a", 2), *job("b", 3), cycles=2))
    done = pumice(capsys, "simulate", file)
    assert done.code == 0
    assert done.err == ""
    first, second = done.out.split("cycle 2")
    assert "1 nodes, 1 queues, 2 pod groups, 5 pods" in first
    assert "cycle 1  2026-11-15T12:00:00Z\n  bind team/a-0 n1\n  bind team/a-1 n1\n" in first
    assert "2026-11-15T12:00:01Z" in second
    waits = next(line for line in second.splitlines() if "team/b" in line)
    assert waits.split() == [
        "team/b",
        "Inqueue",
        "allocate",
        "b-2:",
        "no",
        "node",
        "fits:",
        "1",
        "Insufficient",
        "cpu",
    ]
    assert "2/3 tasks fit" in second


def test_json_says_the_same_for_programs(tmp_path: Path, capsys: Capture) -> None:
    file = written(tmp_path, scenario(node("n1"), queue(), *job("a", 2), *job("b", 3)))
    done = pumice(capsys, "simulate", "--json", file)
    (run,) = json.loads(done.out)["runs"]
    (cycle,) = run["cycles"]
    assert (run["name"], run["family"], run["set_aside"]) == ("small", "tests", [])
    assert cycle["binds"] == {"team/a-0": "n1", "team/a-1": "n1"}
    assert cycle["podgroups"] == {"team/a": "Inqueue", "team/b": "Inqueue"}
    assert [reason["author"] for reason in cycle["waits"][0]["reasons"]] == ["allocate", "gang"]


def test_manifests_are_one_cluster(tmp_path: Path, capsys: Capture) -> None:
    nodes = written(tmp_path, yaml.safe_dump_all([node("n1"), node("n2")]), "nodes.yaml")
    jobs = written(tmp_path, {"kind": "List", "apiVersion": "v1", "items": job("a", 8)}, "j.json")
    conf = written(tmp_path, CONF, "scheduler.conf")
    done = pumice(capsys, "simulate", nodes, jobs, "--scheduler-conf", conf)
    assert done.code == 0, done.err
    assert done.out.count("bind team/a-") == 8


def test_manifests_without_a_configuration_get_the_built_in_one(
    tmp_path: Path, capsys: Capture
) -> None:
    file = written(tmp_path, yaml.safe_dump_all([node("n1"), *job("a")]), "cluster.yaml")
    done = pumice(capsys, "simulate", file, "--cycles", 3, "--now", "2027-01-01T00:00:00Z")
    assert done.code == 0
    assert "cycle 3  2027-01-01T00:00:02Z\n  nothing" in done.out


def test_a_given_configuration_overrules_the_scenario(tmp_path: Path, capsys: Capture) -> None:
    file = written(tmp_path, scenario(node("n1", "2"), queue(), *job("a", 3)))
    conf = written(tmp_path, CONF.replace("  - name: gang\n", ""), "loose.conf")
    assert "bind" not in pumice(capsys, "simulate", file).out
    done = pumice(capsys, "simulate", file, "--scheduler-conf", conf)
    assert done.out.count("bind") == 2


def test_standard_input_is_read(tmp_path: Path) -> None:
    done = process("simulate", "-", stdin=yaml.safe_dump_all([node("n1"), *job("a")]))
    assert (done.code, done.err) == (0, "")
    assert "bind team/a-0 n1" in done.out


# Checking.


def test_a_file_that_comes_out_as_expected_passes(tmp_path: Path, capsys: Capture) -> None:
    right = [outcome({"team/a-0": "n1"}, a="Inqueue")]
    body = scenario(node("n1"), queue(), *job("a"), expect=right)
    done = pumice(capsys, "simulate", "--check", written(tmp_path, body))
    assert (done.code, done.out, done.err) == (0, "1 passed, 0 failed\n", "")


def test_any_node_is_right_where_the_file_says_so(tmp_path: Path, capsys: Capture) -> None:
    right = [outcome({"team/a-0": "*"}, a="Inqueue")]
    body = scenario(node("n1"), queue(), *job("a"), expect=right)
    assert pumice(capsys, "simulate", "--check", written(tmp_path, body)).code == 0


def test_a_difference_is_one_line_with_what_was_expected_and_decided(
    tmp_path: Path, capsys: Capture
) -> None:
    wrong = [outcome({"team/a-0": "n2"}, a="Running")]
    file = written(tmp_path, scenario(node("n1"), queue(), *job("a"), expect=wrong))
    done = pumice(capsys, "simulate", "--check", file)
    assert done.code == 1
    assert done.out.splitlines() == [
        f"{file}: cycle 1: expected bind team/a-0 n2, team/a Running; "
        "decided bind team/a-0 n1, team/a Inqueue",
        "0 passed, 1 failed",
    ]


def test_one_of_several_outcomes_must_come_true_whole(tmp_path: Path, capsys: Capture) -> None:
    objects = (node("n1"), queue(), *job("a"))
    bound, idle = outcome({"team/a-0": "n1"}, a="Inqueue"), outcome({}, a="Running")
    late = [outcome({}, a="Inqueue"), bound]
    right = scenario(*objects, cycles=2, expect_any=[late, [bound, idle]])
    mixed = scenario(*objects, cycles=2, expect_any=[late, [bound, bound]])
    assert pumice(capsys, "simulate", "--check", written(tmp_path, right)).code == 0
    done = pumice(capsys, "simulate", "--check", written(tmp_path, mixed))
    assert done.code == 1
    assert "cycle 2: expected (the nearest of 2) bind team/a-0 n1, team/a Inqueue" in done.out


def test_check_as_json_counts_by_family(tmp_path: Path, capsys: Capture) -> None:
    right = [outcome({"team/a-0": "n1"}, a="Inqueue")]
    body = scenario(node("n1"), queue(), *job("a"), expect=right)
    good = written(tmp_path, body, "good.json")
    bad = written(tmp_path, body | {"expect": [outcome({}, a="Pending")]}, "bad.json")
    done = pumice(capsys, "simulate", "--check", "--json", good, bad)
    told = json.loads(done.out)
    assert done.code == 1
    assert (told["passed"], told["failed"]) == (1, 1)
    assert told["families"] == {"tests": {"passed": 1, "failed": 1}}
    assert [file["passed"] for file in told["files"]] == [True, False]
    assert told["files"][1]["difference"]["decided"] == ["bind team/a-0 n1", "team/a Inqueue"]


def test_a_family_can_be_picked(tmp_path: Path, capsys: Capture) -> None:
    right = [outcome({"team/a-0": "n1"}, a="Inqueue")]
    body = scenario(node("n1"), queue(), *job("a"), expect=right)
    mine = written(tmp_path, body, "mine.json")
    other = written(tmp_path, body | {"family": "other"}, "other.json")
    done = pumice(capsys, "simulate", "--check", "--family", "tests", mine, other)
    assert (done.code, done.out) == (0, "1 passed, 0 failed\n")
    done = pumice(capsys, "simulate", "--check", "--family", "none", mine, other)
    assert done.code == 2
    assert done.err == "pumice: unknown family 'none'; families: other, tests\n"


def test_the_corpus_is_checked_in_a_process() -> None:
    files = sorted(Path(__file__).parents[1].glob("conformance/default-*.json"))
    done = process("simulate", "--check", *files)
    assert (done.code, done.out, done.err) == (0, f"{len(files)} passed, 0 failed\n", "")
