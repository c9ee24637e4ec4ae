"""A plugin that raises is named and left out, and nothing of it remains."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from pumice.core.actions.allocate import AllocateAction
from pumice.core.cache.storage import VolumeReservation
from pumice.core.configuration import PluginOptions
from pumice.core.decisions import Bind
from pumice.core.errors import InvariantError
from pumice.core.model.fit import Refusal
from pumice.core.model.reasons import ReasonCode
from pumice.core.model.status import TaskStatus
from pumice.core.plugins.gang import GangPlugin
from pumice.core.plugins.nodeorder import NodeOrderPlugin
from pumice.core.registry import BUILT_IN_PLUGINS, Registry
from pumice.core.session.hooks import EventHandler
from pumice.core.session.session import Session
from tests.core.builders import NOW_NS, fill, job, node
from tests.core.strangers import (
    POINTS,
    StrangerPlugin,
    assert_left_out,
    engine_with,
    explode,
    registering,
    state_of,
    stranger,
    told,
)

# Raising.


@pytest.mark.parametrize("method", ["__init__", "open", "close", "next_wake"])
def test_a_plugin_that_raises_in_a_method_is_left_out(method: str) -> None:
    where = "open" if method == "__init__" else method
    result = assert_left_out(stranger(**{method: explode}), where)
    assert result.faults[0].error == "ValueError: out of cheese"


def test_volumes_that_a_given_up_session_took_are_free_again() -> None:
    engine = engine_with(stranger(close=explode, required=True))
    engine.schedule(NOW_NS)
    assert state_of(engine)["volumes"] == ()
    without = engine_with(None)
    without.schedule(NOW_NS)
    assert state_of(without)["volumes"] == (
        ("ns/claim", "uid-stores-0", VolumeReservation("ns/claim", node="n2")),
    )


@pytest.mark.parametrize("point", [p for p in POINTS if p != "simulation"])
def test_a_plugin_that_raises_at_a_point_is_left_out(point: str) -> None:
    plugin = registering(point, explode)
    assert_left_out(plugin, point, "enqueue", "allocate", "probe", "backfill", point=point)


@pytest.mark.parametrize(
    "point",
    [
        "job_order",
        "queue_order",
        "task_order",
        "pre_predicate",
        "class_predicate",
        "row_predicate",
        "task_predicate",
        "node_predicate",
        "class_score",
        "row_score",
        "row_batch_score",
        "task_score",
        "task_batch_score",
        "node_score",
        "best_node",
        "allocatable",
        "overused",
        "why_not_valid",
        "job_ready",
        "job_pipelined",
    ],
)
def test_allocation_stops_at_once_when_a_plugin_raises(point: str) -> None:
    assert_left_out(registering(point, explode), point, sessions=1)


@pytest.mark.parametrize("calls_before", range(1, 12))
def test_a_plugin_that_raises_late_leaves_nothing_of_what_came_before(calls_before: int) -> None:
    left = [calls_before]

    def explode_later(*_: object) -> str | None:
        left[0] -= 1
        return explode() if left[0] < 0 else None

    engine, without = engine_with(registering("pre_predicate", explode_later)), engine_with(None)
    result = engine.schedule(NOW_NS)
    assert told(result) == told(without.schedule(NOW_NS))
    assert bool(result.faults) == (left[0] < 0)
    assert state_of(engine) == state_of(without)


@pytest.mark.parametrize("end", ["allocated", "deallocated"])
@pytest.mark.parametrize("calls_before", range(3))
def test_a_handler_that_raises_amid_a_move_leaves_no_half_of_it(
    end: str, calls_before: int
) -> None:
    left = [calls_before]

    def explode_later(_: object) -> None:
        if left[0] == 0:
            explode()
        left[0] -= 1

    def nothing(_: object) -> None:
        return None

    handler = (
        EventHandler(explode_later, nothing)
        if end == "allocated"
        else EventHandler(nothing, explode_later)
    )
    engine, without = engine_with(registering("handlers", handler)), engine_with(None)
    result = engine.schedule(NOW_NS)
    assert [f.where for f in result.faults] == [f"handlers.{end}"]
    assert told(result) == told(without.schedule(NOW_NS))
    assert state_of(engine) == state_of(without)


def test_two_plugins_that_raise_are_both_left_out() -> None:
    class OtherPlugin(StrangerPlugin):
        name: ClassVar[str] = "other"

        def open(self, session: Session) -> None:
            session.hooks.node_score["other"] = explode

    engine = engine_with(None)
    engine.registry = Registry([registering("job_order", explode), OtherPlugin])
    first, second = engine.configuration.tiers
    more = (PluginOptions("other"), PluginOptions("stranger"))
    engine.configure(replace(engine.configuration, tiers=((*more, *first), second)))
    result = engine.schedule(NOW_NS)
    assert [fault.author for fault in result.faults] == ["stranger", "other"]
    assert told(result) == told(engine_with(None).schedule(NOW_NS))


def test_no_half_done_gang_comes_out() -> None:
    calls = [0]

    def explode_at_the_second_task(*_: object) -> float:
        calls[0] += 1
        return explode() if calls[0] > 3 else 0.0

    engine = engine_with(registering("node_score", explode_at_the_second_task))
    result = engine.schedule(NOW_NS)
    assert result.faults
    bound: dict[str, int] = {}
    for decision in result.decisions:
        assert isinstance(decision, Bind)
        assert decision.gang is not None
        bound[decision.gang.job] = bound.get(decision.gang.job, 0) + 1
        assert bound[decision.gang.job] <= decision.gang.size
    assert bound == {"ns/fits": 3, "ns/grows": 3, "ns/stores": 1}


def test_a_plugin_that_recovers_takes_part_again() -> None:
    broken = [True]

    def only_n3(_: object) -> tuple[Refusal, ...]:
        if broken[0]:
            explode()
        return (Refusal("not there", np.array([True, True, False]), unresolvable=True),)

    engine = engine_with(registering("class_predicate", only_n3))
    fill(engine, *job("later", 1, cpu=9))
    assert engine.schedule(NOW_NS).faults
    broken[0] = False
    fill(engine, node("n3", cpu=8), *job("next", 2))
    result = engine.schedule(NOW_NS + 10**9)
    assert result.faults == ()
    assert {d.node for d in result.decisions if d.name.startswith("next")} == {"n3"}


# What is not a plugin's fault, and what must not be left out.


def test_a_bug_of_the_engine_is_not_swallowed() -> None:
    class BuggyAction(AllocateAction):
        def execute(self, session: Session) -> None:
            super().execute(session)
            raise InvariantError("two and two make five")

    engine = engine_with(None)
    engine.registry.actions = {**engine.registry.actions, "allocate": BuggyAction}
    with pytest.raises(InvariantError):
        engine.schedule(NOW_NS)


def test_a_bug_of_the_engine_is_not_blamed_on_the_plugin_that_asked() -> None:
    def broken_engine(*_: object) -> int:
        raise InvariantError("two and two make five")

    with pytest.raises(InvariantError):
        engine_with(registering("task_order", broken_engine)).schedule(NOW_NS)


def test_an_action_that_raises_is_no_plugin_to_be_left_out() -> None:
    class BuggyAction(AllocateAction):
        def execute(self, session: Session) -> None:
            explode()

    engine = engine_with(None)
    engine.registry.actions = {**engine.registry.actions, "allocate": BuggyAction}
    with pytest.raises(ValueError, match="cheese"):
        engine.schedule(NOW_NS)


def test_a_built_in_plugin_that_only_prefers_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeOrderPlugin, "open", explode)
    result = engine_with(None).schedule(NOW_NS)
    assert [f.author for f in result.faults] == ["nodeorder"]
    assert result.decisions


def test_without_the_plugin_that_keeps_gangs_nothing_is_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = engine_with(None)
    monkeypatch.setattr(GangPlugin, "open", explode)
    engine.schedule(NOW_NS)
    before = state_of(engine)
    monkeypatch.undo()
    monkeypatch.setattr(GangPlugin, "close", explode)
    result = engine.schedule(NOW_NS)
    assert (result.decisions, result.statuses, result.events) == ((), (), ())
    assert [f.author for f in result.faults] == ["gang"]
    assert {w.job: [r.code for r in w.reasons] for w in result.waits} == {
        f"ns/{name}": [ReasonCode.PLUGIN_FAULT] for name in ("fits", "grows", "stores", "wide")
    }
    assert state_of(engine) == before
    monkeypatch.undo()
    assert told(engine.schedule(NOW_NS))[0]


def test_a_plugin_may_ask_to_stand_still_rather_than_go_on_without_it() -> None:
    plugin = stranger(required=True, close=explode)
    engine = engine_with(plugin)
    result = engine.schedule(NOW_NS)
    assert result.decisions == ()
    assert [f.author for f in result.faults] == ["stranger"]
    tasks = engine.cache.tasks.values()
    assert {t.status for t in tasks} == {TaskStatus.RUNNING, TaskStatus.PENDING}


def test_an_answer_that_is_right_changes_nothing() -> None:
    def harmless(self: StrangerPlugin, session: Session) -> None:
        count = len(session.table)
        hooks = session.hooks
        hooks.task_order["stranger"] = lambda *_: 0
        hooks.class_score["stranger"] = lambda _: np.zeros(count)
        hooks.row_score["stranger"] = lambda _, rows: np.zeros(len(rows))
        hooks.node_predicate["stranger"] = lambda *_: None
        hooks.node_score["stranger"] = lambda *_: 1
        hooks.class_predicate["stranger"] = lambda _: ()
        hooks.why_not_valid["stranger"] = lambda _: None
        hooks.job_ready["stranger"] = lambda _: True
        hooks.handlers.append(EventHandler(lambda _: None))

    engine, without = engine_with(stranger(open=harmless)), engine_with(None)
    result = engine.schedule(NOW_NS)
    assert result.faults == ()
    assert told(result) == told(without.schedule(NOW_NS))
    assert state_of(engine) == state_of(without)


def test_all_built_in_plugins_are_trusted() -> None:
    registry = Registry([stranger()])
    assert all(registry.is_built_in(plugin.name) for plugin in BUILT_IN_PLUGINS)
    assert not registry.is_built_in("stranger")
