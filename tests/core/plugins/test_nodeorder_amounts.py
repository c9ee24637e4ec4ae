"""Scores by amounts: least, most and balanced allocation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumice.core.model.node import Node
from pumice.core.model.pod import Pod
from pumice.core.model.status import TaskStatus
from tests.core.builders import GIB, node, pod, pod_group, queue
from tests.core.plugins.opened import GPU, Opened, asking, offering, options
from tests.core.plugins.test_nodeorder_against_plain import WEIGHTS
from tests.core.plugins.verdicts import scores


def opened_with(*objects: Node | Pod, followed: bool = False, **weights: int) -> Opened:
    given = {f"{name}.weight": weights.get(name, 0) for name in WEIGHTS}
    plugins = [*([options("predicates")] if followed else []), options("nodeorder", **given)]
    return Opened(queue(), pod_group("g"), *objects, plugins=plugins)


def score(one: Node, waiting: Pod, *others: Pod, **weights: int) -> float:
    return scores(opened_with(one, waiting, *others, followed=False, **weights), "p")["n1"]


# Least and most.


def test_least_is_the_mean_of_what_is_left_in_percent() -> None:
    # cpu: 4 - 1 - 1 = 2 of 4, 50; memory: 16 - 4 - 4 = 8 of 16, 50.
    old, new = pod("old", "g", 1, 4, on="n1"), pod("p", "g", 1, 4)
    assert score(node("n1", 4, 16), new, old, leastrequested=1) == 50
    # cpu: 1 of 4, 25; memory: 15 of 16, 93 after truncation; together 118 / 2.
    assert score(node("n1", 4, 16), pod("p", "g", 3, 1), leastrequested=1) == 59


def test_more_than_there_is_leaves_nothing() -> None:
    assert score(node("n1", 4, 16), pod("p", "g", 5, 8), leastrequested=1) == 25


def test_most_is_the_mean_of_what_is_used_in_percent() -> None:
    assert score(node("n1", 4, 16), pod("p", "g", 3, 1), mostrequested=1) == (75 + 6) // 2
    assert score(node("n1", 4, 16), pod("p", "g", 5, 8), mostrequested=1) == (100 + 50) // 2


def test_pod_level_resources_count_for_balance_and_on_nodes_but_not_for_least_and_most() -> None:
    whole: dict[str, Any] = {"container_milli_cpu": 1000, "container_memory_bytes": 4 * GIB}
    new = pod("p", "g", 3, 12)
    new = replace(new, spec=replace(new.spec, **whole))
    # By its containers alone it leaves 3 of 4 and 12 of 16.
    assert score(node("n1", 4, 16), new, leastrequested=1) == 75
    assert score(node("n1", 4, 16), new, mostrequested=1) == 25
    lopsided = replace(new, spec=replace(pod("p", "g", 4, 0).spec, **whole))
    assert score(node("n1", 4, 16), lopsided, balancedresource=1) == 50
    assert score(node("n1", 4, 16), lopsided, leastrequested=1, balancedresource=1) == 125
    # On a node it counts whole.
    old = replace(new, uid="uid-old", name="old", node_name="n1")
    assert score(node("n1", 4, 16), pod("p", "g", 1, 4), old, leastrequested=1) == 0


def test_containers_that_ask_for_nothing_count_a_tenth_of_a_core_and_200_mib() -> None:
    empty = pod("p", "g", 0, 0)
    assert score(node("n1", 1, 1), empty, leastrequested=1) == (90 + 80) // 2


def test_a_resource_that_the_node_lacks_is_left_out_of_the_mean() -> None:
    assert score(node("n1", 4, 0), pod("p", "g", 1, 1), leastrequested=1) == 75
    assert score(node("n1", 4, 0), pod("p", "g", 1, 1), mostrequested=1) == 25
    assert score(node("n1", 0, 0), pod("p", "g", 1, 1), leastrequested=1) == 0


def test_huge_nodes_are_counted_exactly() -> None:
    huge = node("n1", 4, 0)
    size = 2**50
    huge = replace(huge, allocatable=(("cpu", 4000), ("memory", size), ("pods", 110)))
    new = asking(pod("p", "g", 1, 1), (("cpu", 1000), ("memory", 1)))
    new = replace(new, spec=replace(new.spec, non_zero_memory_bytes=1))
    # (2^50 - 1) * 100 / 2^50 is 99 and a bit less than 100.
    assert score(huge, new, leastrequested=1) == (75 + 99) // 2


# Balanced.


def test_unchanged_balance_scores_75() -> None:
    old, new = pod("old", "g", 1, 4, on="n1"), pod("p", "g", 1, 4)
    assert score(node("n1", 4, 16), new, old, balancedresource=1) == 75


def test_a_better_balance_scores_more_and_a_worse_one_less() -> None:
    old = pod("old", "g", 2, 0, on="n1")
    # Without: |0.5 - 0| / 2 = 0.25, 75; with 8 GiB: balanced, 100. 50 + (50 + 25) / 2 = 87.
    assert score(node("n1", 4, 16), pod("p", "g", 0, 8), old, balancedresource=1) == 87
    # With 2 cores more: |1 - 0| / 2, 50. 50 + (50 - 25) / 2 = 62.
    assert score(node("n1", 4, 16), pod("p", "g", 2, 0), old, balancedresource=1) == 62


def test_real_requests_count_not_the_defaults() -> None:
    # 100 m and 200 MiB would change the balance.
    old = pod("old", "g", 0, 0, on="n1")
    assert score(node("n1", 4, 16), pod("p", "g", 1, 4), old, balancedresource=1) == 75


def test_a_pod_that_asks_for_nothing_is_not_scored() -> None:
    assert score(node("n1", 4, 16), pod("p", "g", 0, 0), balancedresource=1) == 0


def test_cards_count_when_the_pod_asks_for_them_and_the_node_has_them() -> None:
    with_cards = offering(node("n1", 4, 16), **{GPU: 8000})
    asks = asking(pod("p", "g"), (("cpu", 2000), ("memory", 8 * GIB), (GPU, 4000)))
    assert score(with_cards, asks, balancedresource=1) == 75
    lopsided = asking(pod("p", "g"), (("cpu", 2000), ("memory", 8 * GIB), (GPU, 8000)))
    # 0.5, 0.5, 1: the deviation is 0.2357, so 76; 50 + (50 + 76 - 100) / 2 = 63.
    assert score(with_cards, lopsided, balancedresource=1) == 63
    without = offering(node("n1", 4, 16), **{GPU: 0})
    assert score(without, lopsided, balancedresource=1) == 75
    plain = asking(pod("p", "g"), (("cpu", 2000), ("memory", 8 * GIB)))
    assert score(with_cards, plain, balancedresource=1) == 75


def test_one_dimension_is_always_even() -> None:
    assert score(node("n1", 4, 0), pod("p", "g", 2, 1), balancedresource=1) == 75


# Weights and the view they look at.


@pytest.mark.parametrize("weight", [2, -3])
def test_a_score_is_multiplied_by_its_weight_which_may_be_below_zero(weight: int) -> None:
    one, new = node("n1", 4, 16), pod("p", "g", 2, 8)
    assert score(one, new, leastrequested=weight) == 50 * weight


def test_the_defaults_are_least_and_balanced() -> None:
    opened = Opened(
        queue(), pod_group("g"), node("n1", 4, 16), pod("p", "g", 2, 8), plugins=["nodeorder"]
    )
    assert scores(opened, "p")["n1"] == 50 + 75


def test_without_any_amount_weight_nothing_is_registered() -> None:
    opened = opened_with(node("n1"), pod("p", "g"))
    assert opened.hooks.row_batch_score == {}
    assert opened.hooks.class_score == {}


def test_oversubscription_is_not_counted() -> None:
    lent = replace(node("n1", 4, 16), oversubscription_milli_cpu=4000)
    assert score(lent, pod("p", "g", 2, 8), leastrequested=1) == 50


def test_placements_count_only_through_predicates() -> None:
    objects = node("n1", 4, 16), pod("p", "g", 1, 4), pod("q", "g", 1, 4)
    followed = opened_with(*objects, followed=True, leastrequested=1)
    followed.session.moves.place(followed.task("q"), "n1", TaskStatus.PIPELINED)
    assert scores(followed, "p")["n1"] == 50
    frozen = opened_with(*objects, leastrequested=1)
    frozen.session.moves.place(frozen.task("q"), "n1", TaskStatus.PIPELINED)
    assert scores(frozen, "p")["n1"] == 75
