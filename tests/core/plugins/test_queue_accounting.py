"""Whatever is placed, evicted and undone, what plugins count is what a fresh count gives."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.core.cache.tasks import Task
from pumice.core.configuration import PluginOptions
from pumice.core.deltas import ClusterObject
from pumice.core.model.group import Queue
from pumice.core.model.resources import Resources
from pumice.core.model.status import HOLDS_RESOURCES, TaskStatus
from pumice.core.plugins.capacity import CapacityPlugin
from pumice.core.plugins.drf import DrfPlugin
from pumice.core.plugins.drf.hierarchy import ShareTree
from pumice.core.plugins.proportion import ProportionPlugin
from pumice.core.session.placing.statement import Statement
from pumice.core.session.queues import QueueAccount
from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, cores, options

LEAVES = {"a1": "a", "a2": "a", "b": ""}
COUNTED = (*HOLDS_RESOURCES, TaskStatus.PIPELINED)


def cluster(plugins: Sequence[PluginOptions]) -> Opened:
    paths = {"a1": "root/a/x", "a2": "root/a/y", "b": "root/b"}
    queues: list[Queue] = [queue("root"), queue("a", deserved=cores(8))]
    jobs: list[ClusterObject] = []
    for number, (name, parent) in enumerate(LEAVES.items()):
        annotations = {
            "volcano.sh/hierarchy": paths[name],
            "volcano.sh/hierarchy-weights": f"1/{number + 1}/2",
        }
        fields = {"parent": parent, "deserved": cores(5), "annotations": annotations}
        queues.append(queue(name, weight=number + 1, **fields))
        jobs.append(pod_group(name, queue_name=name))
        jobs += [pod(f"{name}-r{i}", name, i + 1, i, on="n1") for i in range(3)]
        jobs += [pod(f"{name}-p{i}", name, 3 - i, 1) for i in range(3)]
    return Opened(node("n1", 40, 100), *queues, *jobs, plugins=plugins)


class Walk:
    """Random placements, evictions and undoings; statements may stay open."""

    def __init__(self, session: Opened, steps: list[tuple[int, int]]) -> None:
        self._session = session
        self._open: list[Statement] = []
        tasks = sorted(session.engine.cache.tasks.values(), key=lambda task: task.name)
        for choice, index in steps:
            self._step(choice, tasks[index % len(tasks)])

    def _step(self, choice: int, task: Task) -> None:
        if choice == 0 and self._open:
            self._open.pop().discard()
            return
        statement = self._session.session.statement()
        if task.status is TaskStatus.RUNNING:
            statement.evict(task, "walk")
        elif task.status is TaskStatus.PENDING and choice == 1:
            statement.pipeline(task, "n1", eviction_occurred=False)
        elif task.status is TaskStatus.PENDING:
            statement.allocate(task, "n1")
        self._open.append(statement)


walks = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 17)), max_size=30)


def recount(session: Opened, leaves: Sequence[str]) -> Resources:
    total = Resources()
    for name in leaves:
        for task in session.job(name).index:
            if task.status in COUNTED:
                total.add(task.request)
    return total


def same(mine: Resources, other: Resources) -> bool:
    """Equal, be a dimension zero or absent."""
    return mine.less_equal(other) and other.less_equal(mine)


@settings(max_examples=60)
@given(walks)
def test_proportion_counts_what_is_placed(steps: list[tuple[int, int]]) -> None:
    session = cluster([options("proportion")])
    Walk(session, steps)
    plugin = session.plugins["proportion"]
    assert isinstance(plugin, ProportionPlugin)
    for name in LEAVES:
        held: QueueAccount = plugin._queues[name]
        assert same(held.allocated, recount(session, [name]))
        assert held.share == held.allocated.dominant_share(held.deserved)


@settings(max_examples=60)
@given(walks, st.booleans())
def test_capacity_counts_what_is_placed(steps: list[tuple[int, int]], tree: bool) -> None:
    flags = ["enableHierarchy"] if tree else []
    session = cluster([options("capacity", *flags)])
    plugin = session.plugins["capacity"]
    assert isinstance(plugin, CapacityPlugin)
    accounts = plugin._queues
    assert accounts is not None
    opening = {name: held.share for name, held in accounts.items()}
    Walk(session, steps)
    for name in LEAVES:
        assert same(accounts[name].allocated, recount(session, [name]))
        assert accounts[name].share == accounts[name].share_now()
    if tree:
        assert same(accounts["a"].allocated, recount(session, ["a1", "a2"]))
        assert same(accounts["root"].allocated, recount(session, list(LEAVES)))
        assert accounts["a"].share == opening["a"]


@settings(max_examples=60)
@given(walks)
def test_drf_counts_what_is_placed(steps: list[tuple[int, int]]) -> None:
    session = cluster([options("drf", "enableHierarchy")])
    plugin = session.plugins["drf"]
    assert isinstance(plugin, DrfPlugin)
    # Grown before the walk, so that it has to follow.
    session.hooks.queue_order["drf"](session.queue("a1"), session.queue("b"))
    Walk(session, steps)
    fresh = ShareTree(session.session.total)
    for name in sorted(LEAVES):
        held = recount(session, [name])
        job = session.job(name)
        assert same(plugin._held_by(job.id), held)
        assert plugin._share_of(job) == held.dominant_share(session.session.total)
        fresh.add_job(job.id, session.queue(name), held, job.index.total_request)
    for left in LEAVES:
        for right in LEAVES:
            kept = plugin._share_tree().compare(session.queue(left), session.queue(right))
            assert kept == fresh.compare(session.queue(left), session.queue(right))


@pytest.mark.parametrize("plugin", ["proportion", "capacity", "drf"])
def test_opening_a_session_costs_nothing_for_jobs_that_did_not_change(plugin: str) -> None:
    session = cluster([options(plugin)])
    totals = session.engine.cache.jobs.totals
    session.engine.schedule(0)
    session.engine.schedule(1)
    before = totals.recomputed
    session.engine.schedule(2)
    assert totals.recomputed == before


def test_the_tree_looks_only_at_what_changed() -> None:
    """A hundred jobs, one of which moves: one leaf and its way up are computed again."""
    tree = ShareTree(Resources(10**6, 10**6))
    place = queue("q", annotations={"volcano.sh/hierarchy": "root/x"})
    for number in range(100):
        tree.add_job(f"ns/{number:03}", place, Resources(), Resources(10**6))
    tree.compare(place, place)
    tree.set_held("ns/050", Resources(5))
    assert list(tree._changed) == ["ns/050"]
    tree.compare(place, place)
    assert tree._changed == {}
