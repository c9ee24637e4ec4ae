"""priority: the more important job and task first."""

from __future__ import annotations

import pytest

from pumice.core.model.group import SubGroupPolicy
from pumice.core.model.selectors import LabelSelector
from tests.core.builders import node, pod, pod_group, priority_class, queue
from tests.core.plugins.opened import Opened, names


def opened() -> Opened:
    return Opened(
        node("n1", 100),
        queue(),
        priority_class("high", 10),
        priority_class("low", 1),
        pod_group("high", 1, priority_class_name="high"),
        pod_group("low", 1, priority_class_name="low"),
        pod_group("low-too", 1, priority_class_name="low"),
        pod("high-0", "high", task_priority=1),
        pod("high-1", "high", on="n1", task_priority=0),
        pod("high-2", "high", on="n1", task_priority=1),
        pod("low-0", "low", on="n1", task_priority=99),
        pod("low-1", "low"),
        pod("low-too-0", "low-too", on="n1"),
        pod("stray-0", "stray", on="n1"),
        plugins=["priority"],
    )


def test_higher_jobs_and_tasks_come_first() -> None:
    session = opened()
    hooks = session.hooks
    assert hooks.job_order["priority"](session.job("high"), session.job("low")) < 0
    assert hooks.job_order["priority"](session.job("low"), session.job("high")) > 0
    assert hooks.job_order["priority"](session.job("low"), session.job("low-too")) == 0
    assert hooks.task_order["priority"](session.task("high-0"), session.task("high-1")) < 0
    assert hooks.task_order["priority"](session.task("high-0"), session.task("high-2")) == 0


@pytest.mark.parametrize(
    ("preemptor", "victims"),
    [
        # Of other jobs those with lower jobs, whatever the tasks; of its own, lower tasks.
        ("high-0", ["high-1", "low-0", "low-too-0"]),
        # Equal jobs are left alone.
        ("low-1", []),
    ],
)
def test_victims_are_lower(preemptor: str, victims: list[str]) -> None:
    session = opened()
    candidates = session.tasks("high-1", "high-2", "low-0", "low-too-0", "stray-0")
    found, vote = session.hooks.preemptable["priority"](session.task(preemptor), candidates)
    assert (names(found), vote) == (victims, 1)


def test_an_unknown_preemptor_gets_nobody() -> None:
    session = opened()
    function = session.hooks.preemptable["priority"]
    assert function(session.task("stray-0"), session.tasks("low-0")) == ([], 1)


def test_nothing_is_said_about_reclaiming() -> None:
    assert opened().hooks.reclaimable == {}


def test_gang_reclaim_takes_all_and_gang_preempt_lower_jobs_only() -> None:
    session = opened()
    function = session.hooks.unified_evictable["priority"]
    candidates = session.tasks("high-1", "low-0")
    assert names(function("gangreclaim", session.job("low"), candidates)[0]) == ["high-1", "low-0"]
    assert names(function("gangpreempt", session.job("high"), candidates)[0]) == ["low-0"]
    assert names(function("gangpreempt", session.job("low"), candidates)[0]) == []


def test_a_job_starves_while_some_task_has_no_node() -> None:
    session = opened()
    starving = session.hooks.job_starving["priority"]
    assert starving(session.job("low"))
    assert not starving(session.job("low-too"))
    statement = session.session.statement()
    statement.pipeline(session.task("low-1"), "n1", eviction_occurred=False)
    assert not starving(session.job("low"))


def test_a_sub_job_is_as_important_as_its_most_important_task_was_and_never_below_zero() -> None:
    policy = SubGroupPolicy("p", LabelSelector(), ("g",))
    session = Opened(
        queue(),
        pod_group("j", sub_group_policies=(policy,)),
        pod("a", "j", labels={"g": "1"}, task_priority=5),
        pod("b", "j", labels={"g": "1"}, task_priority=2),
        pod("c", "j", labels={"g": "2"}, task_priority=-7),
        plugins=["priority"],
    )
    one = session.session.sub_job_of(session.task("a"))
    two = session.session.sub_job_of(session.task("c"))
    assert (one.priority, two.priority) == (5, 0)
    assert session.hooks.sub_job_order["priority"](one, two) < 0
