"""rescheduling: pods move from loaded nodes, within the room on others, from time to time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pumice.core.configuration import Arguments, Configuration, PluginOptions, read_configuration
from pumice.core.decisions import Evict
from pumice.core.deltas import DataReported
from pumice.core.engine import Engine
from pumice.core.errors import ConfigurationError
from pumice.core.registry import Registry
from tests.core.builders import NOW_NS, fill, job, node, pod, pod_group, queue

SECOND = 10**9
PARAMS = {
    "thresholds": {"cpu": 30, "memory": 30},
    "targetThresholds": {"cpu": 70, "memory": 70},
}
STRATEGIES = [{"name": "lowNodeUtilization", "params": PARAMS}]


def figures(node_name: str, cpu: float, memory: float = 0.0, age_s: float = 0) -> DataReported:
    values = {"cpu": cpu, "memory": memory, "time": NOW_NS / SECOND - age_s}
    return DataReported("usage", node_name, values)


def engine_with(*objects: Any, figured: list[DataReported], **arguments: Any) -> Engine:
    given = {"metricsPeriod": "10m", "strategies": STRATEGIES, **arguments}
    tier = (PluginOptions("rescheduling", arguments=Arguments(given)),)
    engine = fill(Engine(Configuration(("shuffle",), (tier,))), queue(), *objects)
    engine.apply(figured)
    return engine


def evicted(engine: Engine, now_ns: int = NOW_NS) -> list[str]:
    return [d.name for d in engine.schedule(now_ns).decisions if isinstance(d, Evict)]


LOADED = [node("n1", 10), node("n2", 10), *job("a", 4, 2, on="n1")]


def test_pods_move_until_the_node_is_below_its_target() -> None:
    engine = engine_with(*LOADED, figured=[figures("n1", 95), figures("n2", 10)])
    assert evicted(engine) == ["a-0", "a-1"]


def test_nobody_moves_where_no_node_has_room() -> None:
    assert evicted(engine_with(*LOADED, figured=[figures("n1", 95), figures("n2", 50)])) == []
    cordoned = [node("n1", 10), node("n2", 10, unschedulable=True), *job("a", 4, 2, on="n1")]
    assert evicted(engine_with(*cordoned, figured=[figures("n1", 95), figures("n2", 10)])) == []


def test_nobody_moves_without_figures_or_with_figures_that_are_too_old() -> None:
    assert evicted(engine_with(*LOADED, figured=[])) == []
    assert (
        evicted(engine_with(*LOADED, figured=[figures("n1", 95, age_s=301), figures("n2", 10)]))
        == []
    )
    assert (
        evicted(engine_with(*LOADED, figured=[figures("n1", 95), figures("n2", 10, age_s=301)]))
        == []
    )


def test_another_period_moves_nobody_as_in_volcano() -> None:
    figured = [figures("n1", 95), figures("n2", 10)]
    assert evicted(engine_with(*LOADED, figured=figured, metricsPeriod="5m")) == []


def test_pods_of_low_priority_and_unreliable_demands_go_first() -> None:
    pods = [
        pod("high", "g", 2, on="n1", priority=9),
        pod("sure", "g", 2, on="n1", spec={"guaranteed": True}),
        pod("plain", "g", 2, on="n1"),
        pod("zero", "g", 0, 0, on="n1"),
    ]
    engine = engine_with(
        node("n1", 10), node("n2", 10), pod_group("g"), *pods,
        figured=[figures("n1", 95), figures("n2", 0)],
    )  # fmt: skip
    assert evicted(engine) == ["zero", "plain", "sure"]


def test_it_runs_once_in_an_interval_and_wakes_the_next_session() -> None:
    engine = engine_with(*LOADED, figured=[figures("n1", 75), figures("n2", 10)], interval="1m")
    assert evicted(engine) == ["a-0"]
    assert engine.next_wake(NOW_NS) == NOW_NS + 60 * SECOND + 1
    assert evicted(engine, NOW_NS + 60 * SECOND) == []
    assert evicted(engine, NOW_NS + 61 * SECOND) == ["a-1"]


def test_a_pod_of_the_same_name_elsewhere_stays() -> None:
    other = pod("a-0", "a", 2, on="n2")
    twin = type(other)(
        **{**{f: getattr(other, f) for f in other.__slots__}, "uid": "twin", "namespace": "b"}
    )
    engine = engine_with(*LOADED, twin, figured=[figures("n1", 75), figures("n2", 10)])
    (decision,) = engine.schedule(NOW_NS).decisions
    assert decision.uid == "uid-a-0"


@pytest.mark.parametrize("seed", range(25))
def test_a_node_never_loses_pods_once_it_is_below_its_targets(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [node(f"n{i}", 10, 100) for i in range(4)]
    usage = {n.name: (rng.randint(0, 100), rng.randint(0, 100)) for n in nodes}
    objects: list[Any] = [*nodes]
    asked: dict[str, tuple[str, float]] = {}
    for i in range(12):
        where, cpu = rng.choice(nodes).name, rng.choice([0.5, 1, 2])
        objects += job(f"j{i}", 1, cpu, on=where)
        asked[f"j{i}-0"] = (where, cpu)
    engine = engine_with(*objects, figured=[figures(n, *u) for n, u in usage.items()])
    left = {name: [float(part) for part in figure] for name, figure in usage.items()}
    for name in evicted(engine):
        where, cpu = asked[name]
        assert left[where][0] >= 70 or left[where][1] >= 70
        assert usage[where][0] > 70 or usage[where][1] > 70
        left[where][0] -= cpu * 10
        left[where][1] -= 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"interval": "often"},
        {"strategies": [{"name": "highNodeUtilization"}]},
        {"strategies": [{"name": "lowNodeUtilization", "params": {"thresholds": {"cpu": 101}}}]},
        {"strategies": [{"name": "lowNodeUtilization", "params": {"thresholds": {"disk": 1}}}]},
        {"strategies": ["lowNodeUtilization"]},
        {"strategies": {}},
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any]) -> None:
    entry = {"name": "rescheduling", "arguments": arguments}
    data = {"actions": "shuffle", "tiers": [{"plugins": [entry]}]}
    with pytest.raises(ConfigurationError):
        read_configuration(data, Registry().catalog())
