"""kube-batch's scores, on a scale of ten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pumice.core.model.pod import PodAffinityTerm, WeightedNodeTerm, WeightedPodAffinityTerm
from pumice.core.model.selectors import LabelSelector, NodeSelectorTerm, Operator, Requirement
from tests.core import builders
from tests.core.kubebatch.older import cluster, engine, foreign, lone, opened, task

ALL = ("leastrequested", "mostrequested", "nodeaffinity", "podaffinity", "balancedresource")


def scores(*objects: Any, **weights: int) -> list[float]:
    """The scores of pod p on all nodes, with these weights and no others."""
    given = {f"{name}.weight": weights.get(name, 0) for name in ALL}
    scored = engine(tiers=("nodeorder",), arguments={"nodeorder": given})
    return _scores(cluster(*objects, of=scored))


def _scores(known: Any) -> list[float]:
    session = opened(known)
    pod = task(known, "p")
    rows = np.arange(len(session.table))
    return [float(score) for score in session.choice.scores(pod, session.view(pod), rows)]


def node(name: str, cpu: float = 10, memory: float = 10, **labels: str) -> Any:
    return builders.node(name, cpu, memory, labels=labels)


@pytest.mark.parametrize(
    ("cpu", "memory", "score"),
    [
        # (9 + 9) / 2
        (1, 1, 9),
        # (7 + 4) / 2, cut off
        (3, 6, 5),
        # Half a tenth is nothing: (9 + 8) / 2
        (0.5, 1.5, 8),
        # More than there is counts nothing: (0 + 9) / 2
        (11, 1, 4),
    ],
)
def test_least_requested_is_what_would_be_free_in_tenths(
    cpu: float, memory: float, score: int
) -> None:
    assert scores(node("n1"), builders.pod("p", "", cpu, memory), leastrequested=1) == [score]


def test_most_requested_is_what_would_be_used_in_tenths() -> None:
    assert scores(node("n1"), builders.pod("p", "", 3, 6), mostrequested=1) == [4]
    assert scores(node("n1"), builders.pod("p", "", 11, 6), mostrequested=1) == [3]


def test_balanced_is_ten_less_the_difference() -> None:
    assert scores(node("n1"), builders.pod("p", "", 3, 6), balancedresource=1) == [7]
    assert scores(node("n1"), builders.pod("p", "", 5, 5), balancedresource=1) == [10]
    assert scores(node("n1"), builders.pod("p", "", 10, 5), balancedresource=1) == [0]
    assert scores(node("n1", 0), builders.pod("p", "", 0, 5), balancedresource=1) == [0]


def test_what_others_on_the_node_ask_for_counts() -> None:
    other = foreign(builders.pod("other", "", 4, 4, on="n1"))
    pod = builders.pod("p", "", 1, 1)
    assert scores(node("n1"), node("n2"), other, pod, leastrequested=1) == [5, 9]


def test_containers_that_ask_for_nothing_count_a_little() -> None:
    """100 milli-cpu and 200 MiB: a tenth of a one-core node is taken."""
    pod = builders.pod("p", "", 0, 0)
    assert scores(node("n1", 1, 2000 / 1024), pod, mostrequested=1) == [1]


def test_node_affinity_is_scaled_to_the_best_candidate() -> None:
    terms = tuple(
        WeightedNodeTerm(weight, NodeSelectorTerm((Requirement(key, Operator.EXISTS),)))
        for key, weight in (("a", 2), ("b", 1))
    )
    nodes = [node("n1", a="1", b="1"), node("n2", a="1"), node("n3")]
    pod = lone("p", spec={"preferred_node_terms": terms})
    assert scores(nodes, pod, nodeaffinity=1) == [10, 6, 0]
    assert scores(nodes, pod, nodeaffinity=3) == [30, 18, 0]


def test_a_preference_for_a_node_by_name_counts_nothing() -> None:
    field = NodeSelectorTerm(
        field_requirements=(Requirement("metadata.name", Operator.IN, ("n1",)),)
    )
    pod = lone("p", spec={"preferred_node_terms": (WeightedNodeTerm(5, field),)})
    assert scores(node("n1"), node("n2"), pod, nodeaffinity=1) == [0, 0]


def near(value: str, weight: int = 1) -> WeightedPodAffinityTerm:
    return WeightedPodAffinityTerm(weight, term(value))


def term(value: str) -> PodAffinityTerm:
    return PodAffinityTerm("zone", LabelSelector((Requirement("app", Operator.IN, (value,)),)))


def zones() -> list[Any]:
    return [node("n1", zone="a"), node("n2", zone="a"), node("n3", zone="b"), node("n4")]


def app(name: str, value: str, on: str = "", **spec: Any) -> Any:
    return lone(name, on=on, labels={"app": value}, spec=spec)


def test_pod_affinity_is_scaled_between_the_worst_and_the_best() -> None:
    there = [app("w1", "web", "n1"), app("w2", "web", "n2"), app("w3", "web", "n3")]
    pod = app("p", "x", preferred_affinity=(near("web"),))
    assert scores(zones(), there, pod, podaffinity=1) == [10, 10, 5, 0]
    shy = app("p", "x", preferred_anti_affinity=(near("web"),))
    assert scores(zones(), there, shy, podaffinity=1) == [0, 0, 5, 10]


def test_pods_that_prefer_or_need_the_incoming_pod_pull_it() -> None:
    pod = app("p", "web")
    fond = app("fond", "x", "n1", preferred_affinity=(near("web", 4),))
    needing = app("needing", "x", "n3", required_affinity=(term("web"),))
    assert scores(zones(), fond, needing, pod, podaffinity=1) == [10, 10, 2, 0]
    assert scores(zones(), needing, pod, podaffinity=1) == [0, 0, 10, 0], "with weight one"


def test_the_weights_are_one_but_for_most_requested() -> None:
    known = cluster(node("n1"), builders.pod("p", "", 3, 6), of=engine(tiers=("nodeorder",)))
    assert _scores(known) == [5 + 7]


def test_taints_images_and_spread_have_no_score() -> None:
    declared = engine().registry.catalog().plugins["nodeorder"].declared
    assert {argument.name for argument in declared} == {f"{name}.weight" for name in ALL}
