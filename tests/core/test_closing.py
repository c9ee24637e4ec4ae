"""The end of a session: phases, conditions, what people are told, and what queues hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumice.core.decisions import (
    PodConditionChanged,
    PodGroupStatusChanged,
    QueueStatusChanged,
    SessionResult,
)
from pumice.core.deltas import ClusterObject, Deleted, Upserted
from pumice.core.engine import Engine
from pumice.core.model.fit import FitErrors
from pumice.core.model.group import PodGroupPhase, PodGroupStatus
from pumice.core.model.pod import Pod, PodPhase
from tests.core.builders import NOW_NS, fill, node, pod, pod_group, queue
from tests.core.evicting import STOCK, engine

P = PodGroupPhase


def run(made: Engine) -> SessionResult:
    return made.schedule(NOW_NS)


def written(result: SessionResult, name: str = "g") -> PodGroupStatus | None:
    found = [s for s in result.statuses if isinstance(s, PodGroupStatusChanged) and s.name == name]
    return found[0].status if found else None


def phase_of(made: Engine, name: str = "g") -> PodGroupPhase:
    return made.cache.jobs[f"ns/{name}"].phase


def conditions(made: Engine) -> dict[str, tuple[str, str, str]]:
    status = made.cache.jobs["ns/g"].status
    return {c.type: (c.status, c.reason, c.message) for c in status.conditions}


def closed(*pods: Pod, minimum: int, phase: PodGroupPhase) -> PodGroupPhase:
    """The phase after a session in which nothing can be placed."""
    made = engine("backfill", STOCK, queue(), pod_group("g", minimum, phase=phase), *pods)
    run(made)
    return phase_of(made)


def on_node(name: str, phase: PodPhase = PodPhase.RUNNING, **fields: Any) -> Pod:
    return replace(pod(name, "g", on="n1"), phase=phase, **fields)


DONE, FAILED, BOUND = PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.PENDING


@pytest.mark.parametrize(
    ("pods", "minimum", "before", "after"),
    [
        # Some run, and the gang could not be made whole in this session.
        ([on_node("a"), pod("b", "g")], 2, P.RUNNING, P.UNKNOWN),
        # Everything that was scheduled has ended.
        ([on_node("a", DONE), on_node("b", FAILED)], 2, P.RUNNING, P.COMPLETED),
        ([on_node("a", DONE), on_node("b", DONE), pod("c", "g")], 2, P.RUNNING, P.COMPLETED),
        ([on_node("a", DONE), on_node("b")], 2, P.RUNNING, P.RUNNING),
        ([on_node("a", BOUND), on_node("b", BOUND)], 2, P.INQUEUE, P.RUNNING),
        ([on_node("a", FAILED), on_node("b", BOUND)], 2, P.INQUEUE, P.RUNNING),
        # One that leaves counts as scheduled while it has a node.
        ([on_node("a"), on_node("b", terminating=True)], 2, P.RUNNING, P.RUNNING),
        ([pod("a", "g"), pod("b", "g")], 2, P.INQUEUE, P.INQUEUE),
        ([pod("a", "g"), pod("b", "g")], 2, P.UNKNOWN, P.PENDING),
        ([pod("a", "g"), pod("b", "g")], 2, P.RUNNING, P.PENDING),
        ([pod("a", "g"), pod("b", "g")], 2, P.NONE, P.PENDING),
        ([], 1, P.INQUEUE, P.INQUEUE),
        # A minimum of nothing is met by nobody.
        ([], 0, P.NONE, P.COMPLETED),
    ],
)
def test_the_phase_after_a_session(
    pods: list[Pod], minimum: int, before: PodGroupPhase, after: PodGroupPhase
) -> None:
    assert closed(*pods, minimum=minimum, phase=before) is after


def test_the_worked_example() -> None:
    replicas = [pod(f"g-t-{i}", "g") for i in range(4)]
    made = engine(
        "enqueue, allocate, backfill",
        STOCK,
        node("n1", 3),
        queue(),
        pod_group("g", 3, phase=P.NONE),
    )

    def seen(*pods: Pod) -> PodGroupPhase:
        assert made.apply([Upserted(p) for p in pods]) == ()
        run(made)
        return phase_of(made)

    # Let in; controllers make the pods now.
    assert seen() is P.INQUEUE
    # Three are decided on: being bound does not count as scheduled.
    assert seen(*replicas) is P.INQUEUE
    bound = [replace(p, node_name="n1") for p in replicas[:3]]
    assert seen(*bound) is P.RUNNING
    running = [replace(p, phase=PodPhase.RUNNING) for p in bound]
    assert seen(*running) is P.RUNNING
    assert conditions(made)["Scheduled"][:2] == ("True", "tasks in gang are ready to be scheduled")
    # One of three fails, and a pod of somebody else takes its room before the fourth can: two run,
    # and the gang is short.
    stranger = pod("stranger", "", on="n1")
    assert seen(replace(running[0], phase=PodPhase.FAILED), stranger) is P.UNKNOWN
    # All are deleted and made again: it has to be let in again.
    made.apply([Deleted(Pod, p.uid) for p in replicas])
    made.apply([Upserted(replace(p, uid=f"{p.uid}-again")) for p in replicas])
    made.configure(engine("allocate, backfill", STOCK).configuration)
    made.cache.jobs["ns/g"].phase = P.UNKNOWN
    run(made)
    assert phase_of(made) is P.PENDING
    ended = [
        replace(p, uid=f"{p.uid}-again", phase=PodPhase.SUCCEEDED, node_name="n1")
        for p in replicas[:3]
    ]
    made.apply([Upserted(p) for p in ended])
    run(made)
    assert phase_of(made) is P.COMPLETED


def test_becoming_ready_leaves_the_old_condition_as_it_was() -> None:
    made = engine("allocate", STOCK, queue(), pod_group("g", 1), pod("g-0", "g"))
    run(made)
    assert conditions(made)["Unschedulable"][:2] == ("True", "NotEnoughResources")
    fill(made, node("n1"))
    run(made)
    assert conditions(made)["Scheduled"] == ("True", "tasks in gang are ready to be scheduled", "")
    assert conditions(made)["Unschedulable"][0] == "True"


def test_without_gang_no_conditions_are_written() -> None:
    made = engine("allocate", (("priority",),), queue(), pod_group("g", 1), pod("g-0", "g"))
    run(made)
    assert conditions(made) == {}


def test_counters_of_the_status() -> None:
    pods = [on_node("a"), on_node("b"), on_node("c", DONE), on_node("d", FAILED)]
    status = written(run(engine("allocate", STOCK, queue(), pod_group("g", 1), *pods)))
    assert status is not None
    assert (status.running, status.succeeded, status.failed) == (2, 1, 1)


def test_a_status_is_written_once() -> None:
    made = engine("allocate", STOCK, node("n1"), queue(), pod_group("g", 1), on_node("a"))
    assert written(run(made)) is not None
    assert run(made).statuses == ()


# Texts.


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        (FitErrors(3), "0/3 nodes are unavailable"),
        (
            FitErrors(3, (("node(s) were unschedulable", 1), ("Insufficient cpu", 2))),
            "0/3 nodes are unavailable: 1 node(s) were unschedulable, 2 Insufficient cpu.",
        ),
        # Sorted as texts: ten comes before two.
        (FitErrors(12, (("b", 2), ("a", 10))), "0/12 nodes are unavailable: 10 a, 2 b."),
        (FitErrors(0, message="said instead"), "said instead"),
        (
            FitErrors(2, (("a", 2),), hyper_node="rack-1"),
            "In hyperNode rack-1: 0/2 nodes are unavailable: 2 a.",
        ),
    ],
)
def test_the_text_of_fit_errors(errors: FitErrors, text: str) -> None:
    assert errors.text() == text


def told(result: SessionResult) -> dict[str, tuple[str, str, str]]:
    changes = [s for s in result.statuses if isinstance(s, PodConditionChanged)]
    return {s.name: (s.reason, s.message, s.nominated_node_name) for s in changes}


def short_of_cpu() -> list[ClusterObject]:
    return [node("n1", 1), node("n2", 1), queue(), pod_group("j", 2)]


def test_a_job_that_fits_nowhere_says_so_in_volcanos_words() -> None:
    made = engine("allocate", STOCK, *short_of_cpu(), pod("j-a-0", "j", 2), pod("j-a-1", "j", 2))
    result = run(made)
    status = written(result, "j")
    assert status is not None
    (condition,) = status.conditions
    text = (
        "pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable. "
        "Origin reason is j-a-0: 0/2 nodes are unavailable: 2 Insufficient cpu."
    )
    assert condition.message == f"2/2 tasks in gang unschedulable: {text}"
    (event,) = [e for e in result.events if e.kind == "PodGroup"]
    assert (event.warning, event.reason) == (True, "Unschedulable")
    assert event.message == f"2/2 tasks in gang unschedulable: {text}"
    # The first one's own errors; the second was not tried, and is told the job's text.
    assert told(result) == {
        "j-a-0": ("Unschedulable", "0/2 nodes are unavailable: 2 Insufficient cpu.", ""),
        "j-a-1": ("Unschedulable", text, ""),
    }


def test_a_gang_that_is_placed_is_not_called_unschedulable() -> None:
    made = engine("enqueue, allocate", STOCK, node("n1"), queue(), pod_group("g"), pod("g-0", "g"))
    result = run(made)
    assert result.decisions
    status = written(result)
    assert status is not None
    assert (status.phase, [c.type for c in status.conditions]) == (P.INQUEUE, ["Scheduled"])
    assert not result.events


def test_only_the_first_resource_that_lacks_is_named() -> None:
    tiers = (("gang", "predicates"),)
    made = engine("allocate", tiers, *short_of_cpu(), pod("j-a-0", "j", 2, 99), pod("j-a-1", "j"))
    assert told(run(made))["j-a-0"][1] == "0/2 nodes are unavailable: 2 Insufficient cpu."


def test_a_task_that_could_have_been_placed_says_where() -> None:
    made = engine("allocate", STOCK, *short_of_cpu(), pod("j-a-0", "j"), pod("j-a-1", "j", 2))
    result = run(made)
    assert told(result)["j-a-0"] == (
        "Schedulable",
        "Pod ns/j-a-0 can possibly be assigned to n1, once minAvailable is satisfied",
        "",
    )
    status = written(result, "j")
    assert status is not None
    # One is missing: the other could have been placed.
    assert status.conditions[0].message.startswith("1/2 tasks in gang unschedulable: ")
    assert "Pending: 1 Schedulable, 1 Unschedulable" in status.conditions[0].message


def test_a_task_that_waits_for_room_says_for_which_without_being_nominated() -> None:
    leaving = replace(pod("old", "", on="n1"), terminating=True)
    made = engine(
        "allocate", STOCK, node("n1", 1), queue(), leaving, pod_group("j"), pod("j-0", "j")
    )
    assert told(run(made))["j-0"] == (
        "Unschedulable",
        "Pod ns/j-0 can possibly be assigned to n1, "
        "once resource is released and minAvailable is satisfied",
        "",
    )


def test_a_gated_pod_is_told_nothing() -> None:
    gated = pod("j-0", "j", spec={"scheduling_gates": ("x.example/y",)})
    assert told(run(engine("allocate", STOCK, node("n1"), queue(), pod_group("j"), gated))) == {}


# Queues.


def held(result: SessionResult) -> dict[str, dict[str, int]]:
    changes = [s for s in result.statuses if isinstance(s, QueueStatusChanged)]
    return {s.name: dict(s.allocated) for s in changes}


def test_a_queue_holds_what_its_jobs_hold_and_so_do_the_queues_above() -> None:
    queues = [queue("root"), queue("team"), queue("leaf", parent="team"), queue("idle")]
    objects = [node("n1"), *queues, pod_group("g", queue_name="leaf"), pod("g-0", "g", on="n1")]
    own = {"cpu": 1000, "memory": 2**30, "pods": 1}
    made = engine("allocate", STOCK, *objects)
    assert held(run(made)) == {"root": own, "team": own, "leaf": own}
    assert held(run(made)) == {}


def test_without_a_root_queues_stand_for_themselves() -> None:
    queues = [queue("team"), queue("leaf", parent="team")]
    objects = [node("n1"), *queues, pod_group("g", queue_name="leaf"), pod("g-0", "g", on="n1")]
    assert held(run(engine("allocate", STOCK, *objects))).keys() == {"leaf"}


def test_what_is_placed_in_the_session_counts_and_what_leaves_does_not() -> None:
    leaving = replace(pod("g-0", "g", 2, on="n1"), terminating=True)
    made = engine("allocate", STOCK, node("n1"), queue(), pod_group("g"), leaving, pod("g-1", "g"))
    assert held(run(made))["default"] == {"cpu": 1000, "memory": 2**30, "pods": 1}
