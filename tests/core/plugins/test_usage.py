"""usage: measured load filters and scores, until it is too old."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.core.configuration import Arguments, Configuration, PluginOptions, read_configuration
from pumice.core.decisions import Bind
from pumice.core.deltas import ClusterObject, DataReported
from pumice.core.engine import Engine
from pumice.core.errors import ConfigurationError
from pumice.core.plugins.usage import TOO_MUCH_CPU, TOO_MUCH_MEMORY, Estimator, EstimatorArguments
from pumice.core.registry import Registry
from pumice.core.session.feasibility.node_usage import MAX_AGE_SECONDS
from tests.core.builders import GIB, NOW_NS, fill, job, node, pod, pod_group, queue
from tests.core.plugins.opened import Opened

SECOND = 10**9
NODES: list[ClusterObject] = [queue(), node("n1", 8), node("n2", 8), node("n3", 8)]


def figures(node_name: str, cpu: float, memory: float, age_s: float = 0) -> DataReported:
    time = NOW_NS / SECOND - age_s
    return DataReported("usage", node_name, {"cpu": cpu, "memory": memory, "time": time})


def engine_with(*figured: DataReported, objects: list[Any], **arguments: Any) -> Engine:
    names = ("gang", "predicates")
    tier = (*map(PluginOptions, names), PluginOptions("usage", arguments=Arguments(arguments)))
    engine = fill(Engine(Configuration(("allocate",), (tier,))), *objects)
    engine.apply(figured)
    return engine


def bound(engine: Engine, now_ns: int = NOW_NS) -> dict[str, str]:
    return {d.name: d.node for d in engine.schedule(now_ns).decisions if isinstance(d, Bind)}


def test_the_node_with_the_lowest_load_wins() -> None:
    figured = [figures("n1", 70, 70), figures("n2", 10, 20), figures("n3", 50, 50)]
    assert bound(engine_with(*figured, objects=[*NODES, *job("a", 1)])) == {"a-0": "n2"}


def test_nodes_above_a_threshold_are_refused_for_one_reason_each() -> None:
    figured = [figures("n1", 81, 99), figures("n2", 80, 81), figures("n3", 90, 0)]
    engine = engine_with(*figured, objects=[*NODES, *job("a", 1)])
    result = engine.schedule(NOW_NS)
    counts = {n.reason: n.nodes for w in result.waits for r in w.reasons for n in r.nodes}
    assert counts == {TOO_MUCH_CPU: 2, TOO_MUCH_MEMORY: 1}


def test_figures_that_are_too_old_refuse_nothing_and_score_worst() -> None:
    old = MAX_AGE_SECONDS + 1
    figured = [figures("n1", 99, 99, old), figures("n2", 79, 79), figures("n3", 99, 99)]
    engine = engine_with(*figured, objects=[*NODES, *job("a", 1)])
    assert bound(engine) == {"a-0": "n2"}
    # One after the other becomes too old; then nothing is known and the first name wins.
    assert engine.next_wake(NOW_NS) == NOW_NS + MAX_AGE_SECONDS * SECOND + 10**6
    fill(engine, *job("b", 1))
    assert bound(engine, NOW_NS + (MAX_AGE_SECONDS + 1) * SECOND) == {"b-0": "n1"}


def test_a_session_runs_when_figures_become_too_old() -> None:
    engine = engine_with(figures("n1", 99, 0), objects=[queue(), node("n1"), *job("a", 1)])
    assert bound(engine) == {}
    engine.schedule(NOW_NS + 1)
    assert engine.can_skip(NOW_NS + 2)
    wake = engine.next_wake(NOW_NS)
    assert wake is not None
    assert not engine.can_skip(wake)
    assert bound(engine, wake) == {"a-0": "n1"}


def test_without_any_figures_pods_are_placed() -> None:
    assert len(bound(engine_with(objects=[*NODES, *job("a", 3)]))) == 3


@pytest.mark.parametrize("values", [{}, {"cpu": "high", "time": 1.0}, {"memory": 99.0}])
def test_figures_that_are_incomplete_refuse_nothing(values: dict[str, Any]) -> None:
    engine = engine_with(DataReported("usage", "n1", values), objects=[*NODES, *job("a", 1)])
    assert len(bound(engine)) == 1


def test_placed_pods_count_as_load_until_they_are_measured() -> None:
    figured = [figures(name, 0, 0) for name in ("n1", "n2", "n3")]
    engine = engine_with(*figured, objects=[*NODES, *job("a", 3, 4)])
    assert sorted(bound(engine).values()) == ["n1", "n2", "n3"]


@pytest.mark.parametrize(("age_s", "expected"), [(10, "n2"), (31, "n1"), (None, "n2")])
def test_running_pods_count_until_an_interval_after_their_start(
    age_s: int | None, expected: str
) -> None:
    start = 0 if age_s is None else NOW_NS - age_s * SECOND
    running = pod("r-0", "r", 4, on="n1", start_time_ns=start)
    objects = [queue(), node("n1", 8), node("n2", 8), pod_group("r"), running, *job("a", 1)]
    figured = [figures("n1", 10, 10), figures("n2", 12, 12)]
    assert bound(engine_with(*figured, objects=objects)) == {"a-0": expected}


@pytest.mark.parametrize(
    ("estimator", "load", "expected"),
    [
        ({}, 0.0, 1400.0),
        ({}, 0.6, 1680.0),
        ({"request_ratio": 1.0}, 1.0, 2400.0),
        ({"request_ratio": 1.0, "risk_factor": 9}, 1.0, 3000.0),
        ({"burst_ratio": 1.0}, 0.0, 2400.0),
        ({"request_ratio": 0.0}, 0.0, 0.0),
    ],
)
def test_the_estimate_of_a_pod_stays_within_its_limit(
    estimator: dict[str, float], load: float, expected: float
) -> None:
    held = pod("a-0", "a", 2, spec={"limit_milli_cpu": 3000})
    session = Opened(queue(), pod_group("a"), held, plugins=[])
    made = Estimator(EstimatorArguments(estimator))
    assert made.load_of(session.task("a-0"), load)[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("given", "cpu", "memory"),
    [
        ({}, 250.0, 200 * 1024**2),
        ({"be_cpu": 100, "be_mem": 50}, 100.0, 50 * 1024**2),
        ({"be_cpu": "1", "be_mem": "1Gi"}, 1000.0, GIB),
        ({"be_cpu": 0, "be_mem": "0"}, 0.0, 0.0),
    ],
)
def test_pods_that_ask_for_nothing_have_a_load_too(
    given: dict[str, Any], cpu: float, memory: float
) -> None:
    session = Opened(queue(), pod_group("a"), pod("a-0", "a", 0, 0), plugins=[])
    made = Estimator(EstimatorArguments(given))
    assert made.load_of(session.task("a-0"), 0.0) == (cpu, memory)


@pytest.mark.parametrize(
    "arguments",
    [
        {"usage.weight": -1},
        {"thresholds": {"cpu": 101}},
        {"thresholds": {"memory": 50}},
        {"estimator": {"request_ratio": 1.5}},
        {"estimator": {"risk_factor": 0.5}},
        {"estimator": {"be_cpu": "-1"}},
        {"estimator": {"be_mem": "lots"}},
    ],
)
def test_what_makes_no_sense_is_refused(arguments: dict[str, Any]) -> None:
    data = {
        "actions": "allocate",
        "tiers": [{"plugins": [{"name": "usage", "arguments": arguments}]}],
    }
    with pytest.raises(ConfigurationError):
        read_configuration(data, Registry().catalog())


def test_a_configuration_without_a_source_is_warned_of() -> None:
    plugins = [{"name": "usage"}, {"name": "rescheduling"}]
    data = {"actions": "allocate", "tiers": [{"plugins": plugins}]}
    read = read_configuration(data, Registry().catalog())
    assert len([w for w in read.warnings if "measured usage" in w.message]) == 2
    assert any("metricsPeriod" in w.message for w in read.warnings)
