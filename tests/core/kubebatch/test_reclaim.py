"""kube-batch's reclaim: one task a visit, evictions at once."""

from __future__ import annotations

from typing import Any

from pumice.core.deltas import ClusterObject
from pumice.core.engine import Engine
from tests.core import builders
from tests.core.kubebatch.older import cluster, engine, evictions

# In one tier: the first tier that names anyone decides.
TIERS = ("gang predicates proportion",)


def reclaiming(*objects: Any, tiers: tuple[str, ...] = TIERS) -> Engine:
    queues = [builders.queue("red"), builders.queue("blue")]
    return cluster(queues, *objects, of=engine("reclaim", tiers))


def red(name: str, size: int, cpu: float = 1, **fields: Any) -> list[ClusterObject]:
    return builders.job(name, size, cpu, minimum=1, queue_name="red", **fields)


def blue(name: str, size: int, cpu: float = 1, **fields: Any) -> list[ClusterObject]:
    return builders.job(name, size, cpu, minimum=1, queue_name="blue", **fields)


def test_a_queue_without_its_due_takes_from_one_with_more() -> None:
    known = reclaiming(builders.node("n1", 4, 4), red("a", 4, on="n1"), blue("b", 1))
    assert evictions(known.schedule(1)) == ["a-0"], "victims go in the order they are named"


def test_a_job_has_one_try_a_session_so_one_task_of_it_is_served() -> None:
    known = reclaiming(builders.node("n1", 4, 4), red("a", 4, on="n1"), blue("b", 2))
    assert len(evictions(known.schedule(1))) == 1


def test_a_queue_comes_again_after_success_for_its_next_job() -> None:
    known = reclaiming(builders.node("n1", 4, 4), red("a", 4, on="n1"), blue("b", 1), blue("c", 1))
    assert len(evictions(known.schedule(1))) == 2


def test_a_queue_does_not_come_again_after_failure() -> None:
    """The first job wants more than anyone could give; the second is not even tried."""
    known = reclaiming(
        builders.node("n1", 4, 4), red("a", 4, on="n1"), blue("b", 1, 9), blue("c", 1)
    )
    assert evictions(known.schedule(1)) == []


def test_no_victim_pushes_its_queue_below_what_it_deserves() -> None:
    """Each queue deserves two cores: of three one may go, and a task of two is never freed."""
    one = reclaiming(builders.node("n1", 4, 4), red("a", 3, on="n1"), blue("b", 4))
    assert len(evictions(one.schedule(1))) == 1
    large = reclaiming(builders.node("n1", 4, 4), red("a", 1, 3, on="n1"), blue("b", 4))
    assert evictions(large.schedule(1)) == []


def test_an_overused_queue_reclaims_nothing() -> None:
    known = reclaiming(
        builders.node("n1", 4, 4), red("a", 2, on="n1"), blue("b", 2, on="n1"), blue("c", 1)
    )
    assert evictions(known.schedule(1)) == []


def test_idle_room_does_not_count() -> None:
    known = reclaiming(builders.node("n1", 8, 8), red("a", 6, on="n1"), blue("b", 4, 2))
    assert len(evictions(known.schedule(1))) == 2


def test_proportion_has_no_say_where_gang_of_an_earlier_tier_names_victims() -> None:
    """As in the default tiers: the queue goes below what it deserves."""
    tiers = ("priority gang", "drf predicates proportion nodeorder")
    objects = [builders.node("n1", 4, 4), *red("a", 1, 3, on="n1"), *blue("b", 4)]
    assert evictions(reclaiming(*objects, tiers=tiers).schedule(1)) == ["a-0"]


def test_the_first_node_by_name_with_enough_victims_is_taken() -> None:
    nodes = [builders.node("n2", 2, 2), builders.node("n1", 2, 2)]
    known = reclaiming(nodes, red("x", 2, on="n1"), red("y", 2, on="n2"), blue("b", 1))
    assert evictions(known.schedule(1)) == ["x-0"]


def test_a_queue_that_is_not_reclaimable_to_volcano_is_reclaimed_from() -> None:
    known = reclaiming(builders.node("n1", 4, 4), red("a", 4, on="n1"), blue("b", 1))
    builders.fill(known, builders.queue("red", reclaimable=False))
    assert evictions(known.schedule(1)) == ["a-0"]
