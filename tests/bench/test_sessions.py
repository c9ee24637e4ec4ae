"""Benchmarks inside the engine, at sizes that take no time: what they print, and that it is so."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from pumice.bench import catalogue, clusters, evicting, placing, steady_state
from pumice.bench.clusters import Size
from pumice.bench.configurations import PROFILES, Profile
from pumice.bench.report_rows import ROWS
from pumice.bench.results import Result
from pumice.core.model.group import PodDisruptionBudget, ResourceQuota, Workload
from pumice.core.model.node import Node
from pumice.core.model.pod import Pod, PodPhase
from tests.cli.commands import pumice as run_pumice

TINY = Size(8, 6, 4, classes=3, has_background=False)


def test_every_pod_of_fresh_gangs_is_bound() -> None:
    figures = placing.allocate(TINY, runs=2).figures
    assert figures["bound"] == figures["pods"] == TINY.pods
    assert figures["runs"] == 2
    assert 0 < float(str(figures["session_s"])) <= float(str(figures["session_median_s"]))


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
@pytest.mark.parametrize("bench", [placing.allocate, placing.allocate_gpus, placing.mixed])
def test_every_pod_of_a_lifelike_cluster_is_bound(
    bench: Callable[[Size, Profile], Result], profile: Profile
) -> None:
    size = Size(120, 60, 4, classes=9)
    figures = bench(size, profile).figures
    assert (figures["background"], figures["configuration"]) == ("lifelike", profile.name)
    # Beside the gangs, there are a single and a best-effort pod.
    assert (figures["bound"], figures["left"]) == (size.pods + 2, 0)


def test_the_background_follows_from_its_seed() -> None:
    size = Size(120, 60, 2, classes=9)
    assert [*clusters.settled(size)] == [*clusters.settled(size)]
    assert [*clusters.settled(size)] != [*clusters.settled(replace(size, seed=1))]


def test_a_lifelike_cluster_has_what_real_ones_have() -> None:
    things = [*clusters.settled(Size(120, 60, 2))]
    nodes = [thing for thing in things if isinstance(thing, Node)]
    pods = [thing for thing in things if isinstance(thing, Pod)]
    assert {type(thing) for thing in things} >= {Workload, PodDisruptionBudget, ResourceQuota}
    assert any(node.unschedulable for node in nodes)
    assert any(not node.allocatable for node in nodes)
    assert all(node.images and node.annotations for node in nodes if node.allocatable)
    assert any(pod.spec.required_anti_affinity for pod in pods)
    assert any(pod.phase is PodPhase.SUCCEEDED for pod in pods)
    agents = [pod.node_name for pod in pods if pod.labels.get("k8s-app") == "node-agent"]
    assert sorted(agents) == sorted(node.name for node in nodes if node.allocatable)


def test_heartbeats_of_a_tenth_of_the_nodes_come_before_each_session() -> None:
    found = steady_state.heartbeats(Size(120, 60, 2))
    assert found.figures["heartbeats"] == 12
    assert found.figures["sessions"] == 8


def test_preempting_gangs_evict_as_many_as_they_are() -> None:
    assert evicting.preempt(TINY).figures["evicted"] == TINY.pods


def test_gangs_that_may_take_nobody_evict_nobody() -> None:
    assert evicting.preempt_half_without_victims(TINY).figures["evicted"] == TINY.pods // 2


def test_reclaiming_gangs_evict_as_many_as_they_are() -> None:
    assert evicting.reclaim(TINY).figures["evicted"] == TINY.pods


def test_an_idle_session_does_nothing() -> None:
    found = steady_state.idle(TINY)
    assert found.figures["running"] == TINY.pods
    assert found.figures["sessions"] == 8
    assert not any(found.work.values())


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_hopeless_gangs_are_passed_over_in_every_session(profile: Profile) -> None:
    found = steady_state.unschedulable(Size(8, 20, 4), profile)
    assert found.figures["pending_gangs"] == 4
    assert found.figures["sessions"] == 8
    visits = {"jobs_considered", "jobs_visited", "jobs_closed", "tasks_tried"}
    assert not visits & found.work.keys()


def test_a_freed_node_is_used_by_the_one_that_waits_for_it() -> None:
    found = steady_state.freed(Size(40, 40, 10))
    assert found.figures["bound"] == found.figures["sessions"] == 8


def test_pods_that_come_in_the_place_of_others_are_bound() -> None:
    one, share = (
        steady_state.churn(TINY).figures,
        steady_state.churn_share(Size(40, 60, 10)).figures,
    )
    assert (one["changed"], one["bound"]) == (1, 8)
    assert (share["changed"], share["bound"]) == (6, 48)


@pytest.mark.parametrize("name", catalogue.ENGINE_BENCHES)
def test_a_result_bears_the_name_of_its_bench(name: str) -> None:
    assert catalogue.ENGINE_BENCHES[name](TINY).bench == name


def test_every_bench_has_sizes_and_a_meaning() -> None:
    assert list(catalogue.BENCHES) == list(catalogue.SIZES) == list(catalogue.MEANINGS)


def test_every_bar_inside_the_engine_has_its_standard_size() -> None:
    fresh = {(size.nodes, size.pods, size.size) for size in catalogue.SIZES["allocate"]}
    asked = {
        (row.where["nodes"], row.where["pods"], row.where["gang_size"])
        for row in ROWS
        if row.bench == "allocate"
    }
    assert asked == fresh


def test_a_line_says_what_was_measured_and_where() -> None:
    line = json.loads(Result("idle", "words", {"nodes": 3}, {"b": 1, "a": 2}).line())
    assert list(line["work"]) == ["a", "b"]
    assert line["measured"] == "words"
    assert line["cores"] >= 1
    assert line["machine_speed"] > 0
    assert {"python", "numpy"} < set(line)


def test_the_command_prints_one_line_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--nodes", "8", "--jobs", "4", "--size", "2", "--classes", "2", "--no-client")
    done = run_pumice(capsys, "bench", "allocate", *arguments)
    assert done.code == 0
    (line,) = map(json.loads, done.out.splitlines())
    assert (line["bench"], line["nodes"], line["bound"], line["classes"]) == ("allocate", 8, 8, 2)
    assert "client_s" not in line


def test_an_unknown_bench_comes_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    done = run_pumice(capsys, "bench", "alocate")
    assert done.code == 2
    assert "unknown benchmark 'alocate'; allowed: all, allocate, allocate-gpu, mixed" in done.err
