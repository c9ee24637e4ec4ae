"""shuffle: what plugins want moved is evicted, at once and one by one."""

from __future__ import annotations

from pumice.core.cache.tasks import Task
from pumice.core.decisions import Evict, SessionResult
from pumice.core.model.group import PodGroupPhase
from pumice.core.registry import Plugin
from pumice.core.session.session import Session
from tests.core.builders import node, pod, pod_group, queue
from tests.core.evicting import engine, evicted, reasons, run
from tests.core.strangers import StrangerPlugin


def picking(name: str, *chosen: str) -> type[Plugin]:
    """A plugin that wants certain running pods moved."""

    def open_(self: StrangerPlugin, session: Session) -> None:
        def pick(tasks: list[Task]) -> list[Task]:
            return [task for task in tasks if task.name in chosen]

        session.hooks.victim_tasks[name] = pick

    return type(name, (StrangerPlugin,), {"name": name, "open": open_})


def shuffled(*tiers: tuple[str, ...]) -> SessionResult:
    plugins = [picking("one", "a-0"), picking("two", "a-0", "b-0", "a-9"), picking("none")]
    objects = [
        node("n1", 10),
        queue(),
        pod_group("a", 2, phase=PodGroupPhase.RUNNING),
        pod_group("b", 1, phase=PodGroupPhase.RUNNING),
        pod("a-0", "a", on="n1"),
        pod("a-1", "a", on="n1"),
        pod("a-9", "a"),
        pod("b-0", "b", on="n1"),
    ]
    return run(engine("shuffle", tiers, *objects, plugins=plugins))


def test_a_tiers_plugins_are_united() -> None:
    assert sorted(evicted(shuffled(("one", "two"), ("none",)))) == ["a-0", "b-0"]


def test_the_first_tier_that_names_anyone_decides() -> None:
    assert evicted(shuffled(("none",), ("one",), ("two",))) == ["a-0"]


def test_without_an_opinion_nobody_moves() -> None:
    assert evicted(shuffled(("none",))) == []


def test_only_running_tasks_are_asked_about_and_gangs_are_broken() -> None:
    result = shuffled(("two",))
    assert evicted(result) == ["a-0", "b-0"]
    decisions = [decision for decision in result.decisions if isinstance(decision, Evict)]
    assert {(d.reason, d.for_job, d.gang) for d in decisions} == {("shuffle", "", None)}


def test_later_actions_count_on_the_room_that_is_being_left() -> None:
    objects = [
        node("n1", 1),
        queue(),
        pod_group("a", 0, phase=PodGroupPhase.RUNNING),
        pod("a-0", "a", on="n1"),
        pod_group("b", 1),
        pod("b-0", "b"),
    ]
    tiers = (("gang", "predicates", "one"),)
    made = engine("shuffle, allocate", tiers, *objects, plugins=[picking("one", "a-0")])
    result = run(made)
    assert evicted(result) == ["a-0"]
    assert reasons(result, "b", "allocate") == [("pipelined", "")]
