"""What plugins may build on: each seam is used by a plugin of its own, through the engine."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.jobs import Job
from pumice.core.cache.subjobs import SubJob
from pumice.core.cache.tasks import Task, TaskClass
from pumice.core.configuration import (
    Arguments,
    Configuration,
    PluginOptions,
)
from pumice.core.decisions import Bind, Evict, SessionResult
from pumice.core.deltas import ClusterObject, DataReported, Deleted, Upserted
from pumice.core.engine import Engine
from pumice.core.errors import InvariantError
from pumice.core.model.fit import Refusal
from pumice.core.model.group import NetworkTopology
from pumice.core.model.node import Node
from pumice.core.model.pod import PodPhase
from pumice.core.model.selectors import LabelSelector, Operator, Requirement
from pumice.core.model.topology import HyperNode, HyperNodeMember
from pumice.core.registry import Registry
from pumice.core.session.hooks import EventHandler, Rows
from pumice.core.session.policies import ClassRule
from pumice.core.session.session import Session
from tests.core.builders import NOW_NS, fill, job, node, pod, pod_group, queue

SECOND_NS = 10**9


class _Plugin:
    """What all plugins here share."""

    api: ClassVar[int] = 1
    arguments: ClassVar[type[Arguments]] = Arguments

    def __init__(self, options: PluginOptions) -> None:
        pass


def engine_with(plugin: type[Any], *objects: ClusterObject, actions: str = "allocate") -> Engine:
    registry = Registry([plugin])
    names = (plugin.name, "gang", "predicates", "nodeorder")
    tiers = (tuple(PluginOptions(name) for name in names),)
    return fill(Engine(Configuration((actions,), tiers), registry=registry), *objects)


def run(engine: Engine, second: int = 0) -> SessionResult:
    result = engine.schedule(NOW_NS + second * SECOND_NS)
    assert result.faults == ()
    return result


def binds(result: SessionResult) -> dict[str, str]:
    return {d.name: d.node for d in result.decisions if isinstance(d, Bind)}


# Views with a validity of their own, and data that the adapter brings.


class UsagePlugin(_Plugin):
    """Refuses nodes that are measured to be busy; asks again only when a measurement changed."""

    name: ClassVar[str] = "measured"
    asked: ClassVar[list[TaskClass]] = []

    def open(self, session: Session) -> None:
        self._session, self._data = session, session.data(self.name)
        session.hooks.class_predicate[self.name] = ClassRule(
            self._busy, version=lambda: self._data.version
        )

    def _busy(self, class_: TaskClass, _facet: Hashable) -> list[Refusal]:
        self.asked.append(class_)
        usage = [float(self._data.get(name).get("cpu", 0)) for name in self._session.table.names]
        return [Refusal("node(s) too busy", np.array(usage) > 0.8, unresolvable=True)]


def test_measurements_that_the_adapter_brings_decide_where_pods_go() -> None:
    UsagePlugin.asked.clear()
    engine = engine_with(UsagePlugin, queue(), node("n1", 4), node("n2", 4), *job("j", 1, 4))
    engine.apply([DataReported("measured", "n1", {"cpu": 0.9})])
    assert binds(run(engine)) == {"j-0": "n2"}


def test_an_answer_is_kept_while_its_version_holds() -> None:
    UsagePlugin.asked.clear()
    engine = engine_with(UsagePlugin, queue(), node("n1", 4), *job("j", 1, 5))
    run(engine)
    engine.apply([Upserted(node("n1", 4, annotations={"heartbeat": "1"}))])
    run(engine, 1)
    engine.apply([DataReported("measured", "n1", {"cpu": 0.5})])
    engine.apply([DataReported("measured", "n1", {"cpu": 0.5})])
    result = run(engine, 2)
    assert len(UsagePlugin.asked) == 2
    # The answer is the same for every row, so none is computed again.
    assert "rows_computed" not in result.work


def test_data_without_values_is_forgotten() -> None:
    engine = engine_with(UsagePlugin, queue(), node("n1", 4), *job("j", 1, 4))
    engine.apply([DataReported("measured", "n1", {"cpu": 0.9})])
    assert binds(run(engine)) == {}
    engine.apply([DataReported("measured", "n1", {})])
    assert not engine.can_skip(NOW_NS + SECOND_NS)
    assert binds(run(engine, 1)) == {"j-0": "n1"}


class NodeGroupPlugin(_Plugin):
    """Jobs of a queue go to the nodes of its group only: an answer that depends on the queue."""

    name: ClassVar[str] = "groups"

    def open(self, session: Session) -> None:
        self._session = session
        session.hooks.class_predicate[self.name] = ClassRule(
            self._of_others,
            version=lambda: session.table.labels_version,
            facet=lambda task: session.jobs[task.job_id].queue,
        )
        session.hooks.class_score[self.name] = ClassRule(
            lambda _class, _facet: np.arange(len(session.table), dtype=float) * 1000,
            version=lambda: 0,
        )

    def _of_others(self, _class: TaskClass, queue_name: Hashable) -> list[Refusal]:
        groups = [e.node.labels.get("group") if e.node else "" for e in self._session.table.rows]
        others = np.array([group != queue_name for group in groups], dtype=np.bool_)
        return [Refusal("node(s) of other groups", others, unresolvable=True)]


def test_tasks_of_a_class_may_have_views_by_another_facet() -> None:
    nodes = [node(f"n{i}", 4, labels={"group": "ab"[i % 2]}) for i in range(4)]
    engine = engine_with(NodeGroupPlugin, queue("a"), queue("b"), *nodes)
    fill(engine, *job("x", 2, 3, queue_name="a"), *job("y", 2, 3, queue_name="b"))
    assert binds(run(engine)) == {"x-0": "n2", "x-1": "n0", "y-0": "n3", "y-1": "n1"}
    # Both wait for the same class, and each for its own nodes.
    fill(engine, *job("v", 1, 3, queue_name="a"), *job("w", 1, 3, queue_name="b"))
    run(engine, 1)
    run(engine, 2)
    engine.apply([Upserted(node("n5", 4, labels={"group": "b"}))])
    assert binds(run(engine, 3)) == {"w-0": "n5"}


def test_a_heartbeat_of_one_node_computes_no_row() -> None:
    nodes = [node(f"n{i}", 4) for i in range(50)]
    waiting = [*job("a", 1, 5), *job("b", 1, 6), *job("c", 1, 7)]
    engine = engine_with(UsagePlugin, queue(), *nodes, *waiting)
    run(engine)
    run(engine, 1)
    engine.apply([Upserted(node("n7", 4, annotations={"heartbeat": "1"}))])
    assert run(engine, 2).work.get("rows_computed", 0) == 0
    # A taint concerns the row of its node alone, too.
    engine.apply([Upserted(node("n7", 4, unschedulable=True))])
    assert run(engine, 3).work["rows_computed"] <= 6


# Annotations in a bind, and state of nodes that a plugin owns.


class CardsPlugin(_Plugin):
    """Gives each pod a card of its node, and says which in an annotation."""

    name: ClassVar[str] = "cards"
    made: ClassVar[list[str]] = []
    CARD: ClassVar[str] = "example.com/card"

    def open(self, session: Session) -> None:
        self._session = session
        self._free = session.node_states(self.name, self._free_cards)
        session.hooks.task_predicate[self.name] = self._why_not
        session.hooks.handlers.append(EventHandler(self._allocated))

    def _free_cards(self, entry: NodeEntry) -> tuple[str, ...]:
        self.made.append(entry.name)
        taken = {task.annotations.get(self.CARD) for task in entry.tasks.values()}
        assert entry.node is not None
        cards = range(int(entry.node.labels.get("cards", "0")))
        return tuple(str(card) for card in cards if str(card) not in taken)

    def _why_not(self, _task: Task) -> list[Refusal]:
        full = [not self._free.of(row) for row in range(len(self._session.table))]
        return [Refusal("node(s) without a free card", np.array(full), unresolvable=False)]

    def _allocated(self, task: Task) -> str | None:
        row = self._session.table.row_of(task.node_name)
        assert row is not None
        free = self._free.of(row)
        if not free:
            return "no card is left"
        self._session.annotate(task, {self.CARD: free[0]})
        return None


def with_cards(count: int, **fields: Any) -> Node:
    return node("n1", 16, labels={"cards": str(count)}, **fields)


def cards(result: SessionResult) -> dict[str, str]:
    found = [d for d in result.decisions if isinstance(d, Bind)]
    return {bind.name: dict(bind.annotations)[CardsPlugin.CARD] for bind in found}


def test_a_plugin_puts_annotations_into_a_bind() -> None:
    engine = engine_with(CardsPlugin, queue(), with_cards(3), *job("j", 2))
    assert cards(run(engine)) == {"j-0": "0", "j-1": "1"}


def test_what_was_chosen_holds_before_the_cluster_confirms_it() -> None:
    engine = engine_with(CardsPlugin, queue(), with_cards(3), *job("j", 2))
    run(engine)
    fill(engine, *job("k", 2, minimum=1))
    assert cards(run(engine, 1)) == {"k-0": "2"}
    # The pod's own annotation counts when it comes, and the card is free when the pod is gone.
    bound = engine.cache.tasks["uid-j-0"].pod
    annotations = {CardsPlugin.CARD: "0"}
    running = replace(bound, node_name="n1", phase=PodPhase.RUNNING, annotations=annotations)
    engine.apply([Upserted(running)])
    assert cards(run(engine, 2)) == {}
    engine.apply([Deleted(type(running), running.uid)])
    assert cards(run(engine, 3)) == {"k-1": "0"}


def test_state_of_a_node_follows_what_is_undone() -> None:
    engine = engine_with(CardsPlugin, queue(), with_cards(2), *job("big", 3), *job("small", 2))
    # The gang of three takes both cards, does not fit, and gives them back.
    assert cards(run(engine)) == {"small-0": "0", "small-1": "1"}
    assert engine.cache.tasks["uid-big-0"].bind_annotations == ()


def test_state_of_a_node_is_computed_again_only_when_the_node_changes() -> None:
    engine = engine_with(CardsPlugin, queue(), with_cards(0), *job("j", 1))
    run(engine)
    CardsPlugin.made.clear()
    run(engine, 1)
    assert CardsPlugin.made == []
    engine.apply([Upserted(with_cards(1))])
    assert cards(run(engine, 2)) == {"j-0": "0"}
    assert CardsPlugin.made


def test_node_states_keep_no_session_alive() -> None:
    engine = engine_with(CardsPlugin, queue(), with_cards(1), *job("j", 1))
    run(engine)
    states = engine.cache.node_states._by_plugin["cards"]
    with pytest.raises(InvariantError):
        states.make(engine.cache.table.rows[0])


# HyperNodes.


def racks(*names: str) -> list[ClusterObject]:
    """Racks whose nodes have their name as a label, all below one spine."""
    leaves = [
        HyperNode(
            f"uid-{name}",
            name,
            1,
            members=(HyperNodeMember(label_selector=_labelled(name)),),
        )
        for name in names
    ]
    spine = tuple(HyperNodeMember(is_hyper_node=True, exact_name=name) for name in names)
    return [*leaves, HyperNode("uid-spine", "spine", 2, members=spine)]


def _labelled(rack: str) -> LabelSelector:
    return LabelSelector((Requirement("rack", Operator.IN, (rack,)),))


class RacksPlugin(_Plugin):
    """Tries racks before the whole spine, and prefers the rack with the most nodes."""

    name: ClassVar[str] = "racks"

    def open(self, session: Session) -> None:
        self._session = session
        session.hooks.job_gradient[self.name] = self._gradient
        session.hooks.hyper_node_order[self.name] = self._by_size

    def _gradient(self, _job: Job, _start: str, _for_evicting: bool) -> list[list[str]]:
        return self._session.cache.hyper_node_tree.tiers()

    def _by_size(self, _sub_job: SubJob, rows: dict[str, Rows]) -> dict[str, float]:
        return {name: float(len(found)) for name, found in rows.items()}


def on_racks(size: int, cpu: float = 4) -> list[ClusterObject]:
    topology = NetworkTopology(highest_tier=2)
    return job("j", size, cpu, network_topology=topology)


NODES = [
    node("n1", 4, labels={"rack": "r1"}),
    node("n2", 4, labels={"rack": "r2"}),
    node("n3", 4, labels={"rack": "r2"}),
    node("n4", 4),
]


@pytest.mark.parametrize(("size", "nodes"), [(2, ["n2", "n3"]), (3, ["n1", "n2", "n3"]), (4, [])])
def test_a_gang_stays_within_the_smallest_domain_that_takes_it(size: int, nodes: list[str]) -> None:
    engine = engine_with(RacksPlugin, queue(), *NODES, *racks("r1", "r2"), *on_racks(size))
    assert sorted(binds(run(engine)).values()) == nodes


def test_hyper_nodes_that_form_no_tree_hold_their_jobs_back() -> None:
    twice = HyperNode(
        "uid-other", "other", 2, members=(HyperNodeMember(is_hyper_node=True, exact_name="r1"),)
    )
    engine = engine_with(RacksPlugin, queue(), *NODES, *racks("r1", "r2"), twice, *on_racks(2))
    assert binds(run(engine)) == {}
    assert engine.cache.hyper_node_tree.problem == "HyperNode r1 has two parents"
    engine.apply([Deleted(HyperNode, "uid-other")])
    assert sorted(binds(run(engine, 1)).values()) == ["n2", "n3"]


def test_the_tree_of_hyper_nodes_follows_nodes_and_patterns() -> None:
    pattern = HyperNode("uid-p", "p", 1, members=(HyperNodeMember(name_pattern="^n[12]$"),))
    broken = HyperNode("uid-b", "b", 1, members=(HyperNodeMember(name_pattern="n["),))
    engine = engine_with(RacksPlugin, queue(), *NODES, *racks("r1", "r2"), pattern, broken)
    run(engine)
    tree = engine.cache.hyper_node_tree
    assert tree.rows_of("p").tolist() == [True, True, False, False]
    assert not tree.rows_of("b").any()
    assert not tree.rows_of("unknown").any()
    assert (tree.children_of("spine"), tree.ancestors_of("r1")[1]) == (["r1", "r2"], "spine")
    engine.apply([Upserted(node("n4", 4, labels={"rack": "r1"}))])
    assert engine.cache.hyper_node_tree.rows_of("r1").tolist() == [True, False, False, True]


# Victims in a whole domain.


def evicting(size: int) -> SessionResult:
    registry = Registry([RacksPlugin])
    tiers = (tuple(PluginOptions(n) for n in ("racks", "priority", "gang", "predicates")),)
    engine = Engine(Configuration(("gangpreempt",), tiers), registry=registry)
    low = pod_group("low", 0)
    running = [
        pod(f"low-{i}", "low", 2, on=n) for i, n in enumerate(("n1", "n1", "n2", "n2", "n3"))
    ]
    fill(engine, queue(), *NODES, *racks("r1", "r2"), low, *running)
    fill(engine, *job("high", size, 3))
    engine.cache.jobs["ns/high"].priority = 9
    return run(engine)


def test_evictions_make_room_for_a_gang_in_one_domain() -> None:
    evicted = [d for d in evicting(2).decisions if isinstance(d, Evict)]
    assert {(d.node, d.for_job) for d in evicted} == {("n2", "ns/high"), ("n3", "ns/high")}


def test_without_enough_victims_in_the_domain_nobody_is_evicted() -> None:
    assert evicting(4).decisions == ()
