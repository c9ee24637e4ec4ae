"""Scores by preferences: nodes, taints, images, other pods, spread."""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import pytest

from pumice.core.configuration import PluginOptions
from pumice.core.deltas import ClusterObject
from pumice.core.model.group import Workload
from pumice.core.model.integers import natural_log
from pumice.core.model.node import NodeImage
from pumice.core.model.pod import (
    Pod,
    PodAffinityTerm,
    SpreadConstraint,
    WeightedNodeTerm,
    WeightedPodAffinityTerm,
)
from pumice.core.model.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
)
from pumice.core.model.status import TaskStatus
from pumice.core.session.policies import CandidateTerms
from tests.core.builders import fill, node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, options
from tests.core.plugins.test_nodeorder_against_plain import WEIGHTS
from tests.core.plugins.verdicts import scores

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
MIB = 1024**2
APP_X = LabelSelector((Requirement("app", Operator.IN, ("x",)),))


def opened_with(*objects: ClusterObject, **weights: int) -> Opened:
    given = {f"{name}.weight": weights.get(name, 0) for name in WEIGHTS}
    plugins: list[str | PluginOptions] = ["predicates", options("nodeorder", **given)]
    return Opened(queue(), pod_group("g"), *objects, plugins=plugins)


def points(opened: Opened, candidates: list[str] | None = None) -> list[float]:
    return list(scores(opened, "p", candidates).values())


def labelled(name: str, app: str, on: str = "", spec: Any = None, **fields: Any) -> Pod:
    return pod(name, "g", on=on, spec=spec, labels={"app": app}, **fields)


# Preferred node affinity.


def prefers(weight: int, key: str) -> WeightedNodeTerm:
    return WeightedNodeTerm(weight, NodeSelectorTerm((Requirement(key, Operator.EXISTS),)))


def test_weights_of_matching_terms_add_up_and_the_best_candidate_has_100() -> None:
    spec = {"preferred_node_terms": (prefers(30, "a"), prefers(10, "b"))}
    nodes = node("n1", labels={"a": "", "b": ""}), node("n2", labels={"b": ""}), node("n3")
    opened = opened_with(*nodes, pod("p", "g", spec=spec), nodeaffinity=1)
    assert points(opened) == [100, 25, 0]
    assert points(opened, ["n2", "n3"]) == [100, 0]


@pytest.mark.parametrize(
    "terms", [(), (prefers(0, "a"),), (WeightedNodeTerm(5, NodeSelectorTerm()),)]
)
def test_no_terms_or_terms_without_weight_or_content_prefer_nothing(
    terms: tuple[WeightedNodeTerm, ...],
) -> None:
    spec = {"preferred_node_terms": terms}
    nodes = node("n1", labels={"a": ""}), node("n2")
    opened = opened_with(*nodes, pod("p", "g", spec=spec), nodeaffinity=1)
    assert points(opened) == [0, 0]
    assert opened.session.plain.is_scored_by_class(opened.task("p"))


# Taints.


def mild(*keys: str) -> tuple[Taint, ...]:
    return tuple(Taint(key, "", TaintEffect.PREFER_NO_SCHEDULE) for key in keys)


def test_the_fewer_discouraging_taints_the_better() -> None:
    nodes = node("n1", taints=mild("a", "b", "c")), node("n2", taints=mild("a")), node("n3")
    opened = opened_with(*nodes, pod("p", "g"), tainttoleration=1)
    assert points(opened) == [0, 100 - 33, 100]


@pytest.mark.parametrize(
    ("effect", "tolerated"),
    [
        (TaintEffect.ANY, True),
        (TaintEffect.PREFER_NO_SCHEDULE, True),
        (TaintEffect.NO_SCHEDULE, False),
    ],
)
def test_a_toleration_counts_by_its_effect(effect: TaintEffect, tolerated: bool) -> None:
    spec = {"tolerations": (Toleration("a", exists=True, effect=effect),)}
    nodes = node("n1", taints=mild("a")), node("n2")
    opened = opened_with(*nodes, pod("p", "g", spec=spec), tainttoleration=1)
    first, second = points(opened)
    assert (first == second) is tolerated


def test_taints_that_forbid_do_not_discourage() -> None:
    hard = (Taint("a", "", TaintEffect.NO_SCHEDULE),)
    opened = opened_with(node("n1", taints=hard), node("n2"), pod("p", "g"), tainttoleration=1)
    assert points(opened) == [0, 0]


# Images.


def holding(name: str, **sizes_mib: int) -> Any:
    images = tuple(NodeImage((f"{i}:1",), size * MIB) for i, size in sizes_mib.items())
    return node(name, images=images)


def image_points(*nodes: Any, images: tuple[str, ...], containers: int = 1) -> list[float]:
    spec = {"images": images, "container_count": containers}
    return points(opened_with(*nodes, pod("p", "g", spec=spec), imagelocality=1))


def test_an_image_counts_by_its_size_and_by_how_many_nodes_have_it() -> None:
    # 523 MiB on one of two nodes: 261.5, of which 238.5 above the least of 23, out of 977.
    found = image_points(holding("n1", a=523), node("n2"), images=("a:1",))
    assert found == [100 * 238.5 // 977, 0]


def test_small_images_count_nothing_and_large_ones_no_more_than_100() -> None:
    assert image_points(holding("n1", a=23), images=("a:1",)) == [0]
    assert image_points(holding("n1", a=5000), images=("a:1",)) == [100]


def test_images_add_up_and_containers_stretch_the_scale() -> None:
    one = holding("n1", a=511, b=512)
    assert image_points(one, images=("a:1", "b:1")) == [100]
    assert image_points(one, images=("a:1", "b:1"), containers=2) == [100 * 1000 // 1977]


def test_an_image_has_to_be_there_under_its_full_name() -> None:
    assert image_points(holding("n1", a=5000), images=("a:2",)) == [0]


# Other pods.


def near(weight: int, key: str, selector: LabelSelector = APP_X) -> dict[str, Any]:
    term = WeightedPodAffinityTerm(weight, PodAffinityTerm(key, selector))
    return {"preferred_affinity": (term,)}


def away(weight: int, key: str, selector: LabelSelector = APP_X) -> dict[str, Any]:
    term = WeightedPodAffinityTerm(weight, PodAffinityTerm(key, selector))
    return {"preferred_anti_affinity": (term,)}


def three_nodes() -> list[Any]:
    places = (("n1", "a"), ("n2", "a"), ("n3", "b"))
    return [node(name, labels={HOST: name, ZONE: zone}) for name, zone in places]


def test_nodes_near_friends_score_100_and_the_others_0() -> None:
    old, new = labelled("old", "x", "n1"), labelled("p", "y", spec=near(7, ZONE))
    assert points(opened_with(*three_nodes(), old, new, podaffinity=1)) == [100, 100, 0]


def test_nodes_near_foes_score_0() -> None:
    old, new = labelled("old", "x", "n1"), labelled("p", "y", spec=away(7, HOST))
    assert points(opened_with(*three_nodes(), old, new, podaffinity=1)) == [0, 100, 100]


def test_terms_of_pods_on_nodes_weigh_as_much_as_the_own_ones() -> None:
    friend = labelled("a", "z", "n1", near(30, HOST))
    foe = labelled("b", "z", "n3", away(10, HOST))
    opened = opened_with(*three_nodes(), friend, foe, labelled("p", "x"), podaffinity=1)
    # +30, 0, -10 on a scale of 40.
    assert points(opened) == [100, 25, 0]


def test_required_affinity_of_pods_on_nodes_weighs_nothing() -> None:
    spec = {"required_affinity": (PodAffinityTerm(HOST, APP_X),)}
    old = labelled("old", "z", "n1", spec)
    opened = opened_with(*three_nodes(), old, labelled("p", "x"), podaffinity=1)
    assert points(opened) == [0, 0, 0]


def test_without_own_terms_only_nodes_with_affinity_at_the_beginning_are_asked() -> None:
    wish = near(30, HOST)
    objects = (
        *three_nodes(),
        labelled("a", "z", "n1", wish),
        labelled("b", "z", spec=wish),
        labelled("c", "z", spec=wish),
    )
    opened = opened_with(*objects, labelled("p", "x"), podaffinity=1)
    opened.session.moves.place(opened.task("b"), "n2", TaskStatus.ALLOCATED)
    assert points(opened) == [100, 0, 0]
    opened.session.moves.place(opened.task("c"), "n1", TaskStatus.ALLOCATED)
    assert points(opened) == [100, 0, 0]
    with_own = opened_with(*objects, labelled("p", "x", spec=near(10, HOST)), podaffinity=1)
    with_own.session.moves.place(with_own.task("b"), "n2", TaskStatus.ALLOCATED)
    assert points(with_own) == [100, 100, 0]


def test_who_has_no_terms_and_is_in_nobodys_is_plain() -> None:
    opened = opened_with(
        *three_nodes(), labelled("a", "z", "n1", near(5, HOST)), labelled("p", "y"), podaffinity=1
    )
    assert opened.session.plain.is_scored_by_class(opened.task("p"))
    assert opened.hooks.task_batch_score["nodeorder"](opened.task("p"), np.arange(3)) is None


# Spread.


def soft(key: str, skew: int = 1, selector: LabelSelector | None = APP_X) -> SpreadConstraint:
    return SpreadConstraint(key, skew, required=False, selector=selector)


def test_the_emptier_place_scores_higher() -> None:
    spec = {"spread_constraints": (soft(ZONE),)}
    objects = *three_nodes(), labelled("o1", "x", "n1"), labelled("o2", "x", "n2")
    opened = opened_with(*objects, labelled("p", "x", spec=spec), podtopologyspread=1)
    # Zone a: 2 * ln(4) = 2.77, 3; zone b: 0. (3 + 0 - 3) / 3 and (3 + 0 - 0) / 3.
    assert points(opened) == [0, 0, 100]


def test_max_skew_waters_differences_down() -> None:
    spec = {"spread_constraints": (soft(HOST, 5),)}
    old = labelled("old", "x", "n1")
    opened = opened_with(*three_nodes(), old, labelled("p", "x", spec=spec), podtopologyspread=1)
    # ln(3 + 2) + 4 = 5.6, 6; the others 4: 100 * (6 + 4 - 6) / 6 and 100 * (6 + 4 - 4) / 6.
    assert points(opened) == [66, 100, 100]


def test_nodes_without_a_key_score_nothing_under_the_pods_own_constraints() -> None:
    spec = {"spread_constraints": (soft(ZONE),)}
    opened = opened_with(
        *three_nodes(), node("n4"), labelled("p", "x", spec=spec), podtopologyspread=1
    )
    assert points(opened) == [100, 100, 100, 0]


def service(**fields: Any) -> Workload:
    given = {"kind": "Service", "namespace": "ns", "selector": APP_X, **fields}
    return Workload("uid-s", name="s", **given)


def test_pods_of_a_service_are_spread_by_default() -> None:
    objects = *three_nodes(), labelled("old", "x", "n1"), labelled("p", "x")
    opened = opened_with(*objects, service(), podtopologyspread=1)
    # Hosts: ln(5) + 2 against 2; zones: ln(4) + 4 against 4.
    raw = [round(log(5) + 2 + log(4) + 4), round(2 + log(4) + 4), 6]
    best = max(raw)
    assert points(opened) == [100 * (best + min(raw) - score) // best for score in raw]


def test_services_without_pods_share_a_term_until_their_first_pod_is_placed() -> None:
    of_y = LabelSelector((Requirement("app", Operator.IN, ("y",)),))
    other = Workload("uid-t", "Service", "ns", "t", of_y)
    pods = [labelled(name, app) for name, app in (("a", "x"), ("b", "x"), ("c", "y"), ("p", "x"))]
    opened = opened_with(*three_nodes(), *pods, service(), other, podtopologyspread=1)
    rule = opened.hooks.task_batch_score["nodeorder"]
    assert isinstance(rule, CandidateTerms)
    first, second, others = (rule.terms(task) for task in opened.tasks("a", "b", "c"))
    assert first == second == others
    assert points(opened) == [100, 100, 100]
    opened.session.statement().allocate(opened.task("a"), "n1")
    assert rule.terms(opened.task("b")) != first
    assert rule.terms(opened.task("c")) == first
    assert points(opened)[0] < points(opened)[2]


def test_by_default_a_node_without_a_zone_is_scored_by_its_host() -> None:
    nodes = *three_nodes(), node("n4", labels={HOST: "n4"})
    objects = *nodes, labelled("old", "x", "n1"), labelled("p", "x"), service()
    opened = opened_with(*objects, podtopologyspread=1)
    assert points(opened)[3] == max(points(opened))


@pytest.mark.parametrize(
    "workload",
    [
        service(namespace="other"),
        service(selector=None),
        service(selector=LabelSelector()),
        service(selector=LabelSelector((Requirement("app", Operator.IN, ("y",)),))),
        service(kind="ReplicaSet"),
    ],
)
def test_without_a_selector_of_its_own_a_pod_is_not_spread(workload: Workload) -> None:
    objects = *three_nodes(), labelled("old", "x", "n1"), labelled("p", "x"), workload
    opened = opened_with(*objects, podtopologyspread=1)
    assert points(opened) == [0, 0, 0]
    assert opened.session.plain.is_scored_by_class(opened.task("p"))


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController", "StatefulSet"])
def test_pods_of_a_controller_are_spread_by_default(kind: str) -> None:
    owned = replace(labelled("p", "x"), controller_kind=kind, controller_name="s")
    objects = *three_nodes(), labelled("old", "x", "n1"), owned, service(kind=kind)
    found = points(opened_with(*objects, podtopologyspread=1))
    assert found[0] < found[1] < found[2]


def test_own_constraints_of_either_kind_replace_the_defaults() -> None:
    hard = {"spread_constraints": (replace(soft(ZONE, 9), required=True),)}
    objects = *three_nodes(), labelled("old", "x", "n1"), service()
    opened = opened_with(*objects, labelled("p", "x", spec=hard), podtopologyspread=1)
    assert points(opened) == [0, 0, 0]


@pytest.mark.parametrize("selector", [None, LabelSelector()])
def test_an_absent_or_empty_selector_counts_nobody(selector: LabelSelector | None) -> None:
    spec = {"spread_constraints": (soft(ZONE, 1, selector),)}
    objects = *three_nodes(), labelled("old", "x", "n1"), labelled("p", "x", spec=spec)
    assert points(opened_with(*objects, podtopologyspread=1)) == [100, 100, 100]


def test_leaving_pods_are_not_counted() -> None:
    spec = {"spread_constraints": (soft(ZONE),)}
    leaving = labelled("old", "x", "n1", terminating=True)
    objects = *three_nodes(), leaving, labelled("p", "x", spec=spec)
    assert points(opened_with(*objects, podtopologyspread=1)) == [100, 100, 100]


@pytest.mark.parametrize("number", [2, 3, 5, 7, 100, 5002])
def test_the_logarithm_is_the_usual_one(number: int) -> None:
    assert natural_log(number) == pytest.approx(log(number), rel=1e-15)


def test_pods_are_kept_by_label_while_sessions_ask_for_them() -> None:
    objects = *three_nodes(), labelled("a", "x"), service()
    opened = opened_with(*objects, podtopologyspread=1)
    engine, pods = opened.engine, opened.engine.cache.pods
    engine.schedule(1)
    assert [*pods._by_label] == ["app"]
    for number in range(2, 13):
        engine.schedule(number)
    assert not pods._by_label
    # The second pod is spread from the first one, which is found again.
    fill(engine, labelled("b", "x"))
    engine.schedule(13)
    nodes = {engine.cache.tasks[f"uid-{name}"].node_name for name in "ab"}
    assert "" not in nodes
    assert len(nodes) == 2
