"""capacity in a tree: the queues above have a say in reclaiming."""

from __future__ import annotations

from pumice.core.deltas import ClusterObject
from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import Opened, names, options
from tests.core.plugins.queues import capacity, holding, with_cores


def victims(session: Opened, reclaimer: str, *candidates: str) -> list[str]:
    function = session.hooks.reclaimable["capacity"]
    return names(function(session.task(reclaimer), session.tasks(*candidates))[0])


def departments(**deserved: float) -> list[ClusterObject]:
    """Two departments of two queues each; unnamed queues deserve nothing."""
    parents = {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}
    return [
        queue("root"),
        *(with_cores(n, deserved.get(n)) for n in ("a", "b")),
        *(with_cores(n, deserved.get(n), parent=p) for n, p in parents.items()),
    ]


def test_a_queue_above_may_speak_for_one_that_has_its_share() -> None:
    objects = [*departments(a=20, b=20), *holding("a1", 1), pod("p", "a1", 1, 0)]

    def may(levels: int) -> bool:
        session = capacity(*objects, tree=True, levels=levels)
        return session.hooks.preemptive["capacity"](session.queue("a1"), session.tasks("p"))

    assert not may(0)
    assert may(1)
    # The root never speaks for anyone.
    rooted = capacity(
        queue("root"),
        queue("leaf"),
        *holding("leaf", 1),
        pod("p", "leaf", 1, 0),
        tree=True,
        levels=5,
    )
    assert not rooted.hooks.preemptive["capacity"](rooted.queue("leaf"), rooted.tasks("p"))


def test_a_victims_department_must_be_above_what_it_deserves_too() -> None:
    def taken(b_deserves: float, levels: int) -> list[str]:
        session = capacity(
            *departments(a=50, a1=50, b=b_deserves, b1=1),
            *holding("b1", 4, 4),
            *holding("a1", 1),
            pod("p", "a1", 1, 0),
            tree=True,
            levels=levels,
        )
        return victims(session, "p", "b1-0", "b1-1")

    assert taken(50, 0) == ["b1-1", "b1-0"]
    assert taken(50, 1) == []
    # The department's amount runs down with each victim.
    assert taken(5, 1) == ["b1-1"]
    assert taken(3, 1) == ["b1-1", "b1-0"]


def test_the_common_department_has_no_say() -> None:
    session = capacity(
        *departments(a=50, a1=20, a2=1),
        *holding("a2", 4),
        *holding("a1", 1),
        pod("p", "a1", 1, 0),
        tree=True,
        levels=2,
    )
    assert victims(session, "p", "a2-0") == ["a2-0"]


def test_siblings_that_deserve_nothing_leave_each_other_alone() -> None:
    def taken(levels: int, **deserved: float) -> list[str]:
        session = capacity(
            *departments(a=50, **deserved),
            *holding("a2", 4),
            *holding("b1", 4),
            *holding("a1", 1),
            pod("p", "a1", 1, 0),
            tree=True,
            levels=levels,
        )
        return victims(session, "p", "a2-0", "b1-0")

    assert taken(0) == ["a2-0", "b1-0"]
    assert taken(1) == ["b1-0"]
    assert taken(1, a1=5) == ["a2-0", "b1-0"]


def test_levels_mean_nothing_without_a_tree() -> None:
    plugin = options("capacity", ancestorReclaimLevel=3)
    session = Opened(
        node("n1", 100),
        with_cores("red", 1),
        with_cores("blue", 50),
        *holding("red", 4),
        pod_group("blue", queue_name="blue"),
        pod("p", "blue", 1, 0),
        plugins=[plugin],
    )
    assert victims(session, "p", "red-0") == ["red-0"]
