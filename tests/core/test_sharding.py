"""Several schedulers share a cluster by NodeShards."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pumice.core.cache.settings import CacheSettings
from pumice.core.cache.shards import ShardClaims, ShardingMode
from pumice.core.cache.store import ObjectStore
from pumice.core.configuration import Configuration, PluginOptions
from pumice.core.decisions import Bind, Evict, NodeShardStatusChanged, SessionResult
from pumice.core.deltas import Upserted
from pumice.core.engine import Engine
from pumice.core.model.group import PodGroupPhase
from pumice.core.model.topology import NodeShard
from pumice.core.registry import Registry
from tests.core.builders import NOW_NS, fill, job, node, pod, pod_group, priority_class, queue

HARD, SOFT = ShardingMode.HARD, ShardingMode.SOFT


def shard(name: str, desired: str, in_use: str = "") -> NodeShard:
    wanted, used = desired.split(), in_use.split()
    return NodeShard(
        f"uid-{name}",
        name,
        tuple(wanted),
        tuple(used),
        tuple(n for n in wanted if n not in used),
        tuple(n for n in used if n not in wanted),
    )


def engine(mode: ShardingMode, *objects: Any, actions: str = "allocate backfill") -> Engine:
    made = Engine(
        Configuration(
            actions=tuple(actions.split()),
            tiers=(
                tuple(PluginOptions(name) for name in ("priority", "gang", "conformance")),
                tuple(PluginOptions(name) for name in ("predicates", "proportion", "nodeorder")),
            ),
        ),
        settings=CacheSettings(sharding_mode=mode, shard_name="us"),
    )
    return fill(made, queue(), *objects)


def bound(result: SessionResult) -> dict[str, str]:
    return {d.name: d.node for d in result.decisions if isinstance(d, Bind)}


def claimed(result: SessionResult) -> tuple[str, ...] | None:
    found = [s for s in result.statuses if isinstance(s, NodeShardStatusChanged)]
    return found[0].nodes_in_use if found else None


def test_hard_sharding_uses_only_claimed_nodes_and_says_why_not_the_others() -> None:
    nodes = [node(f"n{i}", 2) for i in range(1, 5)]
    made = engine(HARD, *nodes, shard("us", "n2 n3", "n2 n3"), job("a", 6, minimum=6))
    result = made.schedule(NOW_NS)
    assert bound(result) == {}
    (reason,) = [r for r in result.waits[0].reasons if r.nodes]
    # What is outside the shard is not asked for its resources.
    assert [(n.reason, n.nodes) for n in reason.nodes] == [
        ("Insufficient cpu", 2),
        ("node isn't in scheduler node shard", 2),
    ]
    fill(made, job("b", 4, minimum=4))
    assert set(bound(made.schedule(NOW_NS + 1)).values()) == {"n2", "n3"}


def test_a_node_is_used_once_the_cluster_shows_the_claim() -> None:
    made = engine(HARD, node("n1"), shard("us", "n1 n2"), job("a", 1))
    result = made.schedule(NOW_NS)
    assert (bound(result), claimed(result)) == ({}, ("n1", "n2"))
    fill(made, shard("us", "n1 n2", "n1 n2"))
    result = made.schedule(NOW_NS + 1)
    assert (bound(result), claimed(result)) == ({"a-0": "n1"}, None)


def test_without_its_own_shard_a_scheduler_uses_nothing_and_writes_nothing() -> None:
    made = engine(HARD, node("n1"), shard("them", "n1", "n1"), job("a", 1))
    result = made.schedule(NOW_NS)
    assert (bound(result), claimed(result)) == ({}, None)


def test_a_node_that_another_scheduler_claims_is_neither_used_nor_claimed() -> None:
    theirs = shard("them", "n1", "n1")
    made = engine(HARD, node("n1"), node("n2"), shard("us", "n1 n2"), theirs)
    (change,) = [s for s in made.schedule(NOW_NS).statuses if isinstance(s, NodeShardStatusChanged)]
    assert (change.nodes_in_use, change.nodes_to_add, change.nodes_to_remove) == (
        ("n2",),
        ("n1",),
        (),
    )


@pytest.mark.parametrize(("name", "kept"), [("aa", ("n2",)), ("zz", ("n1", "n2"))])
def test_of_two_claims_that_of_the_first_name_stays(name: str, kept: tuple[str, ...]) -> None:
    made = engine(HARD, node("n1"), shard("us", "n1 n2", "n1 n2"), shard(name, "n1", "n1"))
    change = claimed(made.schedule(NOW_NS))
    assert change == (None if kept == ("n1", "n2") else kept)


def test_a_node_is_released_when_no_bind_to_it_is_in_flight() -> None:
    made = engine(HARD, node("n1"), node("n2"), shard("us", "n1", "n1"), job("a", 1))
    assert bound(made.schedule(NOW_NS)) == {"a-0": "n1"}
    fill(made, shard("us", "n2", "n1"))
    result = made.schedule(NOW_NS + 1)
    assert claimed(result) == ("n1", "n2")
    fill(made, pod("a-0", "a", on="n1"))
    assert claimed(made.schedule(NOW_NS + 2)) == ("n2",)


def test_a_release_is_not_taken_back_before_the_cluster_shows_it() -> None:
    made = engine(HARD, node("n1"), shard("us", "", "n1"))
    assert claimed(made.schedule(NOW_NS)) == ()
    fill(made, shard("us", "n1", "n1"), job("a", 1))
    result = made.schedule(NOW_NS + 1)
    assert (bound(result), claimed(result)) == ({}, ())
    fill(made, shard("us", "n1", ""))
    assert claimed(made.schedule(NOW_NS + 2)) == ("n1",)


def test_a_release_under_way_is_part_of_a_checkpoint() -> None:
    made = engine(HARD, node("n1"), shard("us", "", "n1"))
    made.schedule(NOW_NS)
    fill(made, shard("us", "n1", "n1"), job("a", 1))
    other = engine(HARD)
    other.restore(made.checkpoint())
    assert claimed(other.schedule(NOW_NS + 1)) == claimed(made.schedule(NOW_NS + 1)) == ()


def test_waiting_jobs_start_when_nodes_join_the_shard() -> None:
    made = engine(HARD, node("n1"), shard("us", ""), job("a", 2, minimum=2))
    for step in range(3):
        assert bound(made.schedule(NOW_NS + step)) == {}
    fill(made, shard("us", "n1", "n1"))
    assert bound(made.schedule(NOW_NS + 5)) == {"a-0": "n1", "a-1": "n1"}


def test_soft_sharding_uses_nodes_of_the_shard_first() -> None:
    nodes = [node(f"n{i}", 2) for i in range(1, 4)]
    made = engine(SOFT, *nodes, shard("us", "n3", "n3"), job("a", 4, minimum=4))
    assert sorted(bound(made.schedule(NOW_NS)).values()) == ["n1", "n2", "n3", "n3"]


def test_soft_sharding_prefers_an_idle_node_of_others_to_waiting_in_the_shard() -> None:
    leaving = pod("old", "b", 2, on="n2", terminating=True)
    objects = [node("n1", 2), node("n2", 2), pod_group("b", phase=PodGroupPhase.RUNNING), leaving]
    made = engine(SOFT, *objects, shard("us", "n2", "n2"), job("a", 1, 2))
    assert bound(made.schedule(NOW_NS)) == {"a-0": "n1"}


def test_best_effort_pods_go_to_the_shard_first() -> None:
    made = engine(SOFT, node("n1"), node("n2"), shard("us", "n2", "n2"), pod_group("a"))
    fill(made, pod("a-0", "a", 0, 0))
    assert bound(made.schedule(NOW_NS)) == {"a-0": "n2"}


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_evictions_are_tried_in_the_shard_first(action: str) -> None:
    waiting = "other" if action == "reclaim" else "default"
    objects = [
        queue("other"),
        priority_class("low", 1),
        priority_class("high", 9),
        *(node(f"n{i}", 2) for i in (1, 2, 3)),
        pod_group("low", 0, phase=PodGroupPhase.RUNNING, priority_class_name="low"),
        *(pod(f"low-{i}", "low", 2, on=f"n{i}", priority=1) for i in (1, 2, 3)),
        pod_group("high", 1, queue_name=waiting, priority_class_name="high"),
        pod("high-0", "high", 2, priority=9),
    ]
    made = engine(SOFT, *objects, shard("us", "n2", "n2"), actions=action)
    result = made.schedule(NOW_NS)
    assert [d.name for d in result.decisions if isinstance(d, Evict)] == ["low-2"]


def test_no_configuration_can_name_the_plugin_of_hard_sharding() -> None:
    assert "node-shard" not in Registry().catalog().plugins


# Schedulers that see each other's claims late never bind to one node at the same time.

NAMES = ("a", "b")
NODES = ("n1", "n2")


class Sharing(RuleBasedStateMachine):
    """Schedulers with views of different age over one ordered history of NodeShards."""

    def __init__(self) -> None:
        super().__init__()
        self.history = [NodeShard(f"uid-{name}", name) for name in NAMES]
        self.stores = {name: ObjectStore[NodeShard](lambda s: s.name) for name in NAMES}
        self.claims = {name: ShardClaims(self.stores[name], name) for name in NAMES}
        self.seen = dict.fromkeys(NAMES, 0)
        self.unwritten: dict[str, tuple[str, ...] | None] = dict.fromkeys(NAMES)
        self.in_flight: dict[str, set[str]] = {name: set() for name in NAMES}

    def latest(self, name: str) -> NodeShard:
        return next(s for s in reversed(self.history) if s.name == name)

    @rule(name=st.sampled_from(NAMES), desired=st.sets(st.sampled_from(NODES)))
    def the_controller_moves_nodes(self, name: str, desired: set[str]) -> None:
        old = self.latest(name)
        self.history.append(NodeShard(old.uid, name, tuple(sorted(desired)), old.nodes_in_use))

    @rule(name=st.sampled_from(NAMES), behind=st.sampled_from((0, 0, 1, 3)))
    def a_scheduler_runs_a_session(self, name: str, behind: int) -> None:
        """It has seen everything but the last few changes."""
        for item in self.history[self.seen[name] : max(0, len(self.history) - behind)]:
            self.stores[name].put(item)
            self.claims[name].observe(item)
            self.seen[name] += 1
        own = self.claims[name].own
        if own is None:
            return
        nodes = self.claims[name].nodes(own, self.in_flight[name])
        self.in_flight[name] |= nodes.usable
        if nodes.in_use != tuple(sorted(own.nodes_in_use)):
            self.unwritten[name] = nodes.in_use
            self.claims[name].sent(nodes.in_use)

    @rule(name=st.sampled_from(NAMES))
    def a_status_is_written(self, name: str) -> None:
        in_use = self.unwritten[name]
        if in_use is not None:
            old = self.latest(name)
            self.history.append(NodeShard(old.uid, name, old.nodes_desired, in_use))
            self.unwritten[name] = None

    @rule(name=st.sampled_from(NAMES))
    def binds_end(self, name: str) -> None:
        self.in_flight[name].clear()

    @invariant()
    def no_node_has_binds_of_two_schedulers(self) -> None:
        for number, name in enumerate(NAMES):
            for other in NAMES[number + 1 :]:
                assert not self.in_flight[name] & self.in_flight[other]


TestSharing = Sharing.TestCase
TestSharing.settings = settings(max_examples=250, stateful_step_count=40, deadline=None)


def test_equal_statuses_cause_no_further_session() -> None:
    made = engine(HARD, node("n1"), shard("us", "n1", "n1"))
    made.schedule(NOW_NS)
    made.schedule(NOW_NS + 1)
    assert made.can_skip(NOW_NS + 2)
    made.apply([Upserted(shard("us", "n1", "n1"))])
    assert made.can_skip(NOW_NS + 3)
