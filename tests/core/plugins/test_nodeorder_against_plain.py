"""The scores over all candidates at once are what they would be node by node."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.core.model.node import Node
from pumice.core.model.pod import Pod
from tests.core.builders import queue
from tests.core.plugins import plain_filters, plain_scores
from tests.core.plugins.opened import GPU, Opened, offering, options
from tests.core.plugins.random_clusters import RandomCluster
from tests.core.plugins.test_predicates_against_plain import groups, place, world_of
from tests.core.plugins.verdicts import scores

SEEDS = st.integers(0, 2**32)
WEIGHTS = (
    "leastrequested",
    "mostrequested",
    "balancedresource",
    "nodeaffinity",
    "podaffinity",
    "tainttoleration",
    "imagelocality",
    "podtopologyspread",
)


def opened_over(cluster: RandomCluster, **weights: int) -> Opened:
    given = {f"{name}.weight": weights.get(name, 0) for name in WEIGHTS}
    return Opened(
        queue(),
        *groups(),
        *cluster.namespaces,
        *cluster.workloads,
        *cluster.nodes,
        *cluster.running,
        *cluster.waiting,
        plugins=["predicates", options("nodeorder", **given)],
    )


def expected(
    name: str, cluster: RandomCluster, world: plain_filters.World, pod: Pod, nodes: list[Node]
) -> dict[str, int]:
    match name:
        case "leastrequested":
            return {n.name: plain_scores.least(world, pod, n) for n in nodes}
        case "mostrequested":
            return {n.name: plain_scores.most(world, pod, n) for n in nodes}
        case "balancedresource":
            return {n.name: plain_scores.balanced(world, pod, n) for n in nodes}
        case "nodeaffinity":
            return plain_scores.node_affinity(pod, nodes)
        case "podaffinity":
            return plain_scores.inter_pod(world, pod, nodes)
        case "tainttoleration":
            return plain_scores.taints(pod, nodes)
        case "imagelocality":
            return {n.name: plain_scores.images(world, pod, n) for n in nodes}
        case _:
            return plain_scores.spread(world, pod, cluster.workloads, nodes)


def relative(values: dict[str, float] | dict[str, int]) -> dict[str, float]:
    """Without what all candidates have in common: a score that is the same for all may be left
    out, as it decides nothing."""
    lowest = min(values.values())
    return {name: value - lowest for name, value in values.items()}


@pytest.mark.parametrize("name", WEIGHTS)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_each_score_equals_the_plain_one(name: str, seed: int) -> None:
    cluster = RandomCluster(seed)
    opened, world = opened_over(cluster, **{name: 3}), world_of(cluster)
    chance = cluster.chance
    place(opened, world, opened.task("new0"), chance.choice(cluster.nodes).name)
    victims = [p for p in cluster.running if not p.terminating][:1]
    for victim in victims:
        opened.session.statement().evict(opened.task(victim.name), "test")
        world.pods[victim.node_name].remove(victim)
    for pod in cluster.waiting[1:]:
        candidates = [n for n in cluster.nodes if chance.random() < 0.8] or cluster.nodes
        wanted = expected(name, cluster, world, pod, candidates)
        got = scores(opened, pod.name, [n.name for n in candidates])
        assert relative(got) == relative({n: 3 * s for n, s in wanted.items()})


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_the_short_way_of_the_default_weights_leads_to_the_same_sum(seed: int) -> None:
    cluster = RandomCluster(seed)
    # Without nodes that have no cpu: these take the long way.
    cluster.nodes = [n for n in cluster.nodes if dict(n.allocatable)["cpu"]]
    cluster.nodes[:1] = [offering(n, **{GPU: 8000}) for n in cluster.nodes[:1]]
    names = {n.name for n in cluster.nodes}
    cluster.running = [p for p in cluster.running if p.node_name in names]
    opened = opened_over(cluster, leastrequested=1, balancedresource=1)
    world = world_of(cluster)
    for pod in cluster.waiting:
        least = expected("leastrequested", cluster, world, pod, cluster.nodes)
        balanced = expected("balancedresource", cluster, world, pod, cluster.nodes)
        assert scores(opened, pod.name) == {name: least[name] + balanced[name] for name in names}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_a_task_called_plain_gets_nothing_from_other_pods_or_the_candidates(seed: int) -> None:
    cluster = RandomCluster(seed)
    opened = opened_over(cluster, **dict.fromkeys(WEIGHTS, 1))
    session = opened.session
    for pod in cluster.waiting:
        task = opened.task(pod.name)
        if session.plain.is_scored_by_class(task):
            answer = scores(opened, pod.name)
            view = session.view(task)
            assert list(answer.values()) == list(view.order + view.batch)
        if session.hooks.is_plain["predicates"](task):
            assert session.hooks.task_predicate["predicates"](task) is None
