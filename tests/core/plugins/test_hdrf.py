"""drf with hierarchy: queues are compared by their places in a tree."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pumice.core.deltas import ClusterObject
from pumice.core.model.group import Queue
from pumice.core.model.resources import Resources
from pumice.core.plugins.drf.hierarchy import ShareTree, path_of, weights_of
from tests.core.builders import GIB, node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, names, options


def placed(name: str, path: str, weights: str = "1/1/1/1") -> Queue:
    annotations = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
    return queue(name, annotations=annotations)


def opened(*objects: ClusterObject, cpu: float = 10, memory_gib: float = 10) -> Opened:
    plugins = [options("drf", "enableHierarchy")]
    return Opened(node("n1", cpu, memory_gib, pods=10_000), *objects, plugins=plugins)


def order(session: Opened, left: str, right: str) -> int:
    return session.hooks.queue_order["drf"](session.queue(left), session.queue(right))


@pytest.mark.parametrize(
    ("weights", "read"),
    [
        ("1/2/4", [1, 2, 4]),
        ("1/2.5/0.3", [1, 2.5, 1]),
        ("1/x/-4", [1, 1, 1]),
        ("1", [1, 1, 1]),
        ("", [1, 1, 1]),
        ("1/1_0/ 2", [1, 1, 1]),
    ],
)
def test_weights_that_are_missing_unreadable_or_below_one_are_one(
    weights: str, read: list[float]
) -> None:
    assert weights_of(placed("q", "root/sci/dev", weights)) == read


def test_the_path_names_the_root_first() -> None:
    assert path_of(placed("q", "root/sci/dev")) == ["root", "sci", "dev"]
    assert path_of(queue("q")) == [""]


def test_the_smaller_share_for_its_weight_comes_first() -> None:
    session = opened(
        placed("red", "root/red", "1/2"),
        placed("blue", "root/blue", "1/1"),
        pod_group("a", queue_name="red"),
        pod_group("b", queue_name="blue"),
        pod("a-0", "a", 3, 0, on="n1"),
        pod("a-1", "a", 3, 0),
        pod("b-0", "b", 2, 0, on="n1"),
        pod("b-1", "b", 2, 0),
    )
    # 0.3 / 2 is less than 0.2 / 1.
    assert order(session, "red", "blue") == -1
    assert order(session, "blue", "red") == 1


def test_the_first_job_under_a_name_fixes_its_weight() -> None:
    session = opened(
        placed("first", "root/x", "1/4"),
        placed("second", "root/x", "1/1"),
        placed("other", "root/y", "1/1"),
        pod_group("a", queue_name="first"),
        pod_group("b", queue_name="second"),
        pod_group("c", queue_name="other"),
        pod("b-0", "b", 3, 0, on="n1"),
        pod("b-1", "b", 3, 0),
        pod("c-0", "c", 2, 0, on="n1"),
        pod("c-1", "c", 2, 0),
    )
    assert order(session, "second", "other") == -1


def test_an_unsaturated_queue_comes_before_a_saturated_one() -> None:
    session = opened(
        placed("full", "root/full"),
        placed("hungry", "root/hungry"),
        pod_group("a", queue_name="full"),
        pod_group("b", queue_name="hungry"),
        pod("a-0", "a", 1, 0, on="n1"),
        pod("b-0", "b", 5, 0, on="n1"),
        pod("b-1", "b", 5, 0),
    )
    # The job of the one has all it asks for, so the larger share comes first.
    assert order(session, "hungry", "full") == -1


def test_a_job_is_saturated_when_what_it_wants_is_used_up() -> None:
    session = opened(
        placed("cpu", "root/cpu"),
        placed("memory", "root/memory"),
        pod_group("a", queue_name="cpu"),
        pod_group("b", queue_name="memory"),
        pod("a-0", "a", 10, 0, on="n1"),
        pod("a-1", "a", 1, 0),
        pod("b-0", "b", 0, 9, on="n1"),
        pod("b-1", "b", 0, 9),
    )
    assert order(session, "memory", "cpu") == -1


def test_queues_without_a_place_are_equal_to_all() -> None:
    session = opened(
        queue("plain"),
        placed("red", "root/red"),
        pod_group("a", queue_name="plain"),
        pod_group("b", queue_name="red"),
        pod("b-0", "b", 5, 0, on="n1"),
    )
    assert order(session, "plain", "red") == 0
    assert order(session, "red", "plain") == 0


def test_equal_queues_are_compared_one_level_further_down() -> None:
    session = opened(
        placed("dev", "root/sci/dev"),
        placed("test", "root/sci/test"),
        pod_group("a", queue_name="dev"),
        pod_group("b", queue_name="test"),
        pod("a-0", "a", 2, 0, on="n1"),
        pod("a-1", "a", 2, 0),
        pod("b-0", "b", 1, 0, on="n1"),
        pod("b-1", "b", 1, 0),
    )
    assert order(session, "test", "dev") == -1


def test_a_queue_and_the_one_below_it_are_compared_to_the_shorter_path() -> None:
    session = opened(
        placed("sci", "root/sci"),
        placed("dev", "root/sci/dev"),
        pod_group("a", queue_name="sci"),
        pod_group("b", queue_name="dev"),
        pod("a-0", "a", 2, 0, on="n1"),
    )
    assert order(session, "sci", "dev") == 0


def share_of(tree: ShareTree, *path: str) -> float:
    node_ = tree._root
    for name in path:
        child = node_.children[name]
        node_ = child  # type: ignore[assignment]
    return node_.share


def test_children_count_as_if_all_had_the_smallest_share_among_the_unsaturated() -> None:
    """The blocking example: memory-bound and cpu-bound jobs under one node."""
    total = Resources(10_000, 10 * GIB)
    tree = ShareTree(total)
    place = placed("q", "root/x")
    greedy = Resources(20_000, 20 * GIB)
    tree.add_job("ns/a", place, Resources(6_000, 0), greedy)
    tree.add_job("ns/b", place, Resources(0, 2 * GIB), greedy)
    assert tree.compare(place, place) == 0
    # Scaled to 0.2 each, in different resources.
    assert share_of(tree, "x", "ns/a") == 0.6
    assert share_of(tree, "x", "ns/b") == 0.2
    assert share_of(tree, "x") == pytest.approx(0.2)


def test_saturated_children_are_not_scaled() -> None:
    total = Resources(10_000, 10 * GIB)
    tree = ShareTree(total)
    place = placed("q", "root/x")
    tree.add_job("ns/a", place, Resources(6_000, 0), Resources(6_000, 0))
    tree.add_job("ns/b", place, Resources(1_000, 0), Resources(9_000, 0))
    assert tree.compare(place, place) == 0
    assert share_of(tree, "x") == float(Fraction(7, 10))


def test_placements_and_their_undoing_move_the_order() -> None:
    session = opened(
        placed("red", "root/red"),
        placed("blue", "root/blue"),
        pod_group("a", queue_name="red"),
        pod_group("b", queue_name="blue"),
        *(pod(f"a-{i}", "a", 1, 0) for i in range(3)),
        *(pod(f"b-{i}", "b", 1, 0) for i in range(3)),
    )
    assert order(session, "red", "blue") == 0
    statement = session.session.statement()
    statement.allocate(session.task("a-0"), "n1")
    assert order(session, "red", "blue") == 1
    statement.allocate(session.task("b-0"), "n1")
    assert order(session, "red", "blue") == 0
    statement.discard()
    assert order(session, "red", "blue") == 0


def reclaim_cluster(**held: float) -> Opened:
    return opened(
        placed("red", "root/red"),
        placed("blue", "root/blue"),
        pod_group("a", queue_name="red"),
        pod_group("b", queue_name="blue"),
        pod("a-0", "a", held.get("a", 1), 0, on="n1"),
        pod("a-1", "a", 1, 0),
        pod("a-2", "a", 1, 0),
        pod("b-0", "b", held.get("b0", 3), 0, on="n1"),
        pod("b-1", "b", held.get("b1", 3), 0, on="n1"),
        pod("b-2", "b", 3, 0),
    )


def test_victims_are_those_without_whom_their_queue_still_comes_later() -> None:
    session = reclaim_cluster()
    reclaim = session.hooks.reclaimable["drf"]
    # A would have 2; B without either has 3. Both are named: each is judged alone.
    tasks, vote = reclaim(session.task("a-1"), session.tasks("b-0", "b-1"))
    assert (names(tasks), vote) == (["b-0", "b-1"], 1)


def test_a_victim_must_leave_its_queue_strictly_later() -> None:
    session = reclaim_cluster(b0=2, b1=3)
    tasks, _ = session.hooks.reclaimable["drf"](session.task("a-1"), session.tasks("b-1", "b-0"))
    # Without b-1 both would have 2; without b-0, B keeps 3.
    assert names(tasks) == ["b-0"]


def test_a_job_that_would_have_all_it_asks_for_takes_nothing() -> None:
    """It would be saturated, and so come last."""
    session = opened(
        placed("red", "root/red"),
        placed("blue", "root/blue"),
        pod_group("a", queue_name="red"),
        pod_group("b", queue_name="blue"),
        pod("a-0", "a", 1, 0),
        pod("b-0", "b", 5, 0, on="n1"),
        pod("b-1", "b", 3, 0, on="n1"),
        pod("b-2", "b", 3, 0),
    )
    assert session.hooks.reclaimable["drf"](session.task("a-0"), session.tasks("b-1"))[0] == []


def test_reclaiming_leaves_no_trace_in_the_tree() -> None:
    session = reclaim_cluster()
    before = order(session, "red", "blue")
    reclaim = session.hooks.reclaimable["drf"]
    first = names(reclaim(session.task("a-1"), session.tasks("b-0", "b-1"))[0])
    assert names(reclaim(session.task("a-1"), session.tasks("b-0", "b-1"))[0]) == first
    assert order(session, "red", "blue") == before


def test_an_unknown_reclaimer_gets_nobody() -> None:
    session = opened(placed("red", "root/red"), pod_group("a", queue_name="red"), pod("x", "gone"))
    assert session.hooks.reclaimable["drf"](session.task("x"), []) == ([], 1)
