"""binpack: the node that ends up fullest is the best one."""

from __future__ import annotations

import numpy as np
import pytest

from pumice.core.cache.tasks import TaskClass
from pumice.core.configuration import read_configuration
from pumice.core.deltas import ClusterObject
from pumice.core.errors import ConfigurationError
from pumice.core.plugins.binpack import BinpackArguments
from pumice.core.registry import Registry
from pumice.core.session.feasibility.rows import NodeRows
from tests.core.builders import GIB, job, node, pod, pod_group, queue
from tests.core.plugins.opened import GPU, Opened, asking, cores, offering, options


def scores(opened: Opened, task: str = "p") -> list[float]:
    function = opened.hooks.row_score["binpack"]
    class_: TaskClass = opened.task(task).class_
    return [float(score) for score in function(class_, NodeRows(opened.session.table))]


def one_pod(cpu: float = 2, memory_gib: float = 4) -> list[ClusterObject]:
    return [queue(), pod_group("g"), pod("p", "g", cpu, memory_gib)]


def test_the_worked_example_scores_479() -> None:
    opened = Opened(
        node("n1", 8, 32),
        *one_pod(),
        pod("old", "h", 2, 8, on="n1"),
        pod_group("h"),
        plugins=[options("binpack", binpack__weight=10, binpack__cpu=5, binpack__memory=1)],
    )
    assert scores(opened) == [(5 * 4 / 8 + 1 * 12 / 32) / 6 * 1000]
    assert scores(opened)[0] == pytest.approx(479.17, abs=0.005)


def test_the_fuller_node_scores_higher() -> None:
    opened = Opened(
        node("n1", 8, 32),
        node("n2", 8, 32),
        *one_pod(),
        *job("old", 1, 2, on="n2"),
        plugins=["binpack"],
    )
    empty, fuller = scores(opened)
    assert fuller > empty


def test_weight_zero_registers_nothing() -> None:
    opened = Opened(node("n1"), *one_pod(), plugins=[options("binpack", binpack__weight=0)])
    assert opened.hooks.row_score == {}


def test_a_negative_weight_inverts_the_scores() -> None:
    up = Opened(node("n1"), *one_pod(), plugins=[options("binpack", binpack__weight=3)])
    down = Opened(node("n1"), *one_pod(), plugins=[options("binpack", binpack__weight=-3)])
    assert scores(down) == [-score for score in scores(up)]


def test_listed_resources_count_beside_cpu_and_memory() -> None:
    arguments = BinpackArguments(
        {
            "binpack.memory": 0,
            "binpack.resources": "nvidia.com/gpu, example.com/a,,example.com/b",
            "binpack.resources.nvidia.com/gpu": 7,
        }
    )
    assert arguments.weights() == {
        "cpu": 1,
        "memory": 0,
        "nvidia.com/gpu": 7,
        "example.com/a": 1,
        "example.com/b": 1,
    }


def test_cpu_and_memory_in_the_list_are_overwritten_by_their_own_keys() -> None:
    arguments = BinpackArguments({"binpack.resources": "cpu", "binpack.resources.cpu": 9})
    assert arguments.weights() == {"cpu": 1, "memory": 1}


def test_a_dimension_of_weight_zero_is_left_out() -> None:
    opened = Opened(node("n1", 8, 32), *one_pod(), plugins=[options("binpack", binpack__memory=0)])
    assert scores(opened) == [2 / 8 * 100]


def test_all_weights_zero_score_nothing() -> None:
    opened = Opened(
        node("n1"),
        *one_pod(),
        plugins=[options("binpack", binpack__cpu=0, binpack__memory=0)],
    )
    assert scores(opened) == [0.0]


def test_a_node_that_would_be_too_full_in_one_dimension_scores_nothing() -> None:
    opened = Opened(
        node("n1", 8, 4), *one_pod(), pod("old", "h", 0, 2, on="n1"), plugins=["binpack"]
    )
    assert scores(opened) == [0.0]


def test_exactly_full_is_the_best_score() -> None:
    opened = Opened(node("n1", 2, 4), *one_pod(), plugins=["binpack"])
    assert scores(opened) == [100.0]


def test_a_resource_the_node_lacks_still_weighs() -> None:
    wanting = asking(pod("p", "g"), (("cpu", 2000), (GPU, 1000)))
    opened = Opened(
        node("n1", 8, 32),
        queue(),
        pod_group("g"),
        wanting,
        plugins=[options("binpack", binpack__cpu=1, binpack__resources=GPU)],
    )
    assert scores(opened) == [2 / 8 / 2 * 100]


def test_resources_that_are_not_configured_do_not_count() -> None:
    wanting = asking(pod("p", "g"), (("cpu", 2000), (GPU, 1000)))
    gpu_node = offering(node("n1", 8, 32), **{GPU: 1000})
    opened = Opened(gpu_node, queue(), pod_group("g"), wanting, plugins=["binpack"])
    assert scores(opened) == [2 / 8 * 100]


def test_a_best_effort_pod_scores_nothing_anywhere() -> None:
    opened = Opened(node("n1"), *one_pod(0, 0), plugins=["binpack"])
    assert scores(opened) == [0.0]


def test_places_among_pods_count_when_listed() -> None:
    opened = Opened(
        node("n1", 8, 32, pods=10),
        queue(),
        pod_group("g"),
        asking(pod("p", "g"), cores(2)),
        plugins=[options("binpack", binpack__resources="pods")],
    )
    assert scores(opened) == [(2 / 8 + 1 / 10) / 2 * 100]


def test_pipelined_tasks_are_not_in_use_yet() -> None:
    opened = Opened(node("n1", 8, 32), *one_pod(), pod("q", "g", 2, 4), plugins=["binpack"])
    before = scores(opened)
    statement = opened.session.statement()
    statement.pipeline(opened.task("q"), "n1", eviction_occurred=False)
    assert scores(opened) == before
    statement.discard()
    statement.allocate(opened.task("q"), "n1")
    assert scores(opened) == [(4 / 8 + 8 / 32) / 2 * 100]


def test_rows_are_scored_alike_alone_and_together() -> None:
    nodes = [node(f"n{i}", 3 + i, 7 * (i + 1)) for i in range(5)]
    opened = Opened(*nodes, *one_pod(1, 3), plugins=["binpack"])
    function = opened.hooks.row_score["binpack"]
    class_ = opened.task("p").class_
    table = opened.session.table
    alone = [float(function(class_, NodeRows(table, np.array([row])))[0]) for row in range(5)]
    assert alone == scores(opened)


def test_the_fullest_node_that_fits_takes_the_pod() -> None:
    opened = Opened(
        node("n1", 8, 32),
        node("n2", 4, 8),
        *one_pod(2, 4),
        plugins=["binpack", "predicates"],
        actions=("allocate",),
    )
    result = opened.engine.schedule(0)
    assert [str(decision) for decision in result.decisions] == ["bind p n2"]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("binpack.cpu", -1),
        ("binpack.weight", "ten"),
        ("binpack.resources", 4),
        ("binpack.wieght", 1),
    ],
)
def test_wrong_arguments_are_refused(argument: str, value: object) -> None:
    entry = {"name": "binpack", "arguments": {argument: value}}
    data = {"actions": "allocate", "tiers": [{"plugins": [entry]}]}
    with pytest.raises(ConfigurationError, match="binpack"):
        read_configuration(data, Registry().catalog())


def test_memory_is_counted_in_bytes() -> None:
    opened = Opened(node("n1", 1, 3), *one_pod(0, 1), plugins=["binpack"])
    assert scores(opened) == [1 * GIB / (3 * GIB) * 100]
