"""network-topology-aware on random clusters: a hard tier holds, and no shortcut changes a decision."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from pumice.core.decisions import SessionResult
from pumice.core.engine import Engine
from pumice.core.model.group import NetworkTopology, PodGroup
from pumice.core.model.pod import Pod, PodPhase
from pumice.core.model.topology import HyperNode
from pumice.core.session.placing.candidate_domains import CandidateDomains, DomainCapacity
from pumice.core.session.placing.topology import Topology
from tests.core.networks import RandomNetwork, odd_hyper_node
from tests.world import SECOND_NS, START_NS, Cluster, make_engine

SEEDS = range(40)
TIERS = (("priority", "gang"), ("predicates", "network-topology-aware", "nodeorder"))


def engine(actions: str = "allocate, gangpreempt, backfill") -> Engine:
    return make_engine(actions, TIERS)


def decided(result: SessionResult) -> list[str]:
    return [str(decision) for decision in result.decisions]


def play(seed: int, cluster: Cluster, network: RandomNetwork) -> list[list[str]]:
    """Jobs come and pods go, for a few cycles; what was decided in each."""
    chance = Random(seed)
    cluster.put(*network.objects())
    said = []
    for number in range(4):
        for _ in range(2):
            cluster.put(*network.job())
        said.append(decided(cluster.cycle(START_NS + number * SECOND_NS)))
        running = [pod for pod in cluster.pods() if pod.node_name]
        for pod in chance.sample(running, min(2, len(running))):
            # It is replaced by one of the same kind.
            cluster.take(Pod, pod.uid)
            uid, name = f"{pod.uid}r", f"{pod.name}r"
            cluster.put(replace(pod, uid=uid, name=name, node_name="", phase=PodPhase.PENDING))
    return said


def assert_tiers_hold(cluster: Cluster, network: RandomNetwork) -> None:
    for group in cluster.groups():
        pods = [p for p in cluster.pods() if p.group_name == group.name and p.node_name]
        topology = group.network_topology
        if topology is not None and topology.hard:
            nodes = {pod.node_name for pod in pods}
            assert network.is_within(nodes, topology.highest_tier or 0), (group, nodes)
        for policy in group.sub_group_policies:
            part = policy.network_topology
            if part is None or not part.hard:
                continue
            for value in {pod.labels["part"] for pod in pods}:
                nodes = {pod.node_name for pod in pods if pod.labels["part"] == value}
                assert network.is_within(nodes, part.highest_tier or 0), (group, value, nodes)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gang_is_never_placed_across_a_hard_tier(seed: int) -> None:
    cluster, network = Cluster(engine()), RandomNetwork(seed)
    said = play(seed, cluster, network)
    assert any(said) or seed not in range(3)
    assert_tiers_hold(cluster, network)


@pytest.mark.parametrize("seed", SEEDS)
def test_shortcuts_of_the_search_change_no_decision(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = play(seed, Cluster(engine()), RandomNetwork(seed))
    monkeypatch.setattr(DomainCapacity, "counted", lambda *_: None)
    monkeypatch.setattr(Topology, "ranked", lambda *_: None)
    monkeypatch.setattr(Topology, "is_first_by_name", lambda *_: False)
    monkeypatch.setattr(CandidateDomains, "alike", lambda *_: None)
    monkeypatch.setattr(CandidateDomains, "possible_for_all", lambda _self, _j, _p, d, **_: d)
    assert play(seed, Cluster(engine()), RandomNetwork(seed)) == short


@pytest.mark.parametrize("seed", range(15))
def test_a_new_engine_goes_on_where_the_old_one_stopped(seed: int) -> None:
    network, old = RandomNetwork(seed), Cluster(engine())
    play(seed, old, network)
    new = Cluster(engine())
    # In another order than the old one got them.
    new.put(*reversed(old.objects.values()))
    later = START_NS + 9 * SECOND_NS
    assert decided(new.cycle(later)) == decided(old.cycle(later))


@pytest.mark.parametrize("seed", range(20))
def test_odd_networks_are_no_fault(seed: int) -> None:
    chance, network = Random(seed), RandomNetwork(seed)
    cluster = Cluster(engine("enqueue, allocate, gangpreempt, gangreclaim, reclaim, backfill"))
    cluster.put(*network.objects())
    names = [f"h{number}" for number in range(5)]
    for number in range(4):
        for name in names:
            if chance.random() < 0.7:
                cluster.put(odd_hyper_node(name, names, network.nodes, chance))
            elif (HyperNode, f"uid-{name}") in cluster.objects:
                cluster.take(HyperNode, f"uid-{name}")
        tier = chance.choice((None, -1, 0, 2**31 - 1))
        group, *pods = network.job()
        assert isinstance(group, PodGroup)
        topology = NetworkTopology(chance.random() < 0.5, tier, chance.choice(("", "rack", "x")))
        cluster.put(replace(group, network_topology=topology), *pods)
        assert cluster.cycle(START_NS + number * SECOND_NS).faults == ()
