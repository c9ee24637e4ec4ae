"""The filters over all nodes at once say what they would say node by node."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.core.cache.tasks import Task
from pumice.core.deltas import ClusterObject
from pumice.core.model.status import TaskStatus
from tests.core.builders import pod_group, queue
from tests.core.plugins import plain_filters as plain
from tests.core.plugins.opened import Opened
from tests.core.plugins.random_clusters import RandomCluster
from tests.core.plugins.verdicts import allowed, verdicts, why_nowhere

SEEDS = st.integers(0, 2**32)


def groups() -> list[ClusterObject]:
    return [
        replace(pod_group("g"), namespace=space, uid=f"uid-g-{space}")
        for space in ("a", "b", "unknown")
    ]


def world_of(cluster: RandomCluster) -> plain.World:
    world = plain.World(
        {n.name: n for n in cluster.nodes},
        {n.name: [p for p in cluster.running if p.node_name == n.name] for n in cluster.nodes},
        {n.name: n.labels for n in cluster.namespaces},
    )
    world.freeze()
    return world


def opened_over(cluster: RandomCluster, *plugins: str) -> tuple[Opened, plain.World]:
    opened = Opened(
        queue(),
        *groups(),
        *cluster.namespaces,
        *cluster.workloads,
        *cluster.nodes,
        *cluster.running,
        *cluster.waiting,
        plugins=plugins,
    )
    return opened, world_of(cluster)


def place(opened: Opened, world: plain.World, task: Task, node: str) -> None:
    """Puts a task on a node, whatever the filters say, in the session and in the plain world."""
    opened.session.moves.place(task, node, TaskStatus.ALLOCATED)
    world.pods[node].append(task.pod)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(SEEDS)
def test_every_node_gives_the_reasons_of_the_plain_filters(seed: int) -> None:
    cluster = RandomCluster(seed)
    opened, world = opened_over(cluster, "predicates")
    for incoming in cluster.waiting:
        if why_nowhere(opened, incoming.name) is not None:
            continue
        expected = {n.name: plain.verdict(world, incoming, n) for n in cluster.nodes}
        assert verdicts(opened, incoming.name) == expected
        assert allowed(opened, incoming.name) == [n for n, said in expected.items() if not said]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(SEEDS)
def test_placements_and_evictions_of_the_session_count(seed: int) -> None:
    cluster = RandomCluster(seed)
    opened, world = opened_over(cluster, "predicates")
    chance = cluster.chance
    for incoming in cluster.waiting[:2]:
        # Some tallies exist before the moves, some are made after them.
        if chance.random() < 0.5:
            opened.session.feasibility.refusals(
                opened.task(incoming.name), opened.session.view(opened.task(incoming.name))
            )
        place(opened, world, opened.task(incoming.name), chance.choice(cluster.nodes).name)
    for victim in [p for p in cluster.running if not p.terminating][:2]:
        statement = opened.session.statement()
        statement.evict(opened.task(victim.name), "test")
        world.pods[victim.node_name].remove(victim)
        # What an undone eviction took out of Kubernetes' view stays out of it.
        if chance.random() < 0.5:
            statement.discard()
    for incoming in cluster.waiting[2:]:
        if why_nowhere(opened, incoming.name) is not None:
            continue
        expected = {n.name: plain.verdict(world, incoming, n) for n in cluster.nodes}
        assert verdicts(opened, incoming.name) == expected


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SEEDS)
def test_counts_that_followed_two_sessions_equal_a_recount(seed: int) -> None:
    cluster = RandomCluster(seed)
    opened, _ = opened_over(cluster, "predicates", "nodeorder")
    cache = opened.engine.cache
    for number in range(2):
        opened.engine.schedule(number)
    standing = [task for task in cache.tasks.values() if task.node_name]
    assert cache.pods.affinity_pods.sum() == sum(
        plain.has_affinity(task.pod.spec) for task in standing
    )
    for question, tally in cache.pods._tallies.items():
        counts = [0] * len(cache.table)
        for task in standing:
            if question.counts(task) and question.selector.matches(task.pod.labels):
                row = cache.table.row_of(task.node_name)
                assert row is not None
                counts[row] += 1
        assert tally.counts.tolist() == counts
        assert tally.total == sum(counts)
    for label, pods in cache.pods._by_label.items():
        placed = {
            (task.pod.labels[label], task.uid, cache.table.row_of(task.node_name))
            for task in standing
            if label in task.pod.labels
        }
        known = pods.by_value.items()
        assert {(v, uid, row) for v, of in known for uid, (_, row) in of.items()} == placed
