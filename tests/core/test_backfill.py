"""backfill: tasks that ask for nothing go wherever predicates let them, without asking for a share."""

from __future__ import annotations

from typing import Any

from pumice.core.cache.tasks import Task
from pumice.core.decisions import Bind, SessionResult
from pumice.core.model.group import PodGroupPhase, QueueState
from pumice.core.model.pod import Pod
from pumice.core.session.hooks import EventHandler
from tests.core.builders import node, pod, pod_group, priority_class, queue
from tests.core.evicting import engine, reasons, run
from tests.core.strangers import stranger

TIERS = (("priority", "gang", "conformance"), ("predicates", "proportion", "nodeorder"))


def nothing(name: str, group: str, **fields: Any) -> Pod:
    """A pod that asks for nothing but a place among the pods."""
    return pod(name, group, 0, 0, **fields)


def backfilled(*objects: Any) -> SessionResult:
    return run(engine("backfill", TIERS, *objects))


def bound(result: SessionResult) -> dict[str, str]:
    return {d.name: d.node for d in result.decisions if isinstance(d, Bind)}


def test_only_tasks_that_ask_for_nothing_are_placed() -> None:
    result = backfilled(
        node("n1"), queue(), pod_group("g"), nothing("g-0", "g"), pod("g-1", "g", 1, 0)
    )
    assert bound(result) == {"g-0": "n1"}


def test_no_resource_and_no_share_is_asked_for() -> None:
    full = [node("n1", 1, 1), pod("foreign", "", 1, 1, on="n1")]
    closed = queue("default", state=QueueState.CLOSED)
    result = backfilled(*full, closed, pod_group("g"), nothing("g-0", "g"))
    assert bound(result) == {"g-0": "n1"}


def test_predicates_are_asked() -> None:
    result = backfilled(
        node("n1", unschedulable=True), queue(), pod_group("g"), nothing("g-0", "g")
    )
    assert bound(result) == {}
    assert reasons(result, "g", "backfill") == [("no-node-fits", "g-0")]


def test_the_best_node_takes_the_task() -> None:
    used = pod("foreign", "", 2, 2, on="n1")
    result = backfilled(node("n1"), node("n2"), used, queue(), pod_group("g"), nothing("g-0", "g"))
    assert bound(result) == {"g-0": "n2"}


def test_jobs_that_take_no_part() -> None:
    result = backfilled(
        node("n1"),
        queue(),
        pod_group("waits", phase=PodGroupPhase.PENDING),
        nothing("waits-0", "waits"),
        pod_group("invalid", 2),
        nothing("invalid-0", "invalid"),
        pod_group("lost", queue_name="missing"),
        nothing("lost-0", "lost"),
        pod_group("gated"),
        nothing("gated-0", "gated", spec={"scheduling_gates": ("somebody.example/gate",)}),
    )
    assert bound(result) == {}


def test_a_queue_is_drained_before_the_next_and_jobs_and_tasks_go_in_order() -> None:
    result = backfilled(
        node("n1"),
        queue("late", creation_time_ns=2),
        queue("early", creation_time_ns=1),
        priority_class("high", 9),
        pod_group("a", queue_name="late", priority_class_name="high"),
        nothing("a-t-0", "a"),
        pod_group("b", queue_name="early"),
        nothing("b-t-10", "b"),
        nothing("b-t-9", "b"),
        pod_group("c", queue_name="early", priority_class_name="high"),
        nothing("c-t-0", "c"),
    )
    assert list(bound(result)) == ["c-t-0", "b-t-9", "b-t-10", "a-t-0"]


def test_a_task_of_a_job_that_is_not_ready_is_not_bound() -> None:
    objects = [node("n1", 1), queue(), pod_group("g", 3), nothing("g-0", "g")]
    result = backfilled(*objects, pod("g-1", "g", 2), pod("g-2", "g", 2))
    assert bound(result) == {}


def test_what_is_allocated_of_a_job_goes_along_once_it_is_ready() -> None:
    # Both best-effort tasks count while they are pending, so the first makes the job ready.
    objects = [node("n1"), queue(), pod_group("g", 2), nothing("g-0", "g"), nothing("g-1", "g")]
    assert bound(backfilled(*objects)) == {"g-0": "n1", "g-1": "n1"}


def test_a_node_below_zero_is_chosen_and_never_bound_to() -> None:
    used = pod("foreign", "", 2, 1, on="n1")
    objects = [node("n1", 1), used, queue(), pod_group("g"), nothing("g-0", "g")]
    made = engine("backfill", TIERS, *objects)
    for _ in range(2):
        assert bound(run(made)) == {}


def test_a_node_without_a_place_among_the_pods_refuses() -> None:
    used = pod("foreign", "", 1, 1, on="n1")
    result = backfilled(node("n1", pods=1), used, queue(), pod_group("g"), nothing("g-0", "g"))
    assert bound(result) == {}
    assert reasons(result, "g", "backfill") == [("no-node-fits", "g-0")]


def objecting(task: Task) -> str | None:
    return "no room for that name" if task.name == "g-0" else None


def test_a_placement_that_a_plugin_objects_to_is_undone_with_a_reason() -> None:
    plugin = stranger(
        open=lambda _, session: session.hooks.handlers.append(EventHandler(objecting))
    )
    made = engine(
        "backfill",
        (*TIERS, ("stranger",)),
        *[node("n1"), queue(), pod_group("g", 1), nothing("g-0", "g"), nothing("g-1", "g")],
        plugins=[plugin],
    )
    result = run(made)
    assert bound(result) == {"g-1": "n1"}
    assert reasons(result, "g", "backfill") == [("no-node-fits", "g-0")]
    (wait,) = result.waits
    assert [(c.reason, c.nodes) for c in wait.reasons[0].nodes] == [("no room for that name", 1)]
    task = made.cache.tasks["uid-g-0"]
    assert (task.node_name, int(made.cache.table.kube_pods[0])) == ("", 1)
