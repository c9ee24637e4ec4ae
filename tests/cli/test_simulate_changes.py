"""``pumice simulate``: what happens between the cycles of a scenario, and conditions."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import job, node, outcome, pumice, queue, scenario

Capture = pytest.CaptureFixture[str]


def checked(tmp_path: Path, capsys: Capture, body: dict[str, Any]) -> Any:
    file = tmp_path / "small.json"
    file.write_text(json.dumps(body), encoding="utf-8")
    return pumice(capsys, "simulate", "--check", file)


def changing(*changes: Any, expect: list[Any], objects: Any = None) -> dict[str, Any]:
    given = objects or (node("n1"), queue(), *job("a"))
    return {**scenario(*given, cycles=len(expect), expect=expect), "changes": list(changes)}


def pod(name: str = "a-0", **fields: Any) -> dict[str, Any]:
    found = next(o for o in job("a") if o["kind"] == "Pod" and o["metadata"]["name"] == name)
    return {**found, **fields}


def test_objects_come_and_go_between_cycles(tmp_path: Path, capsys: Capture) -> None:
    b = [{"upsert": {**o, "status": o.get("status", {"phase": "Pending"})}} for o in job("b")]
    expect = [
        outcome({"team/a-0": "n1"}, a="Inqueue"),
        outcome({"team/b-0": "n1"}, a="Running", b="Inqueue"),
        outcome({}, b="Running"),
    ]
    gone = [{"delete": {"kind": k, "namespace": "team", "name": n}} for k, n in
            (("PodGroup", "a"), ("Pod", "a-0"), ("Pod", "never-there"))]  # fmt: skip
    done = checked(tmp_path, capsys, changing(b, gone, expect=expect))
    assert (done.code, done.out) == (0, "1 passed, 0 failed\n")


def test_a_pod_that_changes_keeps_its_node_and_one_that_is_gone_does_not_come_back(
    tmp_path: Path, capsys: Capture
) -> None:
    ended = {"upsert": pod(status={"phase": "Succeeded"})}
    without_status = {k: v for k, v in pod().items() if k != "status"}
    expect = [
        outcome({"team/a-0": "n1"}, a="Inqueue"),
        outcome({}, a="Running"),
        outcome({}, a="Completed"),
        outcome({}, a="Pending"),
    ]
    delete = {"delete": {"kind": "Pod", "namespace": "team", "name": "a-0"}}
    changes = ([{"upsert": without_status}], [ended], [delete, {"upsert": without_status}, ended])
    done = checked(tmp_path, capsys, changing(*changes, expect=expect))
    assert (done.code, done.out) == (0, "1 passed, 0 failed\n")


UNSCHEDULABLE = (
    "1/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 1 minAvailable; "
    "Pending: 1 Unschedulable. Origin reason is {}: 0/1 nodes are unavailable: 1 Insufficient cpu."
)


@pytest.mark.parametrize("key", ["conditions", "conditions_any"])
@pytest.mark.parametrize(("task", "passes"), [("a-0", True), ("another", True), ("", False)])
def test_conditions_are_compared_but_for_the_task_that_is_named(
    tmp_path: Path, capsys: Capture, key: str, task: str, passes: bool
) -> None:
    text = UNSCHEDULABLE.format(task) if task else "something else"
    conditions: list[Any] = [["Unschedulable", "True", "NotEnoughResources", text]]
    if key.endswith("_any"):
        conditions = [[["Scheduled", "True", "", ""]], conditions]
    told = ["False", "Unschedulable", "0/1 nodes are unavailable: 1 Insufficient cpu.", ""]
    cycle = {**outcome({}, a="Inqueue"), key: {"team/a": conditions}}
    cycle["pod_conditions"] = {"team/a-0": told}
    small = (node("n1", cpu="100m"), queue(), *job("a"))
    done = checked(tmp_path, capsys, scenario(*small, expect=[cycle]))
    assert done.code == (0 if passes else 1)
    if not passes:
        expected, decided = done.out.split("; decided ")
        assert ("Scheduled" if key.endswith("_any") else "something else") in expected
        assert "Insufficient cpu" in decided


@pytest.mark.parametrize(("cpu", "node_of"), [(95, {}), (15, {"team/a-0": "n1"})])
def test_metrics_are_the_measured_usage_of_nodes(
    tmp_path: Path, capsys: Capture, cpu: int, node_of: dict[str, str]
) -> None:
    body = changing(expect=[outcome(node_of, a="Inqueue")])
    body["conf"] = (
        "actions: enqueue, allocate\n"
        "tiers: [{plugins: [{name: gang}, {name: predicates}, {name: usage}]}]\n"
        "metrics: {type: prometheus, address: 'http://prometheus:9090'}\n"
    )
    body["metrics"] = {"n1": {"cpu": cpu, "memory": 5}}
    done = checked(tmp_path, capsys, body)
    assert (done.code, done.out) == (0, "1 passed, 0 failed\n")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"changes": {}}, "changes: invalid value {}"),
        ({"changes": [[{"delete": {"kind": "Pod"}}]]}, "changes[0][0]"),
        ({"changes": [[{"replace": {}}]]}, "changes[0][0]"),
        ({"changes": [[{"upsert": {"kind": "ConfigMap", "apiVersion": "v1",
                                   "metadata": {"name": "x"}}}]]}, "changes[0][0]"),
        ({"metrics": {"n1": {"gpu": 3}}}, "metrics.n1"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(
    tmp_path: Path, capsys: Capture, fields: dict[str, Any], words: str
) -> None:
    expect = [outcome({}, a="Inqueue")] * 2
    done = checked(tmp_path, capsys, {**changing(expect=expect), **fields})
    assert done.code != 0
    assert words in done.out + done.err
