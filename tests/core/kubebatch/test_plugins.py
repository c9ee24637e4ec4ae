"""kube-batch's gang, priority, drf and proportion, where they differ from Volcano's."""

from __future__ import annotations

import dataclasses

import pytest

from pumice.core.engine import Engine
from pumice.core.kubebatch.plugins.proportion import share
from pumice.core.kubebatch.session import KubeBatchSession
from pumice.core.model.group import PodGroup
from pumice.core.model.pod import PodPhase
from pumice.core.model.resources import Resources
from tests.core import builders
from tests.core.kubebatch.older import cluster, engine, job_of, names, opened, task

GIB = builders.GIB


# gang.


def _victims(known: Engine, *candidates: str, point: str = "preemptable") -> list[str]:
    session = opened(known)
    asked = [task(known, name) for name in candidates]
    function = getattr(session.hooks, point)["gang"]
    victims, _ = function(asked[0], asked)
    return names(victims)


def _running(size: int, minimum: int) -> Engine:
    return cluster(
        builders.node("n1", 8),
        builders.job("g", size, minimum=minimum, on="n1"),
        of=engine(tiers=("gang",)),
    )


def test_of_three_candidates_of_a_gang_with_one_to_spare_all_three_are_victims() -> None:
    """minMember 3, 4 running: Volcano names one."""
    assert _victims(_running(4, 3), "g-0", "g-1", "g-2") == ["g-0", "g-1", "g-2"]


@pytest.mark.parametrize(
    ("size", "minimum", "spared"), [(3, 3, 0), (4, 3, 4), (1, 1, 1), (2, 2, 0), (2, 0, 2)]
)
def test_a_task_is_a_victim_if_its_job_is_above_the_minimum_or_the_minimum_is_one(
    size: int, minimum: int, spared: int
) -> None:
    candidates = [f"g-{i}" for i in range(size)]
    known = _running(size, minimum)
    assert len(_victims(known, *candidates)) == spared
    assert len(_victims(known, *candidates, point="reclaimable")) == spared


def test_ready_counts_tasks_with_a_node_and_done_ones() -> None:
    states = [PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.UNKNOWN]
    pods = [
        dataclasses.replace(builders.pod(f"g-{i}", "g", on="n1"), phase=phase)
        for i, phase in enumerate(states)
    ]
    known = cluster(builders.node("n1", 8), builders.pod_group("g", 2), pods)
    assert job_of(known, "ns/g").is_ready
    more = cluster(builders.node("n1", 8), builders.pod_group("g", 3), pods)
    assert not job_of(more, "ns/g").is_ready


def test_minima_of_roles_mean_nothing() -> None:
    group = builders.pod_group("g", 1, min_task_member=(("ps", 3),))
    known = cluster(builders.node("n1"), group, builders.pod("g-0", "g", on="n1"))
    session = opened(known)
    assert session.votes.is_ready(job_of(known, "ns/g"))


def test_jobs_that_are_not_ready_come_first() -> None:
    known = cluster(
        builders.node("n1"),
        builders.job("a", 1, on="n1"),
        builders.job("b", 1),
        of=engine(tiers=("gang",)),
    )
    session = opened(known)
    assert session.orders.job_first(job_of(known, "ns/b"), job_of(known, "ns/a"))


def test_pipelined_is_a_plain_conjunction() -> None:
    known = cluster(builders.job("g", 1), of=engine(tiers=("gang",)))
    session = opened(known)
    assert not session.votes.is_pipelined(job_of(known, "ns/g"))
    without = opened(cluster(builders.job("g", 1), of=engine(tiers=("drf",))))
    assert without.votes.is_pipelined(without.jobs["ns/g"]), "nobody says no"


# priority.


def _with_priority(group: PodGroup, name: str) -> PodGroup:
    return dataclasses.replace(group, priority_class_name=name)


def test_only_jobs_are_compared_for_victims_never_tasks_of_one_job() -> None:
    pods = [
        dataclasses.replace(builders.pod("a-0", "a"), task_priority=9),
        builders.pod("a-1", "a", on="n1"),
        builders.pod("b-0", "b", on="n1"),
        builders.pod("c-0", "c", on="n1"),
    ]
    known = cluster(
        builders.priority_class("high", 5),
        builders.node("n1"),
        _with_priority(builders.pod_group("a"), "high"),
        builders.pod_group("b"),
        _with_priority(builders.pod_group("c"), "high"),
        pods,
        of=engine(tiers=("priority",)),
    )
    session = opened(known)
    asked = [task(known, name) for name in ("a-1", "b-0", "c-0")]
    victims, _ = session.hooks.preemptable["priority"](task(known, "a-0"), asked)
    assert names(victims) == ["b-0"]


def test_tasks_and_jobs_are_ordered_by_priority() -> None:
    known = cluster(
        builders.priority_class("high", 5),
        builders.pod_group("a"),
        _with_priority(builders.pod_group("b"), "high"),
        dataclasses.replace(builders.pod("b-0", "b"), task_priority=1),
        dataclasses.replace(builders.pod("b-1", "b"), task_priority=2),
    )
    session = opened(known)
    assert session.orders.job_first(job_of(known, "ns/b"), job_of(known, "ns/a"))
    assert names(session.orders.tasks(job_of(known, "ns/b").index)) == ["b-1", "b-0"]


# drf.


def test_the_share_is_the_largest_part_and_all_of_nothing_is_one() -> None:
    whole = Resources(10_000, 10 * GIB)
    assert share(Resources(2_000, 5 * GIB), whole) == 0.5
    assert share(Resources(0, 1), Resources(10, 0)) == 1.0
    assert share(Resources(5, 0), Resources(10, 0)) == 0.5
    assert share(Resources(0, 0, {"x/y": 9}), whole) == 0.0, "what nobody has does not count"


def test_places_among_pods_make_no_share() -> None:
    """One of two places, and a tenth of the cpu."""
    known = cluster(
        builders.node("n1", 10, 100, pods=2),
        builders.job("a", 1, on="n1"),
        of=engine(tiers=("drf",)),
    )
    session = opened(known)
    assert share(session.totals.allocated_of("ns/a"), session.total) == 0.1


def test_drf_victims_leave_their_job_no_worse_off_than_the_preemptors() -> None:
    known = cluster(
        builders.node("n1", 8, 80),
        builders.job("a", 4, on="n1"),
        builders.job("b", 1),
        of=engine(tiers=("drf",)),
    )
    session = opened(known)
    asked = [task(known, f"a-{i}") for i in range(4)]
    victims, _ = session.hooks.preemptable["drf"](task(known, "b-0"), asked)
    assert names(victims) == ["a-0", "a-1", "a-2"], "4 - 3 = 1 core is just as much"


# proportion.


def _divided(*queues: tuple[int, float, float], cpu: float, memory: float) -> KubeBatchSession:
    """Queues by weight and what they ask for."""
    objects: list[object] = [builders.node("n1", cpu, memory)]
    for number, (weight, asked_cpu, asked_memory) in enumerate(queues):
        name = f"q{number}"
        objects += [
            builders.queue(name, weight=weight),
            builders.pod_group(name, queue_name=name),
            builders.pod(name, name, asked_cpu, asked_memory),
        ]
    return opened(cluster(*objects, of=engine(tiers=("proportion",))))  # type: ignore[arg-type]


def _deserved(session: KubeBatchSession, queue: str) -> tuple[float, float]:
    deserved = session.accounts[queue].deserved
    return deserved.milli_cpu / 1000, deserved.memory / GIB


def test_a_queue_that_asks_for_less_of_only_one_thing_is_not_cut_down() -> None:
    """10 cpu and 10 GiB, one queue that wants 4 cpu and 20 GiB: Volcano gives it 4 cpu."""
    session = _divided((1, 4, 20), cpu=10, memory=10)
    assert _deserved(session, "q0") == (10, 10)
    assert not session.votes.is_overused(session.queues["q0"])


def test_a_queue_that_asks_for_less_of_everything_leaves_the_rest_to_the_others() -> None:
    session = _divided((1, 2, 2), (1, 9, 9), cpu=10, memory=10)
    assert _deserved(session, "q0") == (2, 2)
    assert _deserved(session, "q1") == (8, 8)


def test_what_is_left_is_divided_by_weight() -> None:
    session = _divided((1, 99, 99), (3, 99, 99), cpu=8, memory=8)
    assert _deserved(session, "q0") == (2, 2)
    assert _deserved(session, "q1") == (6, 6)


def test_capability_guarantee_priority_and_state_of_a_queue_mean_nothing() -> None:
    known = cluster(
        builders.node("n1", 4, 4),
        builders.queue("q", priority=9, capability=(("cpu", 1),), guarantee=(("cpu", 4000),)),
        builders.pod_group("a", queue_name="q"),
        builders.pod("a-0", "a", 9, 9),
        builders.pod_group("b"),
        builders.pod("b-0", "b", 9, 9),
        of=engine(tiers=("proportion",)),
    )
    session = opened(known)
    assert _deserved(session, "q") == (2, 2)
    assert session.orders.queue_first(session.queues["default"], session.queues["q"])


def test_overused_has_the_tolerance() -> None:
    known = cluster(
        builders.queue("q"),
        builders.node("n1", 4, 4),
        builders.pod_group("a"),
        builders.pod("a-0", "a", 1.991, 2, on="n1"),
        builders.pod("a-1", "a", 4, 4),
        builders.pod_group("b", queue_name="q"),
        builders.pod("b-0", "b", 4, 4),
        of=engine(tiers=("proportion",)),
    )
    session = opened(known)
    assert session.votes.is_overused(session.queues["default"])
    assert not session.votes.is_overused(session.queues["q"])


def test_a_victim_leaves_its_queue_all_that_it_deserves() -> None:
    """Of three cores, where two are deserved, one may go; the next would not leave two."""
    known = cluster(
        builders.queue("q"),
        builders.node("n1", 4, 4),
        builders.job("a", 3, on="n1"),
        builders.job("b", 4, queue_name="q"),
        of=engine(tiers=("proportion",)),
    )
    session = opened(known)
    asked = [task(known, f"a-{i}") for i in range(3)]
    victims, _ = session.hooks.reclaimable["proportion"](task(known, "b-0"), asked)
    assert names(victims) == ["a-0"]


def test_there_are_no_points_that_kube_batch_did_not_have() -> None:
    session = opened(cluster(builders.node("n1")))
    for point in ("job_enqueueable", "job_starving", "allocatable", "preemptive", "simulation"):
        assert getattr(session.hooks, point) == {}
