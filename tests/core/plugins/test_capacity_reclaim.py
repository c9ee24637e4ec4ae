"""capacity: whom a queue may take from, queues standing side by side."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.core.model.resources import Resources
from pumice.core.session.hooks import PERMIT, REJECT
from pumice.core.session.policies import VictimRule
from tests.core.builders import pod, pod_group, queue
from tests.core.plugins.opened import GPU, Opened, asking, names
from tests.core.plugins.queues import account, capacity, holding, with_cores


def test_a_queue_may_reclaim_while_one_requested_dimension_is_within_deserved() -> None:
    session = capacity(
        queue("red", deserved=(("cpu", 4000), ("memory", 1)), capability=(("cpu", 6000),)),
        *holding("red", 3),
        pod("one", "red", 1, 1),
        pod("two", "red", 2, 1),
        pod("over", "red", 4, 0),
    )
    may = session.hooks.preemptive["capacity"]
    red = session.queue("red")
    assert may(red, session.tasks("one"))
    assert not may(red, session.tasks("two"))
    # The capability holds too, and tasks add up.
    assert not may(red, session.tasks("over"))
    assert not may(red, session.tasks("one", "one"))


def victims(session: Opened, reclaimer: str, *candidates: str) -> list[str]:
    function = session.hooks.reclaimable["capacity"]
    tasks, vote = function(session.task(reclaimer), session.tasks(*candidates))
    assert vote == PERMIT
    return names(tasks)


def test_victims_are_taken_while_their_queue_is_above_deserved() -> None:
    session = capacity(
        with_cores("red", 5),
        with_cores("blue", 50),
        *holding("red", 2, 2, 2, 2),
        *holding("blue", 1),
        pod("wants", "blue", 10, 0),
    )
    # 8, then 6 are above 5; 4 is not. The latest task goes first.
    assert victims(session, "wants", "red-0", "red-1", "red-2", "red-3") == ["red-3", "red-2"]


def test_a_guarantee_is_kept_in_all_dimensions() -> None:
    session = capacity(
        queue("red", deserved=(("cpu", 1000),), guarantee=(("cpu", 1000), ("memory", 5))),
        with_cores("blue", 50),
        *holding("red", 2, 2),
        pod("wants", "blue", 10, 0),
        pod_group("blue", queue_name="blue"),
    )
    # The memory that is guaranteed is not even held.
    assert victims(session, "wants", "red-0", "red-1") == []


def test_a_candidate_must_free_something_that_is_asked_for() -> None:
    session = capacity(
        queue("red"),
        with_cores("blue", 50),
        pod_group("red", queue_name="red"),
        pod("memory", "red", 0, 4, on="n1"),
        pod("cpu", "red", 1, 0, on="n1"),
        pod_group("blue", queue_name="blue"),
        pod("wants", "blue", 10, 0),
    )
    assert victims(session, "wants", "memory", "cpu") == ["cpu"]


def test_tasks_of_a_queue_that_deserves_nothing_they_use_go_at_once() -> None:
    session = capacity(
        queue("red", deserved=((GPU, 5000),)),
        with_cores("blue", 50),
        *holding("red", 1),
        pod_group("blue", queue_name="blue"),
        pod("wants", "blue", 10, 0),
    )
    assert victims(session, "wants", "red-0") == ["red-0"]
    counted = capacity(
        queue("red", deserved=((GPU, 5000), ("pods", 5))),
        with_cores("blue", 50),
        *holding("red", 1),
        pod_group("blue", queue_name="blue"),
        pod("wants", "blue", 10, 0),
    )
    # A place among the pods that is deserved protects it.
    assert victims(counted, "wants", "red-0") == []


def test_an_unknown_reclaimer_is_rejected_and_unknown_candidates_are_skipped() -> None:
    session = capacity(
        queue("red"), *holding("red", 1), pod("stray", "gone", 1, 0), pod("far", "gone", on="n1")
    )
    function = session.hooks.reclaimable["capacity"]
    assert function(session.task("stray"), session.tasks("red-0")) == ([], REJECT)
    assert victims(session, "red-0", "far") == []


def test_the_gang_actions_ask_for_guarantee_and_deserved_in_the_given_order() -> None:
    session = capacity(
        with_cores("red", 5, guarantee=1),
        with_cores("blue", 50),
        *holding("red", 2, 2, 2, 2),
        *holding("blue", 1),
    )
    function = session.hooks.unified_evictable["capacity"]
    tasks = session.tasks("red-0", "red-1", "red-2", "red-3")
    assert function("gangpreempt", session.job("blue"), tasks) == (tasks, PERMIT)
    found, vote = function("gangreclaim", session.job("blue"), tasks)
    assert (names(found), vote) == (["red-0", "red-1"], PERMIT)


def test_the_bound_lets_no_possible_victim_slip() -> None:
    session = capacity(
        with_cores("over", 1),
        with_cores("under", 50),
        queue("free"),
        *holding("over", 5),
        *holding("under", 5),
        *holding("free", 1),
    )
    bound = session.hooks.reclaimable["capacity"]
    assert isinstance(bound, VictimRule)
    marks = {name: bool(bound.mark(session.job(name))) for name in ("over", "under", "free")}
    assert marks == {"over": True, "under": False, "free": True}
    assert bound.limit(session.task("under-0")) == 0


few = st.integers(0, 3)
parts = st.dictionaries(st.sampled_from(["cpu", "memory", GPU, "pods"]), few, max_size=3)


@settings(max_examples=150)
@given(
    deserved=st.lists(parts, min_size=3, max_size=3),
    guarantee=parts,
    requests=st.lists(st.tuples(st.integers(0, 2), parts), min_size=1, max_size=8),
    tree=st.booleans(),
    levels=st.integers(0, 2),
)
def test_no_task_of_a_job_below_the_bound_is_ever_a_victim(
    deserved: list[dict[str, int]],
    guarantee: dict[str, int],
    requests: list[tuple[int, dict[str, int]]],
    tree: bool,
    levels: int,
) -> None:
    given_queues = [
        queue(f"q{i}", deserved=tuple(d.items()), parent="mid" if i < 2 else "")
        for i, d in enumerate(deserved)
    ]
    given_queues[0] = replace(given_queues[0], guarantee=tuple(guarantee.items()))
    groups = [pod_group(f"j{i}", 0, queue_name=f"q{i}") for i in range(3)]
    running = [
        asking(pod(f"t{n}", f"j{i}", on="n1"), tuple(d.items()))
        for n, (i, d) in enumerate(requests)
    ]
    wanting = asking(pod("wants", "j2"), (("cpu", 1), ("memory", 1), (GPU, 1)))
    session = capacity(
        queue("root"),
        queue("mid"),
        *given_queues,
        *groups,
        *running,
        wanting,
        tree=tree,
        levels=levels,
    )
    bound = session.hooks.reclaimable["capacity"]
    assert isinstance(bound, VictimRule)
    marks = {job.id: bound.mark(job) for job in session.session.jobs.values()}
    candidates = session.tasks(*(task.name for task in running))
    found, _ = session.hooks.reclaimable["capacity"](session.task("wants"), candidates)
    assert all(marks[task.job_id] > bound.limit(session.task("wants")) for task in found)


def test_a_dry_run_changes_copies_only() -> None:
    session = capacity(with_cores("red", capability=6), *holding("red", 5), pod("p", "red", 3, 0))
    red, task = session.queue("red"), session.task("p")
    simulation = session.hooks.simulation["capacity"](task, 0)
    assert not simulation.is_allocatable(red, task)
    assert simulation.remove(session.task("red-0")) is None
    assert simulation.is_allocatable(red, task)
    assert simulation.add(session.task("red-0")) is None
    assert not simulation.is_allocatable(red, task)
    assert simulation.why_not(task) is None
    assert account(session, "red").allocated == Resources(5000, 0, {"pods": 1})


def test_a_dry_run_with_a_task_nobody_knows_fails() -> None:
    session = capacity(queue("red"), *holding("red", 1), pod("far", "gone", on="n1"))
    simulation = session.hooks.simulation["capacity"](session.task("red-0"), 0)
    assert simulation.remove(session.task("far"))
    assert simulation.add(session.task("far"))
