"""proportion: queues share the cluster by weight, and get no more than they ask for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.core.deltas import ClusterObject
from pumice.core.model.group import PodGroup, PodGroupPhase, QueueState
from pumice.core.model.resources import Resources
from pumice.core.plugins.proportion import ProportionPlugin, divide
from pumice.core.session.hooks import PERMIT, REJECT
from pumice.core.session.queues import QueueAccount, RealCapabilities
from tests.core.builders import job, node, pod, pod_group, queue
from tests.core.plugins.opened import GPU, Amounts, Opened, asking, cores, minimum, names, offering


def account(
    name: str, weight: int, request: float, total: Resources, **fields: Any
) -> QueueAccount:
    given_queue = queue(name, weight=weight, **fields)
    result = QueueAccount(given_queue, None, RealCapabilities(total, [given_queue]).of(given_queue))
    result.request = Resources(int(request * 1000))
    return result


def filled(total_cpu: float, *rows: tuple[int, float, dict[str, Any]]) -> list[float]:
    """Deserved cores of queues given as weight, request and other fields."""
    total = Resources(int(total_cpu * 1000))
    queues = [queue(f"q{i}", weight=w, **fields) for i, (w, _, fields) in enumerate(rows)]
    capabilities = RealCapabilities(total, queues)
    accounts = []
    for given_queue, (_, request, _) in zip(queues, rows, strict=True):
        result = QueueAccount(given_queue, None, capabilities.of(given_queue))
        result.request = Resources(int(request * 1000))
        accounts.append(result)
    divide(total, accounts)
    return [result.deserved.milli_cpu / 1000 for result in accounts]


@pytest.mark.parametrize(
    ("total", "rows", "deserved"),
    [
        # What A does not need flows on to B and C.
        (24, [(1, 2, {}), (2, 20, {}), (3, 20, {})], [2, 8.8, 13.2]),
        # C may have no more than 10.
        (24, [(1, 2, {}), (2, 20, {}), (3, 20, {"capability": cores(10)})], [2, 12, 10]),
        # A is guaranteed more than it asks for.
        (24, [(1, 2, {"guarantee": cores(4)}), (2, 20, {}), (3, 20, {})], [4, 8, 12]),
        # More than there is was guaranteed: nothing is left, and nothing goes below zero.
        (4, [(1, 9, {"guarantee": cores(6)}), (1, 9, {})], [6, 0]),
        # Everybody gets what he asks for.
        (24, [(1, 2, {}), (2, 3, {})], [2, 3]),
        (24, [(5, 0, {}), (1, 3, {})], [0, 3]),
        (0, [(1, 2, {})], [0]),
    ],
)
def test_water_filling(
    total: float, rows: list[tuple[int, float, dict[str, Any]]], deserved: list[float]
) -> None:
    assert filled(total, *rows) == pytest.approx(deserved)


def test_a_queue_short_of_one_dimension_keeps_getting_its_part_of_all() -> None:
    total = Resources(10_000, 100)
    accounts = [account("a", 1, 0, total), account("b", 1, 0, total)]
    accounts[0].request = Resources(10_000, 10)
    accounts[1].request = Resources(10_000, 90)
    divide(total, accounts)
    assert [a.deserved.milli_cpu for a in accounts] == [5_000, 5_000]
    assert [a.deserved.memory for a in accounts] == pytest.approx([10, 90])


def test_dimensions_that_are_not_asked_for_are_returned() -> None:
    total = Resources(10_000, 100, {"pods": 10, GPU: 8000})
    accounts = [account("a", 1, 4, total), account("b", 1, 4, total)]
    accounts[1].request = Resources(4_000, 0, {GPU: 8000})
    divide(total, accounts)
    assert accounts[0].deserved == Resources(4_000, 0, {"pods": 0, GPU: 0})
    assert accounts[1].deserved.get(GPU) == 8000


amount = st.integers(0, 50_000)


@given(
    total=amount,
    rows=st.lists(
        st.tuples(st.integers(1, 9), amount, st.none() | amount.map(lambda v: (("cpu", v),))),
        max_size=6,
    ),
)
def test_deserved_is_within_the_ceiling_and_the_sum_within_the_total(
    total: int, rows: list[tuple[int, int, tuple[tuple[str, int], ...] | None]]
) -> None:
    whole = Resources(total)
    queues = [queue(f"q{i}", weight=w, capability=c) for i, (w, _, c) in enumerate(rows)]
    capabilities = RealCapabilities(whole, queues)
    accounts = [QueueAccount(q, None, capabilities.of(q)) for q in queues]
    for result, (_, request, _) in zip(accounts, rows, strict=True):
        result.request = Resources(request)
    divide(whole, accounts)
    for result in accounts:
        assert result.deserved.milli_cpu <= result.real_capability.milli_cpu
        assert result.deserved.milli_cpu <= result.request.milli_cpu
    assert sum(r.deserved.milli_cpu for r in accounts) <= total * (1 + 1e-9)


@given(
    guarantees=st.lists(amount, min_size=1, max_size=5),
    requests=st.lists(amount, min_size=5, max_size=5),
)
def test_guarantees_are_always_deserved(guarantees: list[int], requests: list[int]) -> None:
    whole = Resources(sum(guarantees))
    queues = [queue(f"q{i}", guarantee=(("cpu", g),)) for i, g in enumerate(guarantees)]
    capabilities = RealCapabilities(whole, queues)
    accounts = [QueueAccount(q, None, capabilities.of(q)) for q in queues]
    for result, request in zip(accounts, requests, strict=False):
        result.request = Resources(request)
    divide(whole, accounts)
    for result, guarantee in zip(accounts, guarantees, strict=True):
        assert guarantee <= result.deserved.milli_cpu <= result.real_capability.milli_cpu


# Real capability.


@pytest.mark.parametrize(
    ("fields", "cpu", "memory", "gpu"),
    [
        ({}, 10_000, 100, 8),
        ({"capability": (("cpu", 4000),)}, 4_000, 100, 8),
        ({"capability": (("cpu", 0), ("memory", 5))}, 10_000, 5, 8),
        ({"capability": ((GPU, 2),)}, 10_000, 100, 2),
        ({"guarantee": (("cpu", 1000),)}, 10_000, 100, 8),
        ({"capability": (("cpu", 99_000),)}, 10_000, 100, 8),
    ],
)
def test_a_ceiling_is_what_nobody_else_is_guaranteed_within_the_capability(
    fields: dict[str, Any], cpu: float, memory: float, gpu: float
) -> None:
    mine = queue("mine", **fields)
    capability = RealCapabilities(Resources(10_000, 100, {GPU: 8}), [mine]).of(mine)
    assert capability == Resources(cpu, memory, {GPU: gpu})


def test_an_unused_guarantee_blocks_everyone_else() -> None:
    mine, other = queue("mine"), queue("other", guarantee=(("cpu", 7000),))
    assert RealCapabilities(Resources(10_000), [mine, other]).of(mine).milli_cpu == 3000


# The functions.


def opened(*objects: ClusterObject, cpu: float = 10) -> Opened:
    return Opened(node("n1", cpu, 100, pods=1000), *objects, plugins=["proportion"])


def state(session: Opened, name: str) -> QueueAccount:
    plugin = session.plugins["proportion"]
    assert isinstance(plugin, ProportionPlugin)
    return plugin._queues[name]


def two_queues(**red: Any) -> list[ClusterObject]:
    """Red holds 4 of 10 cores and wants 8, blue holds 2 and wants 8."""
    return [
        queue("red", **red),
        queue("blue"),
        *job("a", 4, minimum=1, queue_name="red", on="n1"),
        pod("a-9", "a", 4),
        *job("b", 2, minimum=1, queue_name="blue", on="n1"),
        pod("b-9", "b", 6),
    ]


def test_the_smaller_share_comes_first_unless_priorities_differ() -> None:
    session = opened(*two_queues())
    order = session.hooks.queue_order["proportion"]
    assert order(session.queue("blue"), session.queue("red")) == -1
    assert order(session.queue("red"), session.queue("blue")) == 1
    assert order(session.queue("red"), session.queue("red")) == 0
    session = opened(*two_queues(priority=3))
    assert session.hooks.queue_order["proportion"](session.queue("red"), session.queue("blue")) < 0


def test_shares_follow_placements_and_their_undoing() -> None:
    session = opened(*two_queues())
    # Two of the three places among pods that it asks for; 2 of 5 cores is less.
    assert state(session, "blue").share == pytest.approx(2 / 3)
    statement = session.session.statement()
    statement.allocate(session.task("b-9"), "n1")
    assert state(session, "blue").share == pytest.approx(1.6)
    statement.discard()
    assert state(session, "blue").share == pytest.approx(2 / 3)


def test_places_among_pods_are_a_dimension_of_the_share() -> None:
    session = Opened(
        node("n1", 10, 100, pods=4),
        queue("red"),
        *job("a", 2, 0.1, minimum=1, queue_name="red", on="n1"),
        pod("a-9", "a", 9),
        pod("a-8", "a", 0.1),
        plugins=["proportion"],
    )
    assert state(session, "red").share == pytest.approx(0.5)


def test_a_queue_that_has_what_it_asks_for_is_overused() -> None:
    session = opened(queue("red"), *job("a", 2, queue_name="red", on="n1"))
    assert session.hooks.overused["proportion"](session.queue("red"))


def test_a_queue_is_overused_only_in_all_dimensions() -> None:
    session = opened(*two_queues())
    assert not session.hooks.overused["proportion"](session.queue("red"))


def test_a_queue_that_deserves_nothing_is_overused() -> None:
    session = Opened(
        queue("red"), pod_group("a", queue_name="red"), pod("p", "a"), plugins=["proportion"]
    )
    assert session.hooks.overused["proportion"](session.queue("red"))


def test_tasks_are_allowed_up_to_what_is_deserved_in_each_requested_dimension() -> None:
    session = opened(*two_queues(), pod("small", "a", 1), pod("big", "a", 2))
    allowed = session.hooks.allocatable["proportion"]
    red = session.queue("red")
    assert state(session, "red").deserved.milli_cpu == 5000
    assert allowed(red, session.task("small"))
    assert not allowed(red, session.task("big"))
    reclaim = session.hooks.preemptive["proportion"]
    assert reclaim(red, session.tasks("small"))
    assert not reclaim(red, session.tasks("small", "small"))


@pytest.mark.parametrize("closed", [QueueState.CLOSED, QueueState.CLOSING, QueueState.NONE])
def test_a_queue_that_is_not_open_gets_nothing(closed: QueueState) -> None:
    session = opened(*two_queues(state=closed), pod("small", "a", 1), pending("c", None))
    hooks, red = session.hooks, session.queue("red")
    assert not hooks.allocatable["proportion"](red, session.task("small"))
    assert not hooks.preemptive["proportion"](red, session.tasks("small"))
    assert hooks.job_enqueueable["proportion"](session.job("c")) == REJECT
    simulation = hooks.simulation["proportion"](session.task("small"), 0)
    assert simulation.is_allocatable(red, session.task("small"))


def test_victims_are_taken_until_nothing_is_above_deserved_any_more() -> None:
    session = opened(
        queue("red"),
        queue("blue"),
        *job("a", 4, 2, minimum=0, queue_name="red", on="n1"),
        *job("b", 1, 10, queue_name="blue"),
    )
    assert state(session, "red").deserved.milli_cpu == 5000
    function = session.hooks.reclaimable["proportion"]
    tasks = session.tasks("a-3", "a-1", "a-0", "a-2")
    victims, vote = function(session.task("b-0"), tasks)
    # 8, 6: above 5. The second brings the queue below what it deserves.
    assert (names(victims), vote) == (["a-3", "a-1"], PERMIT)


def test_any_dimension_above_deserved_makes_victims() -> None:
    session = Opened(
        node("n1", 100, 100, pods=4),
        queue("red"),
        queue("blue"),
        *job("a", 3, 1, minimum=0, queue_name="red", on="n1"),
        *job("b", 3, 1, queue_name="blue"),
        plugins=["proportion"],
    )
    # Only places among the pods are short: two for each.
    victims, _ = session.hooks.reclaimable["proportion"](
        session.task("b-0"), session.tasks("a-0", "a-1", "a-2")
    )
    assert names(victims) == ["a-0"]


def pending(name: str, asked: Amounts | None) -> PodGroup:
    return pod_group(name, queue_name="red", phase=PodGroupPhase.PENDING, min_resources=asked)


def test_jobs_are_let_in_up_to_the_ceiling_not_up_to_what_is_deserved() -> None:
    session = opened(
        *two_queues(capability=cores(7)),
        pending("fits", minimum(7)),
        pending("over", minimum(7.001)),
        pending("free", None),
    )
    vote = session.hooks.job_enqueueable["proportion"]
    # What red holds is above its jobs' minima, and so could be taken back.
    assert vote(session.job("fits")) == PERMIT
    assert vote(session.job("free")) == PERMIT
    assert vote(session.job("over")) == REJECT
    (event,) = session.session.events
    assert event.message == "queue resource quota insufficient: insufficient cpu"
    assert (event.reason, event.warning) == ("Unschedulable", False)


def test_what_was_let_in_counts() -> None:
    session = opened(
        queue("red", capability=cores(7)),
        pending("one", minimum(4)),
        pending("two", minimum(4)),
    )
    vote = session.hooks.job_enqueueable["proportion"]
    assert vote(session.job("two")) == PERMIT
    session.hooks.job_enqueued["proportion"](session.job("one"))
    assert vote(session.job("two")) == REJECT


def test_promises_of_earlier_sessions_count_without_what_is_held() -> None:
    admitted = pod_group("half", 2, queue_name="red", min_resources=minimum(4))
    session = opened(
        queue("red", capability=cores(7)),
        admitted,
        pod("half-0", "half", 2, on="n1"),
        pending("fits", minimum(3)),
        pending("over", minimum(3.5)),
    )
    vote = session.hooks.job_enqueueable["proportion"]
    assert vote(session.job("fits")) == PERMIT
    assert vote(session.job("over")) == REJECT


def test_a_dry_run_changes_copies_only() -> None:
    session = opened(*two_queues(), pod("big", "a", 2))
    red = session.queue("red")
    simulation = session.hooks.simulation["proportion"](session.task("big"), 0)
    assert not simulation.is_allocatable(red, session.task("big"))
    assert simulation.remove(session.task("a-0")) is None
    assert simulation.is_allocatable(red, session.task("big"))
    assert simulation.add(session.task("a-0")) is None
    assert not simulation.is_allocatable(red, session.task("big"))
    assert state(session, "red").allocated.milli_cpu == 4000


def test_scalars_are_shared_like_everything_else() -> None:
    gpu_node = offering(node("n1", 10, 100), **{GPU: 4000})
    wants = [asking(pod(f"{q}-p", q), (("cpu", 100), (GPU, 4000))) for q in ("a", "b")]
    session = Opened(
        gpu_node,
        queue("red", weight=3),
        queue("blue"),
        pod_group("a", queue_name="red"),
        pod_group("b", queue_name="blue"),
        *wants,
        plugins=["proportion"],
    )
    assert state(session, "red").deserved.get(GPU) == 3000
    assert state(session, "blue").deserved.get(GPU) == 1000
