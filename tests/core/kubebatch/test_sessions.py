"""What a session of kube-batch's sees, and what it writes."""

from __future__ import annotations

import dataclasses

import pytest

from pumice.core.decisions import PodConditionChanged, PodGroupStatusChanged, SessionResult
from pumice.core.deltas import ClusterObject, OutcomeCode, OutcomeReported, Upserted
from pumice.core.engine import Engine
from pumice.core.kubebatch import BACKOFF
from pumice.core.model.group import PodGroupPhase
from pumice.core.model.pod import Pod, PodPhase
from pumice.core.model.reasons import ReasonCode
from tests.core import builders
from tests.core.builders import NOW_NS
from tests.core.kubebatch.older import (
    binds,
    budget,
    cluster,
    engine,
    foreign,
    job_of,
    lone,
    names,
    opened,
    task,
)

SECOND_NS = 10**9


# Nodes.


def test_a_node_that_holds_more_than_it_has_is_out_of_the_session() -> None:
    hogs = [foreign(lone(f"hog{i}", 3, on="n1")) for i in range(2)]
    known = cluster(builders.node("n1", 4), builders.node("n2", 4), hogs, lone("p", 1))
    session = opened(known)
    assert session.in_sync.tolist() == [False, True]
    assert session.total.milli_cpu == 4000
    assert binds(known.schedule(1)) == {"p": "n2"}


def test_an_out_of_sync_node_takes_not_even_a_task_that_asks_for_nothing() -> None:
    hog = foreign(lone("hog", 5, on="n1"))
    known = cluster(builders.node("n1", 4), hog, builders.pod("p", "", 0, 0))
    result = known.schedule(1)
    assert binds(result) == {}
    assert [(n.reason, n.nodes) for n in result.waits[0].reasons[0].nodes] == [
        ("node(s) were out of sync", 1)
    ]


def test_a_node_is_out_of_sync_only_beyond_the_tolerance() -> None:
    for cpu, good in ((4.009, True), (4.01, False)):
        known = cluster(builders.node("n1", 4), foreign(lone("hog", cpu, on="n1")))
        assert opened(known).in_sync.tolist() == [good]


def test_a_node_comes_back_when_it_has_enough_again() -> None:
    known = cluster(builders.node("n1", 2), foreign(lone("hog", 3, on="n1")), lone("p", 1))
    assert binds(known.schedule(1)) == {}
    known.apply([Upserted(builders.node("n1", 4))])
    assert binds(known.schedule(2)) == {"p": "n1"}


# Order and validity.


def test_equal_tasks_go_by_age_and_then_by_uid_not_by_the_number_in_their_names() -> None:
    pods = [
        dataclasses.replace(lone("a-b-10", controller="rs"), uid="u1"),
        dataclasses.replace(lone("a-b-9", controller="rs"), uid="u2"),
        dataclasses.replace(lone("a-b-1", controller="rs", creation_time_ns=5), uid="u0"),
    ]
    session = opened(cluster(pods))
    assert names(session.orders.tasks(session.cache.tasks.values())) == [
        "a-b-10",
        "a-b-9",
        "a-b-1",
    ]


def test_a_gang_without_enough_pods_is_not_left_out_and_hoards_room() -> None:
    short: list[ClusterObject] = [builders.pod_group("a", 3), builders.pod("a-0", "a", 3)]
    other = builders.job("b", 1, 3)
    known = cluster(builders.node("n1", 4), short, other)
    assert binds(known.schedule(1)) == {}
    assert binds(cluster(builders.node("n1", 4), other).schedule(1)) == {"b-0": "n1"}


# Phases.


def _phase(engine: Engine) -> PodGroupPhase:
    found = [s for s in engine.schedule(NOW_NS).statuses if isinstance(s, PodGroupStatusChanged)]
    return found[0].status.phase if found else PodGroupPhase.NONE


def test_a_group_is_running_when_enough_tasks_hold_room() -> None:
    known = cluster(builders.node("n1"), builders.job("g", 2, phase=PodGroupPhase.NONE))
    assert _phase(known) is PodGroupPhase.RUNNING


def test_a_group_that_got_nothing_is_pending_and_never_inqueue() -> None:
    known = cluster(builders.job("g", 2, phase=PodGroupPhase.NONE))
    assert _phase(known) is PodGroupPhase.PENDING


def test_a_short_group_with_running_tasks_is_unknown() -> None:
    group = builders.pod_group("g", 2, phase=PodGroupPhase.NONE)
    known = cluster(builders.node("n1"), group, builders.pod("g-0", "g", on="n1"))
    assert _phase(known) is PodGroupPhase.UNKNOWN


def test_a_group_whose_tasks_are_all_done_is_pending_not_completed() -> None:
    group = builders.pod_group("g", 1, phase=PodGroupPhase.NONE)
    done = dataclasses.replace(builders.pod("g-0", "g", on="n1"), phase=PodPhase.SUCCEEDED)
    assert _phase(cluster(builders.node("n1"), group, done)) is PodGroupPhase.PENDING


def test_a_status_is_written_when_it_changes_and_not_again() -> None:
    known = cluster(builders.job("g", 2, phase=PodGroupPhase.NONE))
    assert any(isinstance(s, PodGroupStatusChanged) for s in known.schedule(1).statuses)
    assert known.schedule(2).statuses == ()


def test_an_unready_group_gets_the_unschedulable_condition_even_without_tasks() -> None:
    known = cluster(builders.pod_group("g", 2, phase=PodGroupPhase.NONE))
    (change,) = known.schedule(1).statuses
    assert isinstance(change, PodGroupStatusChanged)
    (condition,) = change.status.conditions
    assert (condition.type, condition.reason) == ("Unschedulable", "NotEnoughResources")
    assert condition.message.startswith("2/0 tasks in gang unschedulable: ")


def test_a_ready_group_gets_no_condition() -> None:
    known = cluster(builders.node("n1"), builders.job("g", 2, phase=PodGroupPhase.NONE))
    (change,) = known.schedule(1).statuses
    assert isinstance(change, PodGroupStatusChanged)
    assert change.status.conditions == ()


def test_no_queue_gets_a_status() -> None:
    known = cluster(builders.node("n1"), builders.job("g", 1))
    assert not [s for s in known.schedule(1).statuses if type(s).__name__ == "QueueStatusChanged"]


def test_pods_that_wait_are_unschedulable_whether_room_was_held_for_them_or_not() -> None:
    known = cluster(builders.node("n1", 2), builders.job("g", 3, 2))
    changes = [s for s in known.schedule(1).statuses if isinstance(s, PodConditionChanged)]
    assert sorted((c.name, c.reason) for c in changes) == [
        (f"g-{i}", "Unschedulable") for i in range(3)
    ]


def test_jobs_without_a_group_have_a_phase_for_those_who_look() -> None:
    known = cluster(builders.node("n1"), lone("a", controller="rs"), lone("big", 99, "rs2"))
    known.schedule(1)
    assert job_of(known, "rs").phase is PodGroupPhase.RUNNING
    assert job_of(known, "rs2").phase is PodGroupPhase.PENDING
    known.apply([Upserted(lone("b", controller="rs"))])
    assert job_of(known, "rs").phase is PodGroupPhase.RUNNING, "it is remembered"


def test_a_restarted_core_does_not_take_such_a_job_for_one_left_half_done() -> None:
    """Nobody remembers whether it was whole once, so its pods are not given up."""
    pods = [lone("a", 1, "rs", on="n1"), lone("b", 99, "rs")]
    known = cluster(builders.node("n1"), budget("pdb", "rs", 2), pods)
    known.gang_bind_deadline_ns = 1
    for seconds in range(3):
        assert known.schedule(NOW_NS + seconds * SECOND_NS).decisions == ()


# Ready.


def test_waiting_best_effort_tasks_do_not_make_a_job_ready() -> None:
    pods = [builders.pod("g-0", "g", 1), builders.pod("g-1", "g", 0, 0)]
    known = cluster(builders.node("n1"), builders.pod_group("g", 2), pods, of=engine("allocate"))
    assert binds(known.schedule(1)) == {}


def test_done_tasks_count_as_ready() -> None:
    done = dataclasses.replace(builders.pod("g-0", "g", on="n1"), phase=PodPhase.SUCCEEDED)
    known = cluster(builders.node("n1"), builders.pod_group("g", 2), done, builders.pod("g-1", "g"))
    assert binds(known.schedule(1)) == {"g-1": "n1"}


# Answers.


def test_victims_must_be_agreed_on_over_all_tiers_up_to_the_first_with_any() -> None:
    """priority spares the job of equal priority, so that gang of the next tier has no say."""
    known = cluster(
        builders.node("n1", 4),
        builders.job("a", 2, 2, minimum=1, on="n1"),
        builders.job("b", 1, 2),
        of=engine("preempt", ("priority", "gang")),
    )
    session = opened(known)
    victims = [task(known, "a-0"), task(known, "a-1")]
    assert session.votes.preemptable(task(known, "b-0"), victims) == []
    only_gang = opened(cluster(*_objects(known), of=engine("preempt", ("gang",))))
    again = [only_gang.cache.tasks[t.uid] for t in victims]
    assert len(only_gang.votes.preemptable(only_gang.cache.tasks["uid-b-0"], again)) == 2


def _objects(engine: Engine) -> list[ClusterObject]:
    return [item for item in engine.cache.objects() if type(item).__name__ != "Queue"]


# Backoff.


def test_with_backoff_a_gang_without_enough_pods_is_left_out_for_a_while() -> None:
    short: list[ClusterObject] = [builders.pod_group("a", 3), builders.pod("a-0", "a", 3)]
    other = builders.job("b", 1, 3)
    known = cluster(
        builders.node("n1", 4),
        short,
        other,
        of=engine("allocate", ("priority gang", "predicates"), BACKOFF),
    )
    result = known.schedule(NOW_NS)
    assert binds(result) == {"b-0": "n1"}
    (reason,) = result.waits[0].reasons
    assert (reason.author, reason.code) == ("gang", ReasonCode.GANG_INVALID)
    assert (reason.have, reason.need) == (1, 3)
    message = "not enough valid tasks for gang-scheduling, valid: 1, min: 3"
    told = [(e.kind, e.name) for e in result.events if e.message == message]
    assert told == [("PodGroup", "a"), ("Pod", "a-0")]
    assert known.next_wake(NOW_NS) == NOW_NS + SECOND_NS


def test_people_are_told_of_a_backoff_once() -> None:
    known = cluster(builders.pod_group("a", 3), of=engine("allocate", ("gang",), BACKOFF))
    assert _told(known.schedule(NOW_NS))
    for seconds in range(1, 8):
        assert not _told(known.schedule(NOW_NS + seconds * SECOND_NS))


def _told(result: SessionResult) -> list[str]:
    return [e.message for e in result.events if "not enough valid tasks" in e.message]


def test_a_pod_that_arrives_ends_a_backoff() -> None:
    gang: list[ClusterObject] = [builders.pod_group("a", 2), builders.pod("a-0", "a")]
    known = cluster(builders.node("n1"), gang, of=engine("allocate", ("gang",), BACKOFF))
    assert binds(known.schedule(NOW_NS)) == {}
    known.apply([Upserted(builders.pod("a-1", "a"))])
    assert len(binds(known.schedule(NOW_NS + 1))) == 2


def test_a_smaller_minimum_ends_a_backoff() -> None:
    known = cluster(
        builders.node("n1"),
        budget("pdb", "rs", 2),
        lone("p", controller="rs"),
        of=engine("allocate", ("gang",), BACKOFF),
    )
    assert binds(known.schedule(NOW_NS)) == {}
    known.apply([Upserted(budget("pdb", "rs", 1))])
    assert binds(known.schedule(NOW_NS + 1)) == {"p": "n1"}


def test_a_pod_that_is_itself_again_ends_a_backoff() -> None:
    pods = [builders.pod("a-0", "a", on="n1"), builders.pod("a-1", "a")]
    lost = dataclasses.replace(pods[0], phase=PodPhase.UNKNOWN)
    group = builders.pod_group("a", 2)
    gang: list[ClusterObject] = [group, lost, pods[1]]
    known = cluster(builders.node("n1"), gang, of=engine("allocate", ("gang",), BACKOFF))
    assert binds(known.schedule(NOW_NS)) == {}
    known.apply([Upserted(pods[0])])
    assert binds(known.schedule(NOW_NS + 1)) == {"a-1": "n1"}


@pytest.mark.parametrize("group", ["g", ""])
def test_a_job_whose_binds_fail_is_left_out_with_a_reason_and_an_event(group: str) -> None:
    pod: Pod = builders.pod("p", group, controller_uid="rs")
    known = cluster(builders.node("n1"), builders.pod_group("g"), pod)
    for turn in range(2):
        (decision,) = known.schedule(NOW_NS + turn).decisions
        report = OutcomeReported(decision.id, OutcomeCode.FAILED)
        assert known.apply([report], NOW_NS + turn) == ()
    result = known.schedule(NOW_NS + 2)
    assert result.decisions == ()
    assert result.waits[0].reasons[0].code is ReasonCode.COOLING_DOWN
    assert [e.name for e in result.events if "left out for a while" in e.message][-1] == "p"
    assert len(binds(known.schedule(NOW_NS + 2 * SECOND_NS))) == 1


def test_a_job_that_is_left_out_still_counts_in_its_queue() -> None:
    known = cluster(
        builders.node("n1"),
        builders.pod_group("a", 3),
        builders.pod("a-0", "a", on="n1"),
        of=engine("allocate", ("gang", "proportion"), BACKOFF),
    )
    assert opened(known).accounts["default"].allocated.milli_cpu == 1000
    assert job_of(known, "ns/a").index.ready_count == 1
