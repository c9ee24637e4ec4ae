"""Victims: how plugins agree on them, who goes first, and what undoing an eviction leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pumice.core.cache.tasks import Task
from pumice.core.deltas import Upserted
from pumice.core.model.pod import PodPhase
from pumice.core.model.status import TaskStatus
from pumice.core.session.hooks import ABSTAIN, PERMIT, REJECT, EventHandler, victims
from pumice.core.session.policies import VictimRule
from pumice.core.session.session import Session
from tests.core.builders import node, pod, pod_group, priority_class, queue
from tests.core.evicting import PLAIN, engine, opened

Offer = Callable[[Any], tuple[list[Task], int]]


def cluster(*tiers: Any) -> Session:
    return opened(
        engine(
            "preempt",
            tiers or PLAIN,
            node("n1", 10),
            queue("q1", weight=1),
            queue("q2", weight=1, creation_time_ns=5),
            queue("q3", creation_time_ns=9),
            priority_class("low", 1),
            pod_group("a", 0, queue_name="q1", priority_class_name="low"),
            pod_group("b", 0, queue_name="q1", creation_time_ns=7),
            pod_group("c", 0, queue_name="q2"),
            pod_group("d", 0, queue_name="q1", creation_time_ns=3),
            pod_group("p", 1, queue_name="q3"),
            pod("a-t-0", "a", on="n1"),
            pod("a-t-1", "a", on="n1"),
            pod("b-t-0", "b", on="n1", creation_time_ns=1),
            pod("c-t-0", "c", on="n1"),
            pod("d-t-0", "d", on="n1", creation_time_ns=2),
            pod("lost-t-0", "lost", on="n1"),
            pod("p-t-0", "p", 1),
        )
    )


def tasks(session: Session, *names: str) -> list[Task]:
    return [session.cache.tasks[f"uid-{name}"] for name in names]


def status(task: Task) -> TaskStatus:
    return task.status


# Agreement. a, b and c are candidates; each plugin names some of them.


@pytest.mark.parametrize(
    ("tiers", "agreed"),
    [
        # An intersection that comes out empty is forgotten: the next plugin starts it anew.
        ([["ab", "c", "bc"]], "bc"),
        # An empty answer ends its tier; the next one decides alone.
        ([["ab", "", "bc"], ["a"]], "a"),
        ([["ab", "bc"]], "b"),
        ([["ab", "bc"], ["c"]], "b"),
        ([["ab", "c"], ["a"]], "a"),
        ([[""], [""]], ""),
        ([[], ["c"]], "c"),
        # Who abstains is not asked, a rejection counts as an answer.
        ([["ab", "-c"]], "ab"),
        ([["-ab"], ["b"]], "b"),
        ([["!"], ["b"]], "b"),
        ([["ab", "!b"]], "b"),
    ],
)
def test_a_tier_agrees_on_victims(tiers: list[list[str]], agreed: str) -> None:
    session = cluster()
    known = dict(zip("abc", tasks(session, "a-t-0", "b-t-0", "c-t-0"), strict=True))

    def offering(names: str) -> Offer:
        vote = {"-": ABSTAIN, "!": REJECT}.get(names[:1], PERMIT)
        return lambda _: ([known[name] for name in names.lstrip("-!")], vote)

    functions = [[offering(names) for names in tier] for tier in tiers]
    assert victims(functions, None) == [known[name] for name in agreed]


# Order.


def order(session: Session, preemptor: str, *names: str) -> list[str]:
    heap = session.orders.victims(tasks(session, *names), tasks(session, preemptor)[0])
    return [heap.pop().name for _ in range(len(heap))]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(("a-t-0", "a-t-1"), ["a-t-1", "a-t-0"], id="of one job the last task first"),
        pytest.param(("a-t-0", "lost-t-0"), ["lost-t-0", "a-t-0"], id="then who lost his job"),
        pytest.param(("d-t-0", "a-t-0"), ["d-t-0", "a-t-0"], id="the later job by plugins"),
        pytest.param(
            ("b-t-0", "d-t-0"),
            ["d-t-0", "b-t-0"],
            id="equal jobs by task order, whatever the jobs' age",
        ),
        pytest.param(
            ("a-t-0", "c-t-0"), ["c-t-0", "a-t-0"], id="the queue that comes last gives first"
        ),
    ],
)
def test_who_is_evicted_first(names: tuple[str, ...], expected: list[str]) -> None:
    tiers = (
        ({"name": "priority", "enableJobOrder": True}, "gang"),
        ("predicates",),
    )
    session = cluster(*tiers)
    # Lower priority comes later, so a would be evicted before b and d: turn that around.
    session.hooks.job_order["priority"] = lambda left, right: (
        (right.name == "a") - (left.name == "a")
    )
    assert order(session, "p-t-0", *names) == expected
    assert order(session, "p-t-0", *reversed(names)) == expected


def test_plugins_order_the_queues_of_victims() -> None:
    session = cluster()
    seen = []

    def first(left: Any, right: Any, preemptor: Any) -> int:
        seen.append(preemptor.name)
        return -1 if left.name == "q1" else 1

    session.hooks.victim_queue_order["predicates"] = first
    assert order(session, "p-t-0", "c-t-0", "a-t-0") == ["a-t-0", "c-t-0"]
    assert set(seen) == {"q3"}


# Undoing.


def test_an_undone_eviction_is_missing_in_kubernetes_view_only() -> None:
    session = cluster()
    table = session.table
    amounts = {
        part: getattr(table, part).copy() for part in ("idle", "used", "releasing", "future")
    }
    pods, requested = table.kube_pods.copy(), table.kube_requested.copy()
    whole = table.amounts.copy()
    victim = tasks(session, "a-t-0")[0]

    statement = session.statement()
    statement.evict(victim, "preempt")
    assert status(victim) is TaskStatus.RELEASING
    assert table.future[0, 0] == amounts["future"][0, 0] + 1000
    statement.discard()

    assert status(victim) is TaskStatus.RUNNING
    for part, before in amounts.items():
        assert np.array_equal(getattr(table, part), before), part
    assert table.kube_pods[0] == pods[0] - 1
    assert table.kube_requested[0, 0] == requested[0, 0] - 1000
    assert not session.moves.is_in_kube_view(victim)

    # A second time changes nothing more, and the end of the session puts it back.
    statement.evict(victim, "preempt")
    statement.discard()
    assert table.kube_pods[0] == pods[0] - 1
    session.moves.finish()
    assert np.array_equal(table.amounts, whole)


def test_an_undone_eviction_leaves_a_bound_task_running_until_the_session_ends() -> None:
    made = engine("preempt", PLAIN, node("n1"), queue(), pod_group("a"))
    made.apply([Upserted(replace(pod("a-t-0", "a", on="n1"), phase=PodPhase.PENDING))])
    session = opened(made)
    task = tasks(session, "a-t-0")[0]
    assert status(task) is TaskStatus.BOUND
    statement = session.statement()
    statement.evict(task, "preempt")
    statement.discard()
    assert status(task) is TaskStatus.RUNNING
    session.moves.finish()
    assert status(task) is TaskStatus.BOUND


def rule_of(session: Session, point: str, plugin: str) -> VictimRule:
    rule = getattr(session.hooks, point)[plugin]
    assert isinstance(rule, VictimRule)
    return rule


def test_shares_are_restored_when_evictions_are_undone() -> None:
    session = cluster(("priority", "gang"), ("drf", "predicates", "proportion"))
    job = session.jobs["ns/a"]
    held, ready = job.index.allocated.clone(), job.index.ready_count
    drf = rule_of(session, "preemptable", "drf").mark
    overused = rule_of(session, "reclaimable", "proportion").mark
    before = (drf(job), overused(job))
    statement = session.statement()
    for task in tasks(session, "a-t-0", "a-t-1"):
        statement.evict(task, "preempt")
    assert drf(job) < before[0]
    statement.discard()
    assert (drf(job), overused(job)) == before
    assert (job.index.allocated, job.index.ready_count) == (held, ready)


def test_a_plugin_that_objects_undoes_a_pipelining_alone() -> None:
    session = cluster()
    session.hooks.handlers.append(EventHandler(lambda _: "no"))
    before = session.table.amounts.copy()
    task = tasks(session, "p-t-0")[0]
    statement = session.statement()
    assert not statement.pipeline(task, "n1", eviction_occurred=True)
    assert len(statement) == 0
    assert (task.status, task.node_name) == (TaskStatus.PENDING, "")
    assert np.array_equal(session.table.amounts, before)


def test_discard_remembers_where_a_task_could_have_been_and_commit_forgets_it() -> None:
    session = cluster()
    task = tasks(session, "p-t-0")[0]
    statement = session.statement()
    statement.pipeline(task, "n1", eviction_occurred=True)
    statement.discard()
    last = task.last_transaction
    assert last is not None
    assert (last.status, last.node_name, last.eviction_occurred) == (
        TaskStatus.PIPELINED,
        "n1",
        True,
    )
    statement.pipeline(task, "n1", eviction_occurred=False)
    statement.commit("ns/p")
    assert task.last_transaction is None
    assert status(task) is TaskStatus.PIPELINED
