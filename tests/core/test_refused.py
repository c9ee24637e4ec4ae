"""Jobs that gang actions, their queue or enqueue cannot help are passed over in groups."""

from __future__ import annotations

import pytest

from pumice.core.cache.job_index import WaitingGroups
from pumice.core.engine import Engine
from tests.core.builders import GIB, node, queue
from tests.core.test_remembering import SECOND_NS
from tests.core.test_waiting import crowd, room_of


def test_gang_actions_visit_one_gang_of_each_group() -> None:
    made = crowd("gangs", waiting=10)
    # Two queues with gangs of three kinds.
    work = made.engine.schedule(made.now_ns + SECOND_NS).work
    assert work["gangs_tried"] <= 2 * 6
    assert not {"tasks_tried", "jobs_visited", "jobs_closed"} & work.keys()


def test_gangs_of_one_class_and_different_sizes_are_asked_about_apart() -> None:
    made = crowd("gangs", waiting=0)
    made.put(queue("q0", deserved=(("cpu", 7000),)))
    for size in (2, 3, 2, 3):
        made.arrives(size, 3, "q0")
    made.rests()
    by_job = {wait.job: [reason.code.name for reason in wait.reasons] for wait in made.engine.waits}
    # The queue deserves enough for two pods and not for three.
    quota = [name for name, codes in sorted(by_job.items()) if "QUEUE_QUOTA" in codes]
    assert quota == ["ns/j003", "ns/j005"]


def held(engine: Engine) -> WaitingGroups:
    return engine.cache.jobs.inadmissible


@pytest.mark.parametrize("name", ["default", "capacity", "every action", "sla"])
def test_one_gang_of_a_group_that_is_not_admitted_is_asked_about(name: str) -> None:
    made = crowd(name, waiting=0)
    for number in range(12):
        made.asks(2, 200, f"q{number % 2}")
    made.rests()
    assert len(held(made.engine)) == len(made.engine.waits) == 12
    waits = made.engine.waits
    result = made.engine.schedule(made.now_ns + SECOND_NS)
    assert result.waits == waits
    assert (result.decisions, result.statuses, result.events) == ((), (), ())
    assert not {"jobs_considered", "jobs_visited", "jobs_closed"} & result.work.keys()


def test_a_job_that_is_admitted_changes_nothing_for_those_that_are_still_too_large() -> None:
    made = crowd("capacity", waiting=0)
    made.asks(2, 200, "q0")
    made.asks(2, 200, "q0")
    made.rests()
    made.asks(1, 1, "q0")
    result = made.engine.schedule(made.now_ns + SECOND_NS)
    assert result.work["jobs_considered"] == 1
    assert len(held(made.engine)) == 2


def test_a_larger_queue_admits_those_that_it_held_back() -> None:
    made = crowd("capacity", waiting=0)
    made.put(queue("q0", capability=(("cpu", 3000),)))
    for _ in range(3):
        made.asks(1, 4, "q0")
    made.rests()
    assert len(held(made.engine)) == 3
    made.put(queue("q0", capability=(("cpu", 8000),)))
    assert made.engine.schedule(made.now_ns + SECOND_NS).work["jobs_considered"] == 3
    # Two of them are admitted, and wait for a node.
    assert len(held(made.engine)) == 1


@pytest.mark.parametrize("name", ["default", "capacity", "evicting", "every action"])
def test_gangs_that_their_queue_refuses_are_passed_over(name: str) -> None:
    made = crowd(name, waiting=0)
    made.put(node("n4", 64), queue("q0", capability=(("cpu", 1000), ("memory", GIB), ("pods", 1))))
    for _ in range(10):
        made.arrives(3, 6, "q0")
    made.rests()
    waits = made.engine.waits
    assert len(room_of(made.engine)) == len(waits) == 10
    assert {reason.code.name for reason in waits[0].reasons} >= {"QUEUE_QUOTA", "GANG_SHORT"}
    result = made.engine.schedule(made.now_ns + SECOND_NS)
    assert result.waits == waits
    assert not {"tasks_tried", "jobs_visited", "jobs_closed"} & result.work.keys()


def test_gangs_of_a_queue_that_has_all_that_it_deserves_are_passed_over() -> None:
    made = crowd(waiting=0)
    made.put(node("n4", 1), queue("q0", capability=(("cpu", 1000), ("memory", GIB), ("pods", 1))))
    made.arrives(1, 1, "q0")
    for _ in range(10):
        made.arrives(3, 6, "q0")
    made.rests()
    assert len(room_of(made.engine)) == 10
    result = made.engine.schedule(made.now_ns + SECOND_NS)
    assert {wait.reasons[0].code.name for wait in result.waits} == {"QUEUE_OVERUSED"}
    assert not {"tasks_tried", "jobs_visited", "jobs_closed"} & result.work.keys()
