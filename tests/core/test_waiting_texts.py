"""Whoever looks at a PodGroup is told why nothing starts."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.core.decisions import Evict
from pumice.core.deltas import ClusterObject
from pumice.core.engine import Engine
from pumice.core.model.group import PodGroupPhase, QueueState
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, priority_class, queue
from tests.core.evicting import PLAIN, engine
from tests.world import make_engine

SECOND_NS = 10**9
TREE: list[list[Any]] = [
    ["gang", {"name": "capacity", "enableHierarchy": True}],
    ["predicates"],
]


def message_of(made: Engine, name: str = "g") -> str:
    conditions = made.cache.jobs[f"ns/{name}"].status.conditions
    return conditions[-1].message if conditions else ""


def twice(made: Engine) -> list[tuple[str, str]]:
    """The events of a session about PodGroups; the next one has none."""
    events = made.schedule(NOW_NS).events
    assert made.schedule(NOW_NS + SECOND_NS).events == ()
    assert made.schedule(NOW_NS + SECOND_NS).statuses == ()
    return [(e.reason, e.message) for e in events if e.kind == "PodGroup"]


def with_group(*pods: ClusterObject, **fields: Any) -> list[ClusterObject]:
    return [pod_group("g", 1, phase=PodGroupPhase.PENDING, **fields), *pods]


WANTS = (("cpu", 1000),)


@pytest.mark.parametrize("tiers", [[["gang"], ["proportion"]], [["gang"], ["capacity"]]])
def test_a_closed_queue_is_named_with_and_without_pods(tiers: list[list[str]]) -> None:
    closed = queue("q", state=QueueState.CLOSED)
    text = "queue q is not open, so nothing in it starts"
    made = make_engine("enqueue, allocate, backfill", tiers)
    fill(made, node("n1"), closed, with_group(queue_name="q", min_resources=WANTS))
    assert twice(made) == [("Unschedulable", text)]
    assert message_of(made) == text
    made = make_engine("enqueue, allocate, backfill", tiers)
    fill(made, node("n1"), closed, with_group(pod("a", "g"), queue_name="q"))
    ((_, told),) = twice(made)
    assert told.endswith(f"; {text}")
    assert message_of(made).endswith(f"; {text}")


def test_a_queue_that_does_not_exist_is_named() -> None:
    made = fill(Engine(), node("n1"), queue(), with_group(pod("a", "g"), queue_name="gone"))
    assert twice(made) == [("Unschedulable", "queue gone does not exist")]
    assert message_of(made) == "queue gone does not exist"
    fill(made, queue("gone"))
    assert len(made.schedule(NOW_NS + 2 * SECOND_NS).decisions) == 1


def test_queues_that_form_no_tree_are_named() -> None:
    queues = (queue("root"), queue("q", parent="root"), queue("kid", parent="nobody"))
    text = (
        "the queues do not form a tree: queue kid: its parent nobody does not exist,"
        " so nothing is scheduled"
    )
    made = make_engine("enqueue, allocate, backfill", TREE)
    fill(made, node("n1"), queues, with_group(pod("a", "g"), queue_name="q"))
    ((_, told),) = twice(made)
    assert told.endswith(f"; {text}")
    fill(made, queue("kid", parent="root"))
    assert len(made.schedule(NOW_NS + 2 * SECOND_NS).decisions) == 1


def test_a_job_that_is_let_in_and_has_no_pods_yet_gets_no_event() -> None:
    made = fill(Engine(), node("n1"), queue(), with_group())
    assert twice(made) == []
    assert made.cache.jobs["ns/g"].phase is PodGroupPhase.INQUEUE


def test_an_eviction_names_the_job_that_gets_the_room() -> None:
    classes = (priority_class("low", 1), priority_class("high", 9))
    running = pod_group("a", 0, phase=PodGroupPhase.RUNNING, priority_class_name="low")
    wanting = pod_group("b", 1, priority_class_name="high")
    objects = (node("n1", 1), queue(), *classes, running, pod("a-0", "a", on="n1"))
    made = engine("allocate, preempt", PLAIN, *objects, wanting, pod("b-0", "b"))
    result = made.schedule(NOW_NS)
    assert [d.name for d in result.decisions if isinstance(d, Evict)] == ["a-0"]
    told = {(e.kind, e.name): e.message for e in result.events if e.reason == "Evict"}
    assert set(told) == {("Pod", "a-0"), ("PodGroup", "a")}
    assert all(message.endswith(": makes room for ns/b") for message in told.values())
