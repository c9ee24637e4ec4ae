"""gang: a job starts with enough of its tasks, or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from pumice.core.deltas import ClusterObject
from pumice.core.model.group import SubGroupPolicy
from pumice.core.model.pod import Pod, PodPhase
from pumice.core.model.reasons import ReasonCode
from pumice.core.model.selectors import LabelSelector
from pumice.core.session.hooks import PERMIT, REJECT
from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, names


def pods(count: int, name: str = "p", **fields: Any) -> list[Pod]:
    return [pod(f"{name}-{i}", "g", **fields) for i in range(count)]


def running(count: int, name: str = "r", **fields: Any) -> list[Pod]:
    return pods(count, name, on="n1", **fields)


def best_effort(count: int) -> list[Pod]:
    return pods(count, "b", cpu=0, memory_gib=0)


def opened(minimum: int, *objects: ClusterObject, **fields: Any) -> Opened:
    group = pod_group("g", minimum, **fields)
    return Opened(node("n1", 100, 100), queue(), group, *objects, plugins=["gang"])


def ready(session: Opened) -> bool:
    return session.hooks.job_ready["gang"](session.job("g"))


def pipelined(session: Opened) -> int:
    return session.hooks.job_pipelined["gang"](session.job("g"))


def starving(session: Opened) -> bool:
    return session.hooks.job_starving["gang"](session.job("g"))


def victims(session: Opened, candidates: Iterable[str]) -> list[str]:
    hooks, tasks = session.hooks, session.tasks(*candidates)
    found = hooks.preemptable["gang"](tasks[0], tasks)
    assert hooks.reclaimable["gang"](tasks[0], tasks) == found
    assert found[1] == PERMIT
    return names(found[0])


def test_the_worked_example() -> None:
    session = opened(3, *running(3), *best_effort(1), *pods(2))
    assert ready(session)
    assert not starving(session)
    assert victims(session, ["r-0", "r-1", "r-2"]) == []


def test_only_the_surplus_may_be_taken() -> None:
    session = opened(3, *running(5))
    assert victims(session, ["r-4", "r-0", "r-2"]) == ["r-4", "r-0"]


def test_jobs_outside_the_session_are_skipped() -> None:
    session = opened(0, *running(1), pod("x", "gone", on="n1"))
    assert victims(session, ["x", "r-0"]) == ["r-0"]


def test_a_minimum_of_zero_is_ready_never_starves_and_may_lose_everyone() -> None:
    session = opened(0, *running(2), *pods(1))
    assert ready(session)
    assert not starving(session)
    assert victims(session, ["r-0", "r-1"]) == ["r-0", "r-1"]


def test_finished_pods_count_as_ready_so_running_ones_can_be_lost() -> None:
    done = replace(pod("d-0", "g", on="n1"), phase=PodPhase.SUCCEEDED)
    session = opened(1, done, *running(1))
    assert victims(session, ["r-0"]) == ["r-0"]


def test_pending_best_effort_pods_make_ready_but_do_not_end_starving() -> None:
    session = opened(2, *running(1), *best_effort(1))
    assert ready(session)
    assert starving(session)


def test_pipelined_tasks_make_pipelined_not_ready() -> None:
    session = opened(2, *running(1), *pods(1))
    assert pipelined(session) == REJECT
    statement = session.session.statement()
    statement.pipeline(session.task("p-0"), "n1", eviction_occurred=False)
    assert pipelined(session) == PERMIT
    assert not ready(session)
    assert not starving(session)


def test_unready_jobs_come_first() -> None:
    session = Opened(
        node("n1"),
        queue(),
        pod_group("g", 1),
        pod("r", "g", on="n1"),
        pod_group("h", 1),
        pod("p", "h"),
        plugins=["gang"],
    )
    order = session.hooks.job_order["gang"]
    assert order(session.job("h"), session.job("g")) == -1
    assert order(session.job("g"), session.job("h")) == 1
    assert order(session.job("g"), session.job("g")) == 0


# Roles.


def with_roles(minimum: int, roles: dict[str, int], *objects: ClusterObject) -> Opened:
    return opened(minimum, *objects, min_task_member=tuple(roles.items()))


def test_every_role_needs_its_minimum() -> None:
    roles = {"ps": 1, "worker": 2}
    workers = running(3, "w", role="worker")
    session = with_roles(3, roles, *workers, pod("ps-0", "g", role="ps"))
    assert not ready(session)
    assert session.hooks.why_not_valid["gang"](session.job("g")) is None
    statement = session.session.statement()
    statement.allocate(session.task("ps-0"), "n1")
    assert ready(session)


def test_role_minima_above_the_jobs_own_do_not_count() -> None:
    session = with_roles(2, {"ps": 1, "worker": 2}, *running(2, "w", role="worker"))
    assert ready(session)


def test_a_role_without_enough_pods_makes_the_job_invalid() -> None:
    session = with_roles(2, {"ps": 1, "worker": 1}, *pods(4, "w", role="worker"))
    reason = session.hooks.why_not_valid["gang"](session.job("g"))
    assert reason is not None
    assert (reason.code, reason.subjects) == (ReasonCode.GANG_INVALID, ("ps",))


def test_too_few_pods_make_the_job_invalid() -> None:
    failed = replace(pod("f-0", "g", on="n1"), phase=PodPhase.FAILED)
    session = opened(3, *running(1), *pods(1), failed)
    reason = session.hooks.why_not_valid["gang"](session.job("g"))
    assert reason is not None
    assert (reason.have, reason.need) == (2, 3)


def test_starving_ignores_roles() -> None:
    session = with_roles(2, {"ps": 1, "worker": 1}, *running(2, "w", role="worker"))
    assert not ready(session)
    assert not starving(session)


# Sub-groups.


def in_groups(sizes: dict[str, int], *, minimum: int = 1, on: str = "") -> Opened:
    policy = SubGroupPolicy("p", LabelSelector(), ("g",), sub_group_size=2, min_sub_groups=minimum)
    members = [
        pod(f"{value}-{i}", "g", labels={"g": value}, on=on)
        for value, size in sizes.items()
        for i in range(size)
    ]
    return opened(0, *members, sub_group_policies=(policy,))


def test_enough_sub_groups_must_be_ready() -> None:
    session = in_groups({"a": 2, "b": 2}, minimum=1)
    assert not ready(session)
    statement = session.session.statement()
    for name in ("a-0", "b-0"):
        statement.allocate(session.task(name), "n1")
    assert not ready(session)
    statement.allocate(session.task("b-1"), "n1")
    assert ready(session)
    sub_job = session.session.sub_job_of(session.task("a-0"))
    assert not session.hooks.sub_job_ready["gang"](sub_job)
    assert session.hooks.sub_job_pipelined["gang"](sub_job) == REJECT
    statement.pipeline(session.task("a-1"), "n1", eviction_occurred=False)
    assert session.hooks.sub_job_pipelined["gang"](sub_job) == PERMIT
    ready_one = session.session.sub_job_of(session.task("b-0"))
    assert session.hooks.sub_job_order["gang"](sub_job, ready_one) == -1


def test_too_few_sub_groups_make_the_job_invalid() -> None:
    assert in_groups({"a": 2, "b": 2}, minimum=2).hooks.why_not_valid["gang"] is not None
    session = in_groups({"a": 4}, minimum=2)
    reason = session.hooks.why_not_valid["gang"](session.job("g"))
    assert reason is not None
    assert (reason.have, reason.need, reason.subjects) == (1, 2, ("p",))


def test_the_gang_actions_get_every_candidate() -> None:
    session = opened(3, *running(3))
    tasks = session.tasks("r-0", "r-1")
    assert session.hooks.unified_evictable["gang"]("gangpreempt", session.job("g"), tasks) == (
        tasks,
        PERMIT,
    )


# Conditions.


def conditions(session: Opened) -> list[tuple[str, str, str, str]]:
    result = session.engine.schedule(0)
    assert not result.faults
    return [
        (c.type, c.status, c.reason, c.message)
        for change in result.statuses
        if hasattr(change, "status")
        for c in change.status.conditions
    ]


def test_a_ready_job_is_scheduled() -> None:
    assert conditions(opened(1, *running(1))) == [
        ("Scheduled", "True", "tasks in gang are ready to be scheduled", "")
    ]


def test_an_unready_job_says_how_many_are_missing_and_why() -> None:
    session = opened(3, *pods(2))
    assert conditions(session) == [
        (
            "Unschedulable",
            "True",
            "NotEnoughResources",
            "3/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 3 minAvailable; "
            "Pending: 2 Unschedulable",
        )
    ]


def test_a_job_that_only_waits_for_its_pods_to_leave_is_not_complained_about() -> None:
    leaving = running(1, terminating=True)
    assert conditions(opened(1, *leaving)) == []


@pytest.mark.parametrize("minimum", [1, 2])
def test_gangs_are_placed_whole_or_not_at_all(minimum: int) -> None:
    session = Opened(
        node("n1", 1),
        queue(),
        pod_group("g", minimum),
        *pods(2),
        plugins=["gang", "predicates"],
        actions=("allocate",),
    )
    bound = [str(d) for d in session.engine.schedule(0).decisions]
    assert bound == (["bind p-0 n1"] if minimum == 1 else [])
