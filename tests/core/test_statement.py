"""Statements: what each call does at once, and what commit and discard make of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pumice.core.decisions import Bind, Evict
from pumice.core.model.pod import PodPhase
from pumice.core.model.status import TaskStatus
from pumice.core.session.hooks import EventHandler
from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import Opened

S = TaskStatus


def opened() -> Opened:
    return Opened(
        node("n1"),
        node("n2"),
        queue(),
        pod_group("g", 1),
        pod("a", "g"),
        pod("b", "g"),
        pod("running", "g", on="n1"),
        replace(pod("bound", "g", on="n1"), phase=PodPhase.PENDING),
        plugins=["gang", "predicates"],
    )


def heard(session: Opened) -> list[str]:
    """Every call of the handlers from now on: + placed, - removed."""
    calls: list[str] = []

    def placed(task: object) -> None:
        calls.append(f"+{getattr(task, 'name', '')}")

    session.hooks.handlers.append(EventHandler(placed, lambda task: calls.append(f"-{task.name}")))
    return calls


def test_allocate_takes_room_and_discard_gives_it_back() -> None:
    session = opened()
    calls, task, table = heard(session), session.task("a"), session.session.table
    before = table.amounts.copy()
    statement = session.session.statement()
    assert statement.allocate(task, "n2")
    assert (task.status, task.node_name) == (S.ALLOCATED, "n2")
    assert table.idle[0].tolist() == [2000, 3000]
    statement.discard()
    assert (task.status, task.node_name) == (S.PENDING, "")
    assert np.array_equal(table.amounts, before)
    assert calls == ["+a", "-a"]


def test_pipeline_takes_room_to_come_and_discard_gives_it_back() -> None:
    session = opened()
    calls, task, table = heard(session), session.task("a"), session.session.table
    before = table.amounts.copy()
    statement = session.session.statement()
    assert statement.pipeline(task, "n2", eviction_occurred=True)
    assert (task.status, task.node_name, task.eviction_occurred) == (S.PIPELINED, "n2", True)
    assert (table.idle[0].tolist(), table.future[0].tolist()) == ([2000, 4000], [2000, 3000])
    statement.discard()
    assert (task.status, task.node_name) == (S.PENDING, "")
    assert np.array_equal(table.amounts, before)
    assert calls == ["+a", "-a"]


@pytest.mark.parametrize("name", ["running", "bound"])
def test_evict_releases_and_discard_leaves_a_running_task(name: str) -> None:
    session = opened()
    calls, task, table = heard(session), session.task(name), session.session.table
    statement = session.session.statement()
    statement.evict(task, "preempt")
    assert session.task(name).status is S.RELEASING
    assert (table.idle[0, 0], table.releasing[0, 0], table.future[0, 0]) == (2000, 1000, 3000)
    statement.discard()
    # Even if it was only bound.
    assert session.task(name).status is S.RUNNING
    assert (table.idle[0, 0], table.releasing[0, 0], table.future[0, 0]) == (2000, 0, 2000)
    assert calls == [f"-{name}", f"+{name}"]


def test_commit_makes_decisions_of_allocations_and_evictions_only() -> None:
    session = opened()
    statement = session.session.statement()
    statement.evict(session.task("running"), "preempt")
    statement.allocate(session.task("a"), "n2")
    statement.pipeline(session.task("b"), "n1", eviction_occurred=True)
    statement.commit("ns/g")
    assert len(statement) == 0
    found = session.session.outbox.decisions()
    assert [(type(d), d.name) for d in found] == [(Evict, "running"), (Bind, "a")]
    assert [session.task(n).status for n in ("a", "b", "running")] == [
        S.BINDING,
        S.PIPELINED,
        S.RELEASING,
    ]


def test_discard_goes_backwards() -> None:
    session = opened()
    calls = heard(session)
    statement = session.session.statement()
    statement.evict(session.task("running"), "preempt")
    statement.pipeline(session.task("a"), "n1", eviction_occurred=True)
    statement.discard()
    assert calls == ["-running", "+a", "-a", "+running"]


def test_a_statement_left_alone_keeps_its_effects_until_the_session_ends() -> None:
    session = opened()
    table = session.session.table
    before = table.amounts.copy()
    session.session.statement().allocate(session.task("a"), "n2")
    assert table.idle[0, 1] == 3000
    session.session.moves.finish()
    assert np.array_equal(table.amounts, before)
    assert session.task("a").status is S.PENDING


def test_an_objection_undoes_that_call_alone() -> None:
    session = opened()
    statement = session.session.statement()
    assert statement.allocate(session.task("a"), "n2")
    session.hooks.handlers.append(EventHandler(lambda _: "no"))
    assert not statement.allocate(session.task("b"), "n2")
    assert len(statement) == 1
    assert session.session.table.idle[0, 1] == 3000


def test_saved_operations_are_repeated_and_stop_at_the_first_that_fails() -> None:
    session = opened()
    statement = session.session.statement()
    statement.evict(session.task("running"), "preempt")
    statement.pipeline(session.task("a"), "n1", eviction_occurred=True)
    statement.allocate(session.task("b"), "n2")
    saved = statement.save()
    statement.discard()
    again = session.session.statement()
    assert again.replay(saved)
    assert [session.task(n).status for n in ("running", "a", "b")] == [
        S.RELEASING,
        S.PIPELINED,
        S.ALLOCATED,
    ]
    assert session.task("a").eviction_occurred
    again.discard()
    session.hooks.handlers.append(EventHandler(lambda task: "no" if task.name == "a" else None))
    third = session.session.statement()
    assert not third.replay(saved)
    assert len(third) == 1
    assert session.task("b").status is S.PENDING


def test_merging_moves_the_operations() -> None:
    session = opened()
    one, other = session.session.statement(), session.session.statement()
    one.allocate(session.task("a"), "n1")
    other.allocate(session.task("b"), "n2")
    one.merge(other)
    assert (len(one), len(other)) == (2, 0)
    other.discard()
    assert session.task("b").status is S.ALLOCATED
    one.discard()
    assert session.task("b").status is S.PENDING
