"""allocate: gangs first and whole, then one task a visit; idle room before room to come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pumice.core.cache.tasks import Task
from pumice.core.decisions import Bind, SessionResult
from pumice.core.engine import Engine
from pumice.core.model.group import NetworkTopology, PodGroupPhase, Queue, SubGroupPolicy
from pumice.core.model.node import Node
from pumice.core.model.pod import Pod
from pumice.core.model.status import TaskStatus
from pumice.core.session.hooks import Hooks
from pumice.core.session.session import Session
from tests.core.builders import NOW_NS, job, node, pod, pod_group, priority_class, queue
from tests.core.evicting import STOCK, engine, reasons
from tests.core.strangers import StrangerPlugin, stranger

# Neither shares nor scores: the order of creation and of names decides.
BARE = (("priority", "gang"), ("predicates",))


def made(*objects: Any, tiers: Any = BARE, actions: str = "allocate") -> Engine:
    return engine(actions, tiers, *objects)


def run(*objects: Any, tiers: Any = BARE, actions: str = "allocate") -> SessionResult:
    return made(*objects, tiers=tiers, actions=actions).schedule(NOW_NS)


def bound(result: SessionResult) -> dict[str, str]:
    return {d.name: d.node for d in result.decisions if isinstance(d, Bind)}


def with_hooks(add: Callable[[Hooks], None], *objects: Any) -> SessionResult:
    def open_(_: StrangerPlugin, session: Session) -> None:
        add(session.hooks)

    plugin = stranger(open=open_)
    result = engine("allocate", (*BARE, ("stranger",)), *objects, plugins=[plugin]).schedule(NOW_NS)
    assert not result.faults
    return result


# Who takes part.


def test_a_pending_job_waits_for_enqueue_and_without_it_is_tried_at_once() -> None:
    objects = [node("n1"), queue(), *job("a", 1, phase=PodGroupPhase.PENDING)]
    after = "allocate, enqueue"
    assert bound(run(*objects, actions=after)) == {}
    without = made(*objects)
    assert bound(without.schedule(NOW_NS)) == {"a-0": "n1"}
    assert without.cache.jobs["ns/a"].phase is PodGroupPhase.INQUEUE


def test_invalid_jobs_missing_queues_gated_and_best_effort_tasks_take_no_part() -> None:
    result = run(
        node("n1"),
        queue(),
        *job("short", 1, minimum=2),
        *job("lost", 1, queue_name="missing"),
        pod_group("gated"),
        pod("gated-0", "gated", spec={"scheduling_gates": ("x.example/y",)}),
        pod_group("empty"),
        pod("empty-0", "empty", 0, 0),
    )
    assert bound(result) == {}


# Gangs.


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    assert bound(run(node("n1", 2), queue(), *job("a", 3))) == {}
    assert len(bound(run(node("n1", 3), queue(), *job("a", 3)))) == 3


def test_a_gang_that_does_not_fit_leaves_its_room_to_the_next() -> None:
    found = bound(run(node("n1", 2), queue(), *job("a", 3), *job("b", 2)))
    assert found == {"b-0": "n1", "b-1": "n1"}


def test_a_gang_that_is_promised_room_keeps_it_from_later_jobs_and_actions() -> None:
    leaving = replace(pod("old", "", 1, on="n1"), terminating=True)
    objects = [node("n1", 2), queue(), leaving, *job("a", 2), *job("b", 1)]
    result = run(*objects)
    assert bound(result) == {}
    assert ("pipelined", "") in reasons(result, "a", "allocate")


def test_once_ready_one_task_a_visit_and_jobs_are_compared_in_between() -> None:
    # By share the jobs take turns after their minimum.
    tiers = (("gang",), ("drf", "predicates"))
    objects = [node("n1", 8), queue(), *job("a", 3, minimum=1), *job("b", 3, minimum=1)]
    found = list(bound(run(*objects, tiers=tiers)))
    assert found == ["a-0", "b-0", "a-1", "b-1", "a-2", "b-2"]


def test_gang_puts_unready_jobs_before_surplus_tasks() -> None:
    objects = [
        node("n1", 3),
        queue(),
        *job("a", 3, minimum=1, creation_time_ns=1),
        *job("b", 1, creation_time_ns=2),
    ]
    assert list(bound(run(*objects, tiers=(("gang", "predicates"),)))) == ["a-0", "b-0", "a-1"]


# Queues.


def test_an_overused_queue_is_left_out_for_the_rest_of_the_action() -> None:
    asked: list[str] = []

    def overused(queue: Queue) -> bool:
        asked.append(queue.name)
        return queue.name == "b"

    def add(hooks: Hooks) -> None:
        hooks.overused["stranger"] = overused

    result = with_hooks(
        add,
        node("n1", 8),
        queue("a"),
        queue("b"),
        *job("x", 2, minimum=1, queue_name="a"),
        *job("y", 2, minimum=1, queue_name="b"),
        *job("z", 2, minimum=1, queue_name="b"),
    )
    assert set(bound(result)) == {"x-0", "x-1"}
    assert asked.count("b") == 1
    assert reasons(result, "z", "allocate") == [("queue-overused", "")]


def test_a_task_that_the_queue_may_not_take_is_skipped_without_a_fit_error() -> None:
    def add(hooks: Hooks) -> None:
        hooks.allocatable["stranger"] = lambda _, task: task.name != "a-0"

    result = with_hooks(add, node("n1"), queue(), *job("a", 2, minimum=1))
    assert bound(result) == {"a-1": "n1"}
    assert reasons(result, "a", "allocate") == [("queue-quota", "a-0")]


# Tasks.


def tried(minimum: int, *members: Pod, hopeless: str = "") -> list[str]:
    """Who was looked at, when tasks of one role, or all, are refused everywhere."""
    seen: dict[str, None] = {}

    def refuse(task: Task) -> str | None:
        seen[task.name] = None
        return "never" if task.role == hopeless else None

    def add(hooks: Hooks) -> None:
        hooks.pre_predicate["stranger"] = refuse

    with_hooks(add, node("n1"), queue(), pod_group("a", minimum), *members)
    return list(seen)


def test_a_role_that_failed_is_not_tried_again() -> None:
    roles = ("big", "big", "small", "big")
    members = [pod(f"a-t-{i}", "a", role=role) for i, role in enumerate(roles)]
    assert tried(1, *members, hopeless="big") == ["a-t-0", "a-t-2"]


def test_tasks_without_a_role_are_all_tried() -> None:
    assert tried(1, *(pod(f"a-t-{i}", "a") for i in range(3))) == ["a-t-0", "a-t-1", "a-t-2"]


def test_a_job_that_needs_every_task_stops_at_the_first_that_fits_nowhere() -> None:
    assert tried(3, *(pod(f"a-t-{i}", "a") for i in range(3))) == ["a-t-0"]


def test_tasks_go_by_priority_then_by_their_index() -> None:
    members = [pod(f"a-t-{i}", "a", task_priority=9 if i == 10 else 1) for i in (2, 10, 9)]
    found = bound(run(node("n1"), queue(), pod_group("a", 3), *members))
    assert list(found) == ["a-t-10", "a-t-2", "a-t-9"]


# Nodes.


def leaving_on(name: str) -> Pod:
    return replace(pod(f"old-{name}", "", 4, on=name), terminating=True)


def test_idle_room_is_taken_before_room_to_come_however_good_that_is() -> None:
    def add(hooks: Hooks) -> None:
        hooks.node_score["stranger"] = lambda _, name: 100.0 if name == "n1" else 0.0

    objects = [node("n1"), leaving_on("n1"), node("n2", 2), queue(), *job("a", 1)]
    assert bound(with_hooks(add, *objects)) == {"a-0": "n2"}


def test_room_to_come_is_promised_and_not_bound() -> None:
    session = made(node("n1"), leaving_on("n1"), queue(), *job("a", 1))
    assert bound(session.schedule(NOW_NS)) == {}
    task = session.cache.tasks["uid-a-0"]
    assert (task.status, task.node_name) == (TaskStatus.PENDING, "")


def nominated(name: str) -> Pod:
    return replace(pod("a-0", "a"), nominated_node_name=name)


@pytest.mark.parametrize(
    ("nominee", "nodes", "chosen"),
    [
        ("n2", [node("n1"), node("n2")], "n2"),
        ("n2", [node("n1"), node("n2", 0.5)], "n1"),  # no room there any more
        ("n2", [node("n1"), node("n2", unschedulable=True)], "n1"),  # predicates object
        ("n9", [node("n1"), node("n2")], "n1"),  # nobody knows it
    ],
)
def test_the_nominated_node_is_tried_first(nominee: str, nodes: list[Node], chosen: str) -> None:
    result = run(*nodes, queue(), pod_group("a"), nominated(nominee))
    assert bound(result) == {"a-0": chosen}


def test_the_highest_score_wins_and_among_equals_the_first_name() -> None:
    def add(hooks: Hooks) -> None:
        hooks.node_score["stranger"] = lambda _, name: {"n1": 1.0, "n2": 2.0, "n3": 2.0}[name]

    nodes = [node("n3"), node("n2"), node("n1")]
    assert bound(with_hooks(add, *nodes, queue(), *job("a", 1))) == {"a-0": "n2"}


def test_a_best_node_plugin_overrides_the_scores() -> None:
    def add(hooks: Hooks) -> None:
        hooks.best_node["stranger"] = lambda _, scores: max(scores)

    assert bound(with_hooks(add, node("n1"), node("n2"), queue(), *job("a", 1))) == {"a-0": "n2"}


# Sub-groups.


def parts(sizes: dict[str, int], minimum: int, **policy: Any) -> list[Any]:
    """A job with a sub-group for each rank."""
    policies = (SubGroupPolicy("p", match_label_keys=("rank",), **policy),)
    members = [
        replace(pod(f"a-{rank}-{i}", "a"), labels={"rank": rank})
        for rank, size in sizes.items()
        for i in range(size)
    ]
    return [pod_group("a", minimum, sub_group_policies=policies), *members]


def test_a_sub_group_that_does_not_fit_leaves_room_to_another() -> None:
    objects = parts({"0": 3, "1": 2}, 2, sub_group_size=2, min_sub_groups=1)
    big = [replace(p, spec=replace(p.spec, requests=(("cpu", 3000), ("pods", 1))))
           if isinstance(p, Pod) and p.labels["rank"] == "0" else p for p in objects]  # fmt: skip
    assert set(bound(run(node("n1", 4), queue(), *big))) == {"a-1-0", "a-1-1"}


def test_enough_sub_groups_must_be_ready_or_nothing_is_bound() -> None:
    objects = parts({"0": 2, "1": 2}, 4, sub_group_size=2, min_sub_groups=2)
    assert bound(run(node("n1", 3), queue(), *objects)) == {}
    assert len(bound(run(node("n1", 4), queue(), *objects))) == 4


def test_sub_groups_that_are_needed_come_before_the_others() -> None:
    """Rank 0 is ready already: the one that is missing comes first, though its number is higher."""
    objects = parts({"0": 3, "1": 2}, 2, sub_group_size=2, min_sub_groups=2)
    running = [
        replace(p, phase=pod("x", "x", on="n1").phase, node_name="n1")
        if isinstance(p, Pod) and p.name in ("a-0-0", "a-0-1")
        else p
        for p in objects
    ]
    assert set(bound(run(node("n1", 4), queue(), *running))) == {"a-1-0", "a-1-1"}


def test_without_a_plugin_for_it_a_hard_topology_keeps_nobody_together() -> None:
    topology = NetworkTopology(hard=True, highest_tier=1)
    objects = [node("n1", 1), node("n2", 1), queue(), *job("a", 2, network_topology=topology)]
    assert set(bound(run(*objects)).values()) == {"n1", "n2"}


# What the session sees while it places.


def test_shares_are_compared_again_after_every_task() -> None:
    queues = [queue("a", weight=1), queue("b", weight=3)]
    objects = [
        node("n1", 8),
        *queues,
        *job("x", 8, minimum=1, queue_name="a"),
        *job("y", 8, minimum=1, queue_name="b"),
    ]
    found = bound(run(*objects, tiers=STOCK))
    assert sum(name.startswith("y") for name in found) == 6
    assert len(found) == 8


def test_a_higher_job_takes_what_there_is() -> None:
    objects = [node("n1", 2), queue(), priority_class("high", 5), *job("a", 2)]
    found = bound(run(*objects, *job("b", 2, priority_class_name="high")))
    assert set(found) == {"b-0", "b-1"}
