"""resource-strategy-fit: scores by strategy, scarce resources, and reserves for devices."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pumice.core.configuration import Configuration, PluginOptions, read_configuration
from pumice.core.decisions import Bind
from pumice.core.deltas import ClusterObject
from pumice.core.engine import Engine
from pumice.core.errors import ConfigurationError
from pumice.core.plugins.resource_strategy_fit import SCORING_TYPE, SCORING_WEIGHT
from pumice.core.registry import Registry
from tests.core.builders import NOW_NS, fill, job, node, pod, pod_group, queue
from tests.core.plugins.opened import GPU, Opened, asking, cores, offering, options

LEAST, MOST = "LeastAllocated", "MostAllocated"


def scores(*objects: ClusterObject, **arguments: Any) -> dict[str, float]:
    session = Opened(queue(), *objects, plugins=[options("resource-strategy-fit", **arguments)])
    view = session.session.view(session.task("a-0"))
    return dict(zip(session.session.table.names, view.order.tolist(), strict=True))


NODES = [node("n1", 8), node("n2", 8), *job("busy", 2, 2, on="n1")]


def asked(requests: Any = None, **annotations: str) -> list[ClusterObject]:
    held = pod("a-0", "a", annotations=annotations)
    return [pod_group("a"), asking(held, cores(2) if requests is None else requests)]


def test_least_prefers_empty_nodes_and_most_full_ones() -> None:
    least = scores(
        *NODES, *asked(), resourceStrategyFitWeight=1, resources={"cpu": {"type": LEAST}}
    )
    assert least == {"n1": 25.0, "n2": 75.0}
    most = scores(*NODES, *asked(), resourceStrategyFitWeight=1, resources={"cpu": {"type": MOST}})
    assert most == {"n1": 75.0, "n2": 25.0}


def test_a_node_that_would_be_overfull_scores_nothing() -> None:
    found = scores(*NODES, *asked(cores(6)), resources={"cpu": {"type": MOST}})
    assert found["n1"] == 0.0
    assert found["n2"] > 0


def test_a_pod_may_choose_for_itself() -> None:
    own = {SCORING_TYPE: MOST, SCORING_WEIGHT: json.dumps({"cpu": 3})}
    assert scores(*NODES, *asked(None, **own), resourceStrategyFitWeight=1)["n1"] == 75.0


@pytest.mark.parametrize("weight", ["", "x", "[1]", '{"cpu": 1.5}', '{"cpu": "1"}', "null"])
def test_weights_that_cannot_be_read_score_nothing(weight: str) -> None:
    own = {SCORING_TYPE: MOST, SCORING_WEIGHT: weight}
    assert scores(*NODES, *asked(None, **own)) == {"n1": 0.0, "n2": 0.0}


def test_an_unknown_strategy_of_a_pod_scores_nothing() -> None:
    own = {SCORING_TYPE: "Odd", SCORING_WEIGHT: '{"cpu": 1}'}
    assert set(scores(*NODES, *asked(None, **own)).values()) == {0.0}


def test_pods_of_one_class_with_and_without_a_strategy_of_their_own_go_apart() -> None:
    own = {SCORING_TYPE: MOST, SCORING_WEIGHT: '{"cpu": 1}'}
    pods = [pod("a-0", "a"), pod("a-1", "a", annotations=own)]
    tier = tuple(PluginOptions(name) for name in ("gang", "predicates", "resource-strategy-fit"))
    objects = [queue(), node("n1", 8), node("n2", 8), *job("busy", 1, on="n1")]
    engine = fill(Engine(Configuration(("allocate",), (tier,))), *objects, pod_group("a", 2), *pods)
    found = engine.schedule(NOW_NS).decisions
    assert {d.name: d.node for d in found if isinstance(d, Bind)} == {"a-0": "n2", "a-1": "n1"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"nvidia.com/*": {"type": MOST, "weight": 1}}, 50.0),
        ({"nvidia.com/*": {"type": LEAST}, "nvidia.com/g*": {"type": MOST, "weight": 2}}, 50.0),
        ({"nvidia.com/*": {"type": MOST}, GPU: {"type": LEAST}}, 50.0),
        ({"other/*": {"type": MOST}}, 0.0),
    ],
)
def test_names_may_end_in_an_asterisk(resources: Any, expected: float) -> None:
    held = offering(node("n1", 8), **{GPU: 4000})
    requests = ((GPU, 2000),)
    found = scores(held, *asked(requests), resourceStrategyFitWeight=1, resources=resources)
    assert found == {"n1": expected}


def test_pods_that_need_nothing_scarce_keep_away_from_it() -> None:
    nodes = [offering(node("g"), **{GPU: 1000}), node("n")]
    sra = {"enable": True, "resources": f"{GPU}, x/y", "weight": 10, "resourceWeight": {GPU: 3}}
    found = scores(*nodes, *asked(), resourceStrategyFitWeight=0, sra=sra)
    assert found == {"g": 250.0, "n": 1000.0}


def proportional(idle_gpus: int, cpu: float, *, asks_gpu: bool = False) -> bool:
    held = offering(node("n1", 8, 64), **{GPU: idle_gpus * 1000})
    requests = (*cores(cpu), (GPU, 1000)) if asks_gpu else cores(cpu)
    rules = {
        "enable": True,
        "resources": GPU,
        "resourceProportion": {f"{GPU}.cpu": 2, f"{GPU}.memory": 1},
    }
    session = Opened(
        queue(), held, *asked(requests),
        plugins=[options("resource-strategy-fit", proportional=rules)],
    )  # fmt: skip
    return bool(session.session.view(session.task("a-0")).open.any())


def test_pods_without_devices_leave_cores_for_idle_devices() -> None:
    assert proportional(3, 2)
    assert not proportional(3, 2.001)
    assert proportional(3, 8, asks_gpu=True)
    assert proportional(0, 8)


@pytest.mark.parametrize("cpu", [0, 0.5, 1, 3, 5, 8])
@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_the_reserve_of_idle_devices_is_never_used(cpu: float, gpus: int) -> None:
    assert proportional(gpus, cpu) == (8 - cpu >= 2 * gpus)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"resourceStrategyFitWeight": -1}, "0 or more"),
        ({"resources": {"cpu": {"type": "Odd"}}}, "must be one of"),
        ({"resources": {"cpu": {"weight": 0}}}, "above 0"),
        ({"resources": {"*": {}}}, "unknown argument"),
        ({"resources": {"a*b": {}}}, "unknown argument"),
        ({"resources": {"cpu": {"wieght": 1}}}, "did you mean 'weight'"),
        ({"resources": {"cpu": 5}}, "a mapping"),
        ({"sra": {"enable": "maybe"}}, "true or false"),
        ({"proportional": {"resourceProportion": {"x.cpu": -1}}}, "0 or more"),
    ],
)
def test_nested_arguments_are_checked(arguments: Any, problem: str) -> None:
    entry = {"name": "resource-strategy-fit", "arguments": arguments}
    data = {"actions": "allocate", "tiers": [{"plugins": [entry]}]}
    with pytest.raises(ConfigurationError, match=problem):
        read_configuration(data, Registry().catalog())


def test_a_pod_that_asks_for_nothing_scores_nothing() -> None:
    assert set(scores(*NODES, *asked(())).values()) == {0.0}


def test_a_node_without_the_resource_gets_nothing_for_it() -> None:
    nodes = [offering(node("g", 8), **{GPU: 2000}), replace(node("n", 8), name="n")]
    both = {"cpu": {"type": MOST}, GPU: {"type": MOST}}
    found = scores(
        *nodes, *asked((*cores(4), (GPU, 1000))), resourceStrategyFitWeight=1, resources=both
    )
    assert found["g"] == 50.0
