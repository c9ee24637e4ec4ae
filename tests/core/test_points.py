"""The extension points: how answers of plugins are put together, and what holds without any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pumice.core.configuration import PluginOptions
from pumice.core.deltas import ClusterObject
from pumice.core.model.group import SubGroupPolicy
from pumice.core.model.reasons import Reason, ReasonCode
from pumice.core.session.hooks import FLAGS, Chains, Hooks, Votes, vote
from pumice.core.session.orders import Orders
from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, names

YES, ABSTAIN, NO = 1, 0, -1


def saying(answer: Any) -> Callable[..., Any]:
    return lambda *_: answer


def tiers_of(*tiers: tuple[int, ...]) -> list[list[Any]]:
    return [[saying(answer) for answer in tier] for tier in tiers]


@pytest.mark.parametrize(
    ("tiers", "result"),
    [
        ((), True),
        (((),), True),
        (((ABSTAIN, ABSTAIN), (ABSTAIN,)), True),  # all abstain
        (((YES,),), True),
        (((NO,),), False),
        (((YES, NO),), False),  # a rejection of the same tier is final
        (((NO, YES),), False),
        (((YES, ABSTAIN), (NO,)), True),  # permitted: later tiers are not asked
        (((ABSTAIN,), (NO,)), False),
        (((ABSTAIN,), (YES,), (NO,)), True),
        (((5,), (NO,)), True),  # the sign matters
        (((-7,),), False),
    ],
)
def test_votes(tiers: tuple[tuple[int, ...], ...], result: bool) -> None:
    assert vote(tiers_of(*tiers), None) is result


def session_with(point: str, *tiers: tuple[Any, ...], **flags: bool) -> Opened:
    """A session whose plugins answer one point; a plugin is named for its tier and place."""
    objects: list[ClusterObject] = [
        node("n1"),
        queue(),
        queue("b", creation_time_ns=5),
        pod_group("g", creation_time_ns=3),
        pod_group("h", creation_time_ns=2),
        pod("a-t-0", "g"),
        pod("a-t-1", "g"),
        pod("r", "h", on="n1"),
    ]
    made = Opened(*objects, plugins=[])
    hooks, named = Hooks(), []
    for t, answers in enumerate(tiers):
        tier = []
        for place, answer in enumerate(answers):
            options = PluginOptions(f"p{t}{place}", tuple(flags.items()))
            if answer is not None:
                getattr(hooks, point)[options.name] = answer if callable(answer) else saying(answer)
            tier.append(options)
        named.append(tuple(tier))
    session = made.session
    session.hooks = hooks
    session.chains = Chains(hooks, named)
    session.votes, session.orders = Votes(session), Orders(session)
    return made


def asked(point: str, *tiers: tuple[Any, ...], **flags: bool) -> bool:
    made = session_with(point, *tiers, **flags)
    votes, job, task = made.session.votes, made.job("g"), made.task("a-t-0")
    default = made.queue("default")
    questions: dict[str, Callable[[], bool]] = {
        "job_ready": lambda: votes.is_ready(job),
        "job_pipelined": lambda: votes.is_pipelined(job),
        "job_enqueueable": lambda: votes.is_enqueueable(job),
        "job_starving": lambda: votes.is_starving(job),
        "overused": lambda: votes.is_overused(default),
        "preemptive": lambda: votes.may_reclaim(default, [task]),
        "allocatable": lambda: votes.is_allocatable(default, task),
        "why_not_valid": lambda: votes.why_not_valid(job) is None,
    }
    return questions[point]()


@pytest.mark.parametrize(
    ("point", "nobody"),
    [
        ("job_ready", True),
        ("job_pipelined", True),
        ("job_enqueueable", True),
        ("job_starving", False),
        ("overused", False),
        ("preemptive", True),
        ("allocatable", True),
        ("why_not_valid", True),
    ],
)
def test_when_nobody_answers(point: str, nobody: bool) -> None:
    assert asked(point, (None, None), (None,)) is nobody


@pytest.mark.parametrize("point", ["job_ready", "preemptive", "allocatable"])
def test_one_no_of_any_tier_is_enough(point: str) -> None:
    assert asked(point, (True, True), (True,))
    assert not asked(point, (True, True), (False,))


def test_one_plugin_that_calls_a_queue_overused_is_enough() -> None:
    assert asked("overused", (False,), (True,))
    assert not asked("overused", (False,), (False,))


def test_the_first_tier_with_an_opinion_on_starving_decides_and_must_agree() -> None:
    assert not asked("job_starving", (True, False), (True,))
    assert asked("job_starving", (True, True), (False,))
    assert asked("job_starving", (None,), (True,), (False,))


def test_the_first_reason_makes_a_job_invalid() -> None:
    bad = Reason("x", ReasonCode.GANG_INVALID)
    assert not asked("why_not_valid", (None,), (saying(None), saying(bad)))


@pytest.mark.parametrize(
    ("point", "answer", "without"),
    [
        ("job_ready", False, True),
        ("job_pipelined", NO, True),
        ("job_enqueueable", NO, True),
        ("job_starving", True, False),
        ("overused", True, False),
        ("preemptive", False, True),
        ("allocatable", False, True),
    ],
)
def test_a_flag_switches_a_point_off(point: str, answer: object, without: bool) -> None:
    assert asked(point, (answer,)) is not without
    assert asked(point, (answer,), **{FLAGS[point]: False}) is without


def test_job_valid_has_no_flag() -> None:
    bad = Reason("x", ReasonCode.GANG_INVALID)
    off = dict.fromkeys(FLAGS.values(), False)
    assert not asked("why_not_valid", (saying(bad),), **off)


def test_a_job_without_policies_asks_for_its_parts_as_for_itself() -> None:
    made = session_with("job_ready", (False,))
    job = made.job("g")
    assert not made.session.votes.is_sub_job_ready(job, job.default_sub_job())
    made = session_with("job_pipelined", (NO,))
    job = made.job("g")
    assert not made.session.votes.is_sub_job_pipelined(job, job.default_sub_job())


def test_a_job_with_policies_asks_about_its_parts() -> None:
    policy = SubGroupPolicy("p", match_label_keys=("part",))
    for point, no in (("sub_job_ready", False), ("sub_job_pipelined", NO)):
        made = session_with(point, (no,))
        job = made.job("g")
        assert job.group is not None
        job.set_group(replace(job.group, sub_group_policies=(policy,)), "default")
        part, votes = job.default_sub_job(), made.session.votes
        assert votes.is_ready(job)
        if point == "sub_job_ready":
            assert not votes.is_sub_job_ready(job, part)
        else:
            assert not votes.is_sub_job_pipelined(job, part)


def test_every_enqueued_callback_is_called() -> None:
    heard: list[str] = []
    made = session_with(
        "job_enqueued", (lambda _: heard.append("a"),), (lambda _: heard.append("b"),)
    )
    made.session.votes.enqueued(made.job("g"))
    assert heard == ["a", "b"]


def test_gang_actions_ignore_flags() -> None:
    off = dict.fromkeys(FLAGS.values(), False)
    made = session_with("unified_evictable", (lambda _a, _j, tasks: (tasks, YES),), **off)
    task = made.task("r")
    assert made.session.votes.unified_evictable("gangpreempt", made.job("g"), [task]) == [task]


# Orders.


def test_the_first_comparison_that_sees_a_difference_decides() -> None:
    made = session_with("job_order", (0,), (1, -1))
    g, h = made.job("g"), made.job("h")
    assert not made.session.orders.job_first(g, h)
    made = session_with("queue_order", (0, -1), (1,))
    assert made.session.orders.queue_first(made.queue("b"), made.queue("default"))


def test_without_a_comparison_the_older_job_comes_first_then_the_smaller_id() -> None:
    made = session_with("job_order", (0,))
    orders, g, h = made.session.orders, made.job("g"), made.job("h")
    assert orders.job_first(h, g)
    h.creation_time_ns = g.creation_time_ns
    assert orders.job_first(g, h)


def test_without_a_comparison_the_older_queue_comes_first_then_the_name() -> None:
    made = session_with("queue_order")
    orders = made.session.orders
    old, young = made.queue("default"), made.queue("b")
    assert orders.queue_first(old, young)
    assert orders.queue_first(replace(young, creation_time_ns=0), old)


def test_queues_of_victims_come_in_reverse_unless_a_plugin_says_so() -> None:
    made = session_with("queue_order")
    orders = made.session.orders
    old, young = made.queue("default"), made.queue("b")
    assert orders.victim_queue_first(young, old, old)
    assert not orders.victim_queue_first(old, young, old)
    made = session_with("victim_queue_order", (-1,))
    assert made.session.orders.victim_queue_first(old, young, old)


def sub_jobs_in_order(*ranks: str) -> list[str]:
    made = session_with("sub_job_order")
    policy = SubGroupPolicy("p", match_label_keys=("rank",))
    group = pod_group("k", sub_group_policies=(policy,))
    pods = [replace(pod(f"k-{r}", "k"), labels={"rank": r}) for r in ranks]
    job = Opened(queue(), group, *pods, plugins=[]).job("k")
    first = made.session.orders.sub_job_first
    ordered = list(job.sub_jobs.values())
    for _ in ordered:
        for i in range(len(ordered) - 1):
            if first(ordered[i + 1], ordered[i]):
                ordered[i], ordered[i + 1] = ordered[i + 1], ordered[i]
    return [sub_job.id.rpartition("-")[2] for sub_job in ordered]


def test_without_a_comparison_sub_jobs_come_by_their_number_then_by_id() -> None:
    assert sub_jobs_in_order("10", "x", "9", "b", "1") == ["b", "x", "1", "9", "10"]


@pytest.mark.parametrize(
    ("first", "second", "ages"),
    [
        ("j-t-9", "j-t-10", (5, 1)),  # by index, not by age
        ("j-9", "j-10", (1, 5)),  # two parts: no index, by age
        ("j-t-x", "j-t-1", (1, 5)),  # one has no index: by age
        ("j-t-1", "k-t-1", (1, 5)),  # the same index: by age
        ("j-t-1", "k-t-1", (1, 1)),  # the same age: by uid
    ],
)
def test_without_a_comparison_tasks_come_by_index_then_age_then_uid(
    first: str, second: str, ages: tuple[int, int]
) -> None:
    members = [
        replace(pod(name, "g"), creation_time_ns=age)
        for name, age in zip((first, second), ages, strict=True)
    ]
    made = Opened(queue(), pod_group("g", 2), *members, plugins=[])
    ordered = made.session.orders.tasks(made.tasks(second, first))
    assert names(ordered) == [first, second]
