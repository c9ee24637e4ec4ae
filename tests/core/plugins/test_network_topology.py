"""network-topology-aware: which domains are offered, and the scores of domains and nodes."""

from __future__ import annotations

import numpy as np
import pytest

from pumice.core.cache.hyper_nodes import CLUSTER_TOP
from pumice.core.deltas import ClusterObject
from pumice.core.model.group import NetworkTopology
from pumice.core.plugins.network_topology.scores import power
from tests.core.builders import job, node, pod, pod_group, queue
from tests.core.networks import hyper_node
from tests.core.plugins.opened import Opened, options

NAME = "network-topology-aware"
NETWORK: list[ClusterObject] = [
    queue(),
    *(node(f"n{number}", 4, 8) for number in range(1, 6)),
    hyper_node("leaf1", 1, "n1", "n2"),
    hyper_node("leaf2", 1, "n3", "n4"),
    hyper_node("spine", 2, below=("leaf1", "leaf2")),
]


def opened(*objects: ClusterObject, **arguments: object) -> Opened:
    return Opened(*NETWORK, *objects, plugins=["gang", options(NAME, **arguments)])


def within(tier: int | None, *, hard: bool = True) -> NetworkTopology:
    return NetworkTopology(hard=hard, highest_tier=tier)


def gradients(session: Opened, name: str, *, evicting: bool = False) -> list[list[str]]:
    return session.hooks.job_gradient[NAME](session.job(name), CLUSTER_TOP, evicting)


@pytest.mark.parametrize(
    ("topology", "offered"),
    [
        (None, [[CLUSTER_TOP]]),
        (within(None), [[CLUSTER_TOP]]),
        (within(0), []),
        (within(1), [["leaf1", "leaf2"]]),
        (within(2), [["leaf1", "leaf2"], ["spine"]]),
        (within(9), [["leaf1", "leaf2"], ["spine"], [CLUSTER_TOP]]),
        (within(None, hard=False), [["leaf1", "leaf2"], ["spine"], [CLUSTER_TOP]]),
        (within(-1), []),
    ],
)
def test_domains_are_offered_from_the_lowest_tier_to_the_highest_allowed(
    topology: NetworkTopology | None, offered: list[list[str]]
) -> None:
    session = opened(*job("j", 2, network_topology=topology))
    assert gradients(session, "j") == offered


def test_domains_with_too_little_for_the_minimum_are_left_out() -> None:
    minimum = (("cpu", 7000), ("memory", 0))
    busy: list[ClusterObject] = [pod_group("b", 0), pod("b-0", "b", 2, on="n1")]
    wanted = job("j", 2, network_topology=within(2), min_resources=minimum)
    session = opened(*busy, *wanted)
    assert gradients(session, "j") == [["leaf2"], ["spine"]]
    # Evictions may free all that a domain offers; the widest comes first.
    assert gradients(session, "j", evicting=True) == [["spine"], ["leaf1", "leaf2"]]


def test_the_last_domains_are_kept_where_too_many_are_offered_for_evictions() -> None:
    session = Opened(
        *NETWORK,
        *job("j", 2, network_topology=within(2)),
        plugins=[options(NAME, **{"hypernode.gradient.evict.max-hypernodes": 2})],
    )
    assert gradients(session, "j", evicting=True) == [["spine"], ["leaf2"]]


def test_a_job_that_is_partly_placed_goes_on_in_its_domain() -> None:
    group = pod_group("j", 2, network_topology=within(1))
    session = opened(group, pod("j-0", "j", on="n3"), pod("j-1", "j"))
    assert gradients(session, "j") == [["leaf2"]]


def test_a_job_that_is_placed_above_its_tier_gets_no_domain() -> None:
    group = pod_group("j", 2, network_topology=within(1))
    pods = [pod("j-0", "j", on="n1"), pod("j-1", "j", on="n3"), pod("j-2", "j")]
    assert gradients(opened(group, *pods), "j") == []


def test_a_domain_scores_by_how_full_the_job_would_make_it() -> None:
    busy: list[ClusterObject] = [pod_group("b", 0), pod("b-0", "b", 2, 2, on="n1")]
    session = opened(*busy, *job("j", 2, 1, network_topology=within(1)), weight=2)
    sub_job = session.job("j").default_sub_job()
    score = session.hooks.hyper_node_order[NAME]
    rows = {name: np.zeros(0, dtype=np.intp) for name in ("leaf1", "leaf2")}
    # Cpu and memory: (2 + 2) of 8 cores and (2 + 2) of 16 GiB; (0 + 2) of each.
    assert score(sub_job, rows) == {"leaf1": 200 * 0.375, "leaf2": 200 * 0.1875}


def test_a_domain_that_cannot_hold_the_job_scores_nothing() -> None:
    session = opened(*job("j", 2, 5, network_topology=within(1)))
    sub_job = session.job("j").default_sub_job()
    rows = {name: np.zeros(0, dtype=np.intp) for name in ("leaf1", "spine")}
    score = session.hooks.hyper_node_order[NAME](sub_job, rows)
    assert score["leaf1"] == 0
    assert score["spine"] > 0


def test_of_equally_full_domains_the_one_with_more_of_the_job_scores_higher() -> None:
    group = pod_group("j", 2, network_topology=within(2))
    pods = [pod("j-0", "j", on="n1"), pod("j-1", "j", on="n3"), pod("j-2", "j", on="n4", cpu=0)]
    session = opened(group, *pods, hypernode__binpack__memory=0)
    sub_job = session.job("j").default_sub_job()
    rows = {name: np.zeros(0, dtype=np.intp) for name in ("leaf1", "leaf2")}
    score = session.hooks.hyper_node_order[NAME](sub_job, rows)
    assert score["leaf2"] - score["leaf1"] == pytest.approx(100 / 3)


def scores_of(session: Opened, name: str) -> list[float] | None:
    found = session.hooks.task_batch_score[NAME](session.task(name), np.arange(5))
    return None if found is None else [round(score, 3) for score in found.tolist()]


def test_nodes_near_to_the_job_score_higher() -> None:
    session = opened(*job("j", 3, network_topology=within(3)))
    assert scores_of(session, "j-0") is None
    session.session.topology.followed = "leaf1"
    # The tier of the domain that has both: leaf1, spine, and the domain of all nodes; n5 has no leaf.
    assert scores_of(session, "j-0") == [100, 100, 50, 50, 0]


def test_pods_without_a_topology_prefer_domains_in_use_and_nodes_in_none() -> None:
    busy: list[ClusterObject] = [pod_group("b", 0), pod("b-0", "b", 2, 2, on="n1")]
    session = opened(*busy, *job("j", 1, 2), hypernode__binpack__memory=0)
    # Fullness by tier: leaf1 (2 + 2) / 8, leaf2 2 / 8, spine 4 / 16, all nodes 4 / 20.
    total = 1 + 0.8 + 0.8 * 0.8
    leaf1 = (0.5 + 0.8 * 0.25 + 0.64 * 0.2) / total * 100
    leaf2 = (0.25 + 0.8 * 0.25 + 0.64 * 0.2) / total * 100
    none = (1 + 0.8 + 0.64 * 0.2) / total * 100
    expected = [leaf1, leaf1, leaf2, leaf2, none]
    assert scores_of(session, "j-0") == [round(score, 3) for score in expected]


def test_scores_of_pods_without_a_topology_can_be_switched_off() -> None:
    off = {"hypernode.binpack.normal-pod.enable": False}
    session = Opened(*NETWORK, *job("j", 1, 2), plugins=[options(NAME, **off)])
    assert scores_of(session, "j-0") is None


@pytest.mark.parametrize(
    ("base", "exponent", "result"),
    [(0.8, 0, 1.0), (0.8, 1, 0.8), (0.8, 3, 0.8 * (0.8 * 0.8)), (0.0, 0, 1.0), (0.5, -1, 2.0)],
)
def test_powers_are_multiplied_in_the_order_of_go(
    base: float, exponent: int, result: float
) -> None:
    assert power(base, exponent) == result


def test_hyper_nodes_with_tiers_far_apart_cost_nothing() -> None:
    session = opened(hyper_node("far", 2**31 - 1, "n5"), *job("j", 1, 1))
    found = scores_of(session, "j-0")
    assert found is not None
    assert all(np.isfinite(score) for score in found)


def test_a_long_chain_of_hyper_nodes_is_a_tree() -> None:
    count = 3000
    chain = [hyper_node(f"h{n:04}", n, below=(f"h{n - 1:04}",)) for n in range(2, count)]
    session = opened(hyper_node("h0001", 1, "n5"), *chain)
    tree = session.session.topology.tree
    assert tree.problem == ""
    assert tree.rows_of(f"h{count - 1:04}").tolist() == [False] * 4 + [True]
