"""The builder for tests: what it makes, and what it says to mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

from pumice.core.configuration import PluginOptions
from pumice.core.session.session import Session
from pumice.testing import (
    Cluster,
    PluginFaultError,
    assert_replay_identical,
    assert_scenario,
    cluster,
    load_scenario,
    recordings_in,
)

RECORDINGS = Path(__file__).parents[1] / "recordings"
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "uid": "u1"},
    "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
}


def test_who_finishes_makes_room_for_who_waits() -> None:
    small = cluster().node("n1", cpu="2").job("first", pods=2).job("second", pods=2)
    assert set(small.cycle().binds) == {"default/first-0", "default/first-1"}
    assert small.cycle().binds == {}
    small.finish("first")
    assert set(small.cycle().binds) == {"default/second-0", "default/second-1"}


def test_a_job_that_is_removed_makes_room_and_may_come_again() -> None:
    small = cluster().node("n1", cpu="2").job("first", pods=2).job("second", pods=2)
    small.cycle()
    small.remove_job("first")
    then = small.cycle()
    assert set(then.binds) == {"default/second-0", "default/second-1"}
    assert "default/first" not in then.phases
    assert "default/first" in small.job("first", pods=2).cycle().waits


def test_nodes_and_queues_are_changed_when_they_are_named_again() -> None:
    small = cluster().node("n1", cpu="1").job("wide", pods=2)
    assert small.cycle().binds == {}
    assert len(small.node("n1", cpu="2").cycle().binds) == 2
    held = cluster().node("n1").queue("q", capability={"cpu": "1"}).job("j", cpu="2", queue="q")
    assert held.cycle().binds == {}
    assert held.queue("q", capability={"cpu": "3"}).cycle().binds == {"default/j-0": "n1"}


def test_a_node_that_is_gone_takes_no_pods() -> None:
    small = cluster().nodes(2).remove_node("n1").job("one")
    assert small.cycle().binds == {"default/one-0": "n2"}


def test_manifests_come_by_path_name_or_open(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    path.write_text(json.dumps(NODE))
    with path.open(encoding="utf-8") as opened:
        for given in (path, str(path), opened):
            assert cluster().manifests(given).job("one").cycle().binds == {"default/one-0": "n1"}


def test_a_configuration_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text('actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n')
    assert cluster(path).node("n1").job("one").cycle().binds


Mistake = Callable[[Cluster], object]


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (lambda c: c.job("a").job("a"), "job default/a: already exists"),
        (lambda c: c.queue("q", wieght=2), "queue q: unknown field wieght; allowed: weight"),
        (lambda c: c.job("a", priority_class="hihg"), "unknown priority class hihg; allowed: high"),
        (lambda c: c.job("a", cpu="four"), "'four' is not a quantity"),
        (lambda c: c.finish("a"), "job default/a: has no running pod"),
        (lambda c: c.remove_job("a"), "pod group default/a: does not exist"),
        (lambda c: c.remove_node("n9"), "node n9: does not exist"),
        (
            lambda c: c.manifest({**NODE, "kind": "ConfigMap"}),
            "scheduling does not read objects of kind ConfigMap",
        ),
        (lambda c: c.manifests("nowhere.yaml"), "nowhere.yaml: No such file"),
        (lambda _: cluster("actions: fly"), "configuration: actions: unknown action 'fly'"),
        (lambda _: cluster("scheduler.yaml"), "configuration: the file: must be a mapping"),
    ],
)
def test_mistakes_are_named(mistake: Mistake, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        mistake(cluster().node("n1").priority_class("high", 9))


def test_a_configuration_that_nobody_could_use_does_not_pass_for_identical() -> None:
    with pytest.raises(ValueError, match="unknown action 'fly'"):
        assert_replay_identical(RECORDINGS / "trouble.pumice", conf="actions: fly")


def test_a_folder_that_is_not_there_is_no_folder_without_recordings(tmp_path: Path) -> None:
    assert recordings_in(tmp_path) == []
    with pytest.raises(NotADirectoryError, match="nowhere: not a folder"):
        recordings_in(tmp_path / "nowhere")


CYCLE = {"binds": {"default/a-0": "n1"}, "evicts": [], "podgroups": {}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not a scenario: line 1"),
        ("[]", "conf is missing"),
        ('{"conf": "actions: fly"}', "unknown action 'fly'"),
        (json.dumps({"conf": "", "cycles": 2, "expect": [CYCLE]}), "has 1 entries; allowed: 2"),
        (json.dumps({"conf": "", "expect": [{"binds": {}}]}), "cycle 1: evicts is missing"),
        (json.dumps({"conf": ""}), "expect is missing"),
    ],
)
def test_what_is_no_scenario_is_refused_with_the_place(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "some.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        assert_scenario(path)


def test_a_scenario_that_comes_out_otherwise_says_what_did(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_text(json.dumps({"conf": "", "objects": [NODE], "expect": [CYCLE]}))
    assert load_scenario(path).cycles == 1
    with pytest.raises(AssertionError, match=r"expected to bind .*a-0"):
        assert_scenario(path)


class BrokenPlugin:
    """Raises whenever a node is scored."""

    name: ClassVar[str] = "broken"
    api: ClassVar[int] = 1

    def __init__(self, options: PluginOptions) -> None:
        pass

    def open(self, session: Session) -> None:
        session.hooks.node_score[self.name] = self._score

    def _score(self, task: object, node: str) -> float:
        raise ValueError("out of cheese")


BROKEN = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: broken\n"


def test_a_plugin_that_fails_fails_the_test_with_its_line() -> None:
    made = cluster(BROKEN, plugins=[BrokenPlugin]).nodes(2).job("a")
    with pytest.raises(PluginFaultError, match=r"broken .*cheese \(.*test_clusters\.py:\d+\)"):
        made.cycle()


def test_faults_can_be_allowed() -> None:
    made = cluster(BROKEN, plugins=[BrokenPlugin], allow_faults=True).nodes(2).job("a")
    cycle = made.cycle()
    assert cycle.binds == {"default/a-0": "n1"}
    assert cycle.faults[0].where == "node_score"


def test_a_plugin_that_cannot_be_used_is_an_error_of_the_test() -> None:
    other = type("Other", (BrokenPlugin,), {"api": 9})
    with pytest.raises(ValueError, match="api = 9"):
        cluster(BROKEN, plugins=[other])
