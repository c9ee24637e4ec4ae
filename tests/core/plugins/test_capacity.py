"""capacity with queues side by side: deserved, guarantee and capability."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.core.configuration import read_configuration
from pumice.core.errors import ConfigurationError
from pumice.core.model.group import PodGroupPhase, QueueState
from pumice.core.registry import Registry
from pumice.core.session.hooks import PERMIT, REJECT
from tests.core.builders import pod, pod_group, queue
from tests.core.plugins.opened import GPU, Opened, minimum
from tests.core.plugins.queues import (
    account,
    allocatable,
    capacity,
    holding,
    pending_group,
    with_cores,
)

# What queues may have.


@pytest.mark.parametrize(
    ("fields", "real_capability", "deserved"),
    [
        ({}, 90, 0),
        ({"deserved": 20}, 90, 20),
        # Not more than it may have.
        ({"deserved": 95}, 90, 90),
        ({"deserved": 50, "capability": 30}, 30, 30),
        # Not less than it is guaranteed; its own guarantee is its own to use.
        ({"deserved": 5, "guarantee": 15}, 90, 15),
        ({"guarantee": 15, "capability": 10}, 10, 15),
        # A capability of nothing is no limit.
        ({"deserved": 5, "capability": 0}, 90, 5),
    ],
)
def test_ceiling_and_deserved(
    fields: dict[str, Any], real_capability: float, deserved: float
) -> None:
    session = capacity(
        with_cores("mine", **fields), with_cores("idle", guarantee=10), *holding("mine", 1)
    )
    mine = account(session, "mine")
    assert mine.real_capability.milli_cpu == real_capability * 1000
    assert mine.deserved.milli_cpu == deserved * 1000


def test_only_queues_with_jobs_have_an_account() -> None:
    session = capacity(queue("red"), queue("blue"), *holding("red", 1))
    account(session, "red")
    with pytest.raises(KeyError):
        account(session, "blue")


def test_the_parent_of_a_queue_does_not_matter() -> None:
    session = capacity(queue("red", parent="nobody"), *holding("red", 1))
    assert account(session, "red").lineage == (account(session, "red"),)


def test_sums_at_the_opening() -> None:
    running = pod_group(
        "run", 1, queue_name="red", phase=PodGroupPhase.RUNNING, min_resources=minimum(5)
    )
    low = pod_group(
        "low", 2, queue_name="red", phase=PodGroupPhase.RUNNING, min_resources=minimum(9)
    )
    session = capacity(
        queue("red"),
        *holding("red", 3),  # no minimum: all of it could be taken back
        running,
        pod("run-0", "run", 2, 0, on="n1"),
        low,
        pod("low-0", "low", 1, 0, on="n1"),
        pod_group("in", 1, queue_name="red", min_resources=minimum(4)),
        pod("in-0", "in", 4, 0),
        pending_group("out", "red", minimum(50)),
    )
    red = account(session, "red")
    assert red.allocated.milli_cpu == 6000
    assert red.request.milli_cpu == 10_000
    # 5 - 2 of the running job, 4 of the admitted one; the job below its minimum keeps nothing.
    assert red.inqueue.milli_cpu == 7000
    assert red.elastic.milli_cpu == 3000


# Shares and order.


def test_shares() -> None:
    session = capacity(
        with_cores("quarter", 40),
        with_cores("over", 10),
        queue("none"),
        *holding("quarter", 10),
        *holding("over", 25),
        *holding("none", 1),
    )
    assert account(session, "quarter").share == 0.25
    assert account(session, "over").share == 2.5
    # Without deserved: after all that have less than theirs, however little it holds.
    assert account(session, "none").share == 1.0


def test_places_among_pods_count_only_where_they_are_deserved() -> None:
    session = capacity(
        with_cores("plain", 10),
        queue("counted", deserved=(("cpu", 10_000), ("pods", 2))),
        *holding("plain", 1),
        *holding("counted", 1),
    )
    assert account(session, "plain").share == 0.1
    assert account(session, "counted").share == 0.5


def order(session: Opened, left: str, right: str) -> int:
    return session.hooks.queue_order["capacity"](session.queue(left), session.queue(right))


def test_order_is_by_priority_then_share_then_whether_something_is_deserved() -> None:
    session = capacity(
        with_cores("high", 1, priority=5),
        with_cores("low", 10, priority=3),
        with_cores("half", 20),
        with_cores("full", 10),
        queue("none"),
        *holding("high", 9),
        *holding("low", 1),
        *holding("half", 10),
        *holding("full", 10),
        *holding("none", 1),
    )
    assert order(session, "high", "low") == -2
    assert order(session, "low", "half") < 0
    assert order(session, "half", "full") == -1
    assert order(session, "full", "half") == 1
    # Equal shares of one.
    assert order(session, "full", "none") == -1
    assert order(session, "none", "full") == 1
    assert order(session, "none", "none") == 0


def test_shares_follow_placements_and_their_undoing() -> None:
    session = capacity(with_cores("red", 10), *holding("red", 5), pod("p", "red", 5, 0))
    statement = session.session.statement()
    statement.pipeline(session.task("p"), "n1", eviction_occurred=False)
    assert account(session, "red").share == 1.0
    statement.discard()
    statement.evict(session.task("red-0"), "test")
    assert account(session, "red").share == 0.0
    statement.discard()
    assert account(session, "red").share == 0.5


def test_side_by_side_there_is_no_order_of_victim_queues_and_no_overuse() -> None:
    session = capacity(queue("red"), *holding("red", 1))
    assert session.hooks.victim_queue_order == {}
    assert session.hooks.overused == {}


# Admission and allocation.


def test_tasks_are_allowed_up_to_the_ceiling_also_above_deserved() -> None:
    session = capacity(
        with_cores("red", 1, capability=8),
        *holding("red", 5),
        pod("fits", "red", 3, 0),
        pod("over", "red", 3.001, 0),
        pod("free", "red", 0, 1),
    )
    assert allocatable(session, "red", "fits")
    assert not allocatable(session, "red", "over")
    assert allocatable(session, "red", "free")


def test_only_what_is_asked_for_is_compared() -> None:
    session = capacity(
        with_cores("red", capability=4), *holding("red", 5), pod("memory", "red", 0, 1)
    )
    assert allocatable(session, "red", "memory")


@pytest.mark.parametrize("closed", [QueueState.CLOSED, QueueState.CLOSING, QueueState.NONE])
def test_a_queue_that_is_not_open_gets_nothing(closed: QueueState) -> None:
    session = capacity(
        with_cores("red", 50, state=closed),
        *holding("red", 1),
        pod("p", "red", 1, 0),
        pending_group("j", "red", None),
    )
    hooks, red, task = session.hooks, session.queue("red"), session.task("p")
    assert not hooks.allocatable["capacity"](red, task)
    assert not hooks.preemptive["capacity"](red, [task])
    assert hooks.job_enqueueable["capacity"](session.job("j")) == REJECT
    # A dry run does not ask again.
    assert hooks.simulation["capacity"](task, 0).is_allocatable(red, task)


def test_jobs_are_let_in_up_to_the_ceiling() -> None:
    session = capacity(
        with_cores("red", capability=10),
        *holding("red", 4),
        pending_group("fits", "red", minimum(10)),
        pending_group("over", "red", minimum(10.001)),
        pending_group("free", "red", None),
    )
    vote = session.hooks.job_enqueueable["capacity"]
    assert vote(session.job("fits")) == PERMIT
    assert vote(session.job("free")) == PERMIT
    assert vote(session.job("over")) == REJECT
    (event,) = session.session.events
    assert event.message == "queue resource quota insufficient: insufficient cpu"
    assert (event.reason, event.warning) == ("Unschedulable", False)


def test_what_was_let_in_counts_without_gated_pods() -> None:
    gated = {"scheduling_gates": ("example.com/wait",)}
    session = capacity(
        with_cores("red", capability=10),
        pending_group("one", "red", minimum(6)),
        pod("one-0", "one", 2, 0, spec=gated),
        pending_group("two", "red", minimum(6)),
        pending_group("three", "red", minimum(6.5)),
    )
    vote = session.hooks.job_enqueueable["capacity"]
    session.hooks.job_enqueued["capacity"](session.job("one"))
    assert vote(session.job("two")) == PERMIT
    assert vote(session.job("three")) == REJECT


def test_a_scalar_that_exists_nowhere_counts_as_zero() -> None:
    session = capacity(queue("red"), pending_group("j", "red", ((GPU, 1000),)))
    assert session.hooks.job_enqueueable["capacity"](session.job("j")) == REJECT


# Arguments.


def read(**arguments: object) -> None:
    entry = {"name": "capacity", "arguments": arguments}
    data = {"actions": "allocate", "tiers": [{"plugins": [entry]}]}
    read_configuration(data, Registry().catalog())


def test_arguments_are_typed() -> None:
    read(ancestorReclaimLevel=2)
    read(**{"capacity.DynamicResourceAllocationEnable": "true"})
    with pytest.raises(ConfigurationError, match="ancestorReclaimLevel"):
        read(ancestorReclaimLevel=-1)
    with pytest.raises(ConfigurationError, match="did you mean"):
        read(ancestorReclaimLevels=1)


def test_people_are_shown_what_queues_deserve_and_hold() -> None:
    session = capacity(with_cores("mine", deserved=20), *holding("mine", 1))
    shown = session.session.accounts["mine"]
    assert (shown.deserved.milli_cpu, shown.allocated.milli_cpu) == (20_000, 1000)
