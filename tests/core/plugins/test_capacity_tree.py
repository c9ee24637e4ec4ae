"""capacity with a tree of queues."""

from __future__ import annotations

import math

import pytest

from pumice.core.deltas import ClusterObject
from pumice.core.model.group import PodGroupPhase
from pumice.core.model.resources import Resources
from pumice.core.session.hooks import PERMIT, REJECT
from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import GPU, Opened, cores, minimum, offering
from tests.core.plugins.queues import (
    account,
    allocatable,
    capacity,
    holding,
    pending_group,
    with_cores,
)


def company() -> list[ClusterObject]:
    """The worked example: a hundred cores, two departments, one of them divided."""
    return [
        queue("root"),
        with_cores("eng", 60, capability=60, guarantee=10),
        with_cores("sales", 40),
        with_cores("train", 40, guarantee=10, parent="eng"),
        with_cores("infer", 20, parent="eng"),
        *holding("train", 10),
        *holding("infer", 15),
        *holding("sales", 20),
    ]


def order(session: Opened, left: str, right: str) -> int:
    return session.hooks.queue_order["capacity"](session.queue(left), session.queue(right))


@pytest.mark.parametrize(
    ("name", "real_capability"),
    [("root", math.inf), ("eng", 60), ("sales", math.inf), ("train", 60), ("infer", 50)],
)
def test_the_worked_example_ceilings(name: str, real_capability: float) -> None:
    session = capacity(*company(), tree=True)
    assert account(session, name).real_capability.milli_cpu == real_capability * 1000


def test_the_worked_example_root_sums_up_its_children() -> None:
    root = account(capacity(*company(), tree=True), "root")
    assert root.deserved.milli_cpu == 100_000
    assert root.guarantee.milli_cpu == 10_000
    assert root.allocated.milli_cpu == 45_000


def test_the_worked_example_shares_and_order() -> None:
    session = capacity(*company(), tree=True)
    shares = {n: account(session, n).share for n in ("train", "infer", "sales", "eng")}
    assert shares == {"train": 0.25, "infer": 0.75, "sales": 0.5, "eng": 25 / 60}
    assert order(session, "train", "infer") == -1
    # Departments are compared, not infer's own share.
    assert order(session, "infer", "sales") == -1


def test_the_worked_example_victims_come_from_the_own_department_first() -> None:
    session = capacity(*company(), tree=True)
    nearest = session.hooks.victim_queue_order["capacity"]
    train, sales, infer = (session.queue(n) for n in ("train", "sales", "infer"))
    assert nearest(train, sales, infer) == -1
    assert nearest(sales, train, infer) == 1
    # Nothing between them: the reverse of the queue order decides.
    assert nearest(train, infer, sales) == 0


def test_leaves_come_before_inner_queues_and_inner_queues_compare_their_shares() -> None:
    session = capacity(
        *company(),
        with_cores("ops", 90),
        with_cores("night", 5, parent="ops"),
        *holding("night", 1),
        tree=True,
    )
    assert order(session, "sales", "eng") == -1
    assert order(session, "eng", "sales") == 1
    assert order(session, "ops", "eng") == -1


def test_priority_is_that_of_the_queues_themselves() -> None:
    session = capacity(
        queue("root"),
        with_cores("a", 10, priority=9),
        with_cores("a1", 10, parent="a"),
        with_cores("b1", 10, priority=1),
        *holding("a1", 1),
        *holding("b1", 9),
        tree=True,
    )
    assert order(session, "b1", "a1") < 0


# Sums and inheritance.


def test_leaf_sums_are_added_to_every_ancestor() -> None:
    admitted = pod_group("in", 1, queue_name="leaf", min_resources=minimum(4))
    session = capacity(
        queue("root"),
        queue("mid"),
        queue("leaf", parent="mid"),
        *holding("leaf", 3),
        admitted,
        pod("in-0", "in", 4, 0),
        tree=True,
    )
    for name in ("leaf", "mid", "root"):
        held = account(session, name)
        assert held.allocated.milli_cpu == 3000
        assert held.request.milli_cpu == 7000
        assert held.inqueue.milli_cpu == 4000
        assert held.elastic.milli_cpu == 3000


def test_what_a_capability_does_not_name_is_inherited() -> None:
    session = capacity(
        queue("root", capability=(("cpu", 50_000), ("memory", 1000), (GPU, 8000))),
        queue("mid", capability=(("memory", 500),)),
        queue("leaf", parent="mid", capability=((GPU, 2000),)),
        tree=True,
    )
    assert account(session, "leaf").real_capability == Resources(50_000, 500, {GPU: 2000})


def test_a_root_with_one_limit_has_nothing_of_the_rest() -> None:
    session = capacity(queue("root", capability=cores(50)), queue("leaf"), tree=True)
    assert account(session, "leaf").real_capability == Resources(50_000, 0)


def test_a_root_without_limits_has_none_for_every_resource_that_nodes_list() -> None:
    listed = offering(node("n2"), **{GPU: 0})
    session = capacity(
        listed, queue("root"), queue("leaf"), pending_group("j", "leaf", ((GPU, 5),)), tree=True
    )
    assert account(session, "leaf").real_capability.get(GPU) == math.inf
    assert session.hooks.job_enqueueable["capacity"](session.job("j")) == PERMIT
    unlisted = capacity(
        queue("root"), queue("leaf"), pending_group("j", "leaf", ((GPU, 5),)), tree=True
    )
    assert unlisted.hooks.job_enqueueable["capacity"](unlisted.job("j")) == REJECT


def test_deserved_is_raised_to_the_guarantee_and_not_clipped_by_the_capability() -> None:
    session = capacity(
        queue("root"),
        with_cores("low", 5, guarantee=10),
        with_cores("high", 50, capability=20),
        tree=True,
    )
    assert account(session, "low").deserved.milli_cpu == 10_000
    assert account(session, "high").deserved.milli_cpu == 50_000


def test_guarantees_of_inner_queues_are_not_added_up() -> None:
    session = capacity(
        queue("root"), queue("mid"), with_cores("leaf", guarantee=10, parent="mid"), tree=True
    )
    assert account(session, "mid").guarantee.milli_cpu == 0
    assert account(session, "root").guarantee.milli_cpu == 0


# Trees that cannot be used.

_BROKEN: dict[str, list[ClusterObject]] = {
    "a parent that does not exist": [queue("root"), queue("odd", parent="nobody")],
    "no root": [],
    "a job in a queue with queues below it": [
        queue("root"),
        queue("mid"),
        queue("below", parent="mid"),
        pod_group("misplaced", queue_name="mid"),
    ],
    "a job in the root": [queue("root"), pod_group("misplaced", queue_name="root")],
}


@pytest.mark.parametrize("broken", list(_BROKEN.values()), ids=list(_BROKEN))
def test_one_bad_queue_or_misplaced_job_stops_every_queue(broken: list[ClusterObject]) -> None:
    session = capacity(
        with_cores("fine", 50),
        *holding("fine", 1),
        pod("p", "fine", 1, 0),
        pending_group("j", "fine", None),
        *broken,
        tree=True,
    )
    hooks, fine, task = session.hooks, session.queue("fine"), session.task("p")
    assert hooks.queue_order == {}
    assert hooks.victim_queue_order == {}
    assert not hooks.allocatable["capacity"](fine, task)
    assert not hooks.preemptive["capacity"](fine, [task])
    assert not hooks.simulation["capacity"](task, 0).is_allocatable(fine, task)
    assert hooks.job_enqueueable["capacity"](session.job("j")) == REJECT
    assert hooks.reclaimable["capacity"](task, session.tasks("fine-0")) == ([], REJECT)
    gang = hooks.unified_evictable["capacity"]
    assert gang("gangreclaim", session.job("fine"), session.tasks("fine-0")) == ([], REJECT)
    # Placements of others must not trip over it.
    session.session.statement().allocate(task, "n1")


def test_queues_in_a_circle_get_nothing_and_harm_nobody_else() -> None:
    circle = [queue("x", parent="y"), queue("y", parent="x"), queue("self", parent="self")]
    session = capacity(
        queue("root"),
        with_cores("fine", 50),
        *holding("fine", 1),
        pod("p", "fine", 1, 0),
        *circle,
        queue("below", parent="x"),
        pending_group("j", "below", minimum(1)),
        tree=True,
    )
    assert allocatable(session, "fine", "p")
    assert session.hooks.job_enqueueable["capacity"](session.job("j")) == REJECT


def test_a_job_in_a_circle_stops_every_queue() -> None:
    session = capacity(
        queue("root"),
        queue("x", parent="y"),
        queue("y", parent="x"),
        pending_group("j", "x", None),
        tree=True,
    )
    assert session.hooks.queue_order == {}


# Capabilities of ancestors.


def test_every_queue_above_must_have_room() -> None:
    session = capacity(
        queue("root"),
        with_cores("mid", capability=10),
        queue("one", parent="mid"),
        queue("two", parent="mid"),
        *holding("one", 6),
        *holding("two", 1),
        pod("fits", "two", 3, 0),
        pod("over", "two", 3.001, 0),
        pending_group("j3", "two", minimum(9)),
        pending_group("j11", "two", minimum(10.001)),
        tree=True,
    )
    assert allocatable(session, "two", "fits")
    assert not allocatable(session, "two", "over")
    vote = session.hooks.job_enqueueable["capacity"]
    assert vote(session.job("j3")) == PERMIT
    assert vote(session.job("j11")) == REJECT


def test_promises_count_all_the_way_up() -> None:
    session = capacity(
        queue("root"),
        with_cores("mid", capability=10),
        queue("one", parent="mid"),
        queue("two", parent="mid"),
        pending_group("a", "one", minimum(6)),
        pending_group("b", "two", minimum(6)),
        tree=True,
    )
    vote = session.hooks.job_enqueueable["capacity"]
    assert vote(session.job("b")) == PERMIT
    session.hooks.job_enqueued["capacity"](session.job("a"))
    assert vote(session.job("b")) == REJECT


def test_shares_of_inner_queues_stay_what_they_were_at_the_opening() -> None:
    session = capacity(*company(), pod("more", "train", 30, 0), tree=True)
    session.session.statement().allocate(session.task("more"), "n1")
    assert account(session, "train").share == 1.0
    assert account(session, "eng").allocated.milli_cpu == 55_000
    assert account(session, "eng").share == 25 / 60
    # So the order between departments does not react.
    assert order(session, "infer", "sales") == -1


def test_a_dry_run_counts_all_the_way_up_on_copies() -> None:
    session = capacity(*company(), pod("p", "infer", 40, 0), tree=True)
    infer, task = session.queue("infer"), session.task("p")
    simulation = session.hooks.simulation["capacity"](task, 0)
    assert not simulation.is_allocatable(infer, task)
    simulation.remove(session.task("train-0"))
    assert not simulation.is_allocatable(infer, task)
    simulation.remove(session.task("infer-0"))
    assert simulation.is_allocatable(infer, task)
    assert account(session, "eng").allocated.milli_cpu == 25_000


def test_jobs_wait_in_a_tree_that_cannot_be_used() -> None:
    session = capacity(queue("default"), pending_group("j", "default", minimum(1)), tree=True)
    session.engine.schedule(0)
    assert session.engine.cache.jobs["ns/j"].phase is PodGroupPhase.PENDING
