"""Who belongs to which job in kube-batch's world."""

from __future__ import annotations

import dataclasses

import pytest

from pumice.core.decisions import Bind, PodGroupStatusChanged
from pumice.core.deltas import Deleted, Upserted
from pumice.core.kubebatch import NAMESPACE_AS_QUEUE
from pumice.core.kubebatch.jobs import MIN_MEMBER_ANNOTATION, SHADOW_ANNOTATION, Origin
from pumice.core.model.group import PodDisruptionBudget
from pumice.core.model.pod import Pod, PodPhase
from tests.core import builders
from tests.core.kubebatch.older import (
    DEFAULT_TIERS,
    binds,
    budget,
    cluster,
    engine,
    foreign,
    job_of,
    lone,
    namespace,
)

# Which pods are seen.


@pytest.mark.parametrize(
    ("ours", "phase", "node", "seen"),
    [
        (True, PodPhase.PENDING, "", True),
        (True, PodPhase.PENDING, "n1", True),
        (True, PodPhase.RUNNING, "n1", True),
        (False, PodPhase.PENDING, "", False),
        # Bound but not yet running, and somebody else's: invisible.
        (False, PodPhase.PENDING, "n1", False),
        (False, PodPhase.RUNNING, "n1", True),
        (False, PodPhase.SUCCEEDED, "n1", True),
        (False, PodPhase.UNKNOWN, "n1", True),
    ],
)
def test_own_pods_count_while_pending_and_any_pod_afterwards(
    ours: bool, phase: PodPhase, node: str, seen: bool
) -> None:
    pod = dataclasses.replace(lone("p"), phase=phase, node_name=node)
    known = cluster(builders.node("n1"), pod if ours else foreign(pod))
    assert ("uid-p" in known.cache.tasks) is seen
    assert ("uid-p" in known.cache.foreign) is not seen


def test_room_of_a_bound_pod_that_is_not_seen_is_given_away() -> None:
    bound = foreign(dataclasses.replace(lone("theirs", 4), node_name="n1"))
    known = cluster(builders.node("n1", 4), bound, lone("mine", 4))
    assert binds(known.schedule(1)) == {"mine": "n1"}


def test_a_task_nobody_owns_holds_its_room_and_has_no_job() -> None:
    running = foreign(lone("theirs", 3, on="n1"))
    known = cluster(builders.node("n1", 4), running, lone("mine", 2))
    assert known.cache.tasks["uid-theirs"].job_id == ""
    assert binds(known.schedule(1)) == {}


def test_a_pod_joins_the_group_that_its_annotation_names_whoever_schedules_it() -> None:
    running = foreign(builders.pod("p", "g", on="n1"))
    known = cluster(builders.node("n1"), builders.pod_group("g"), running)
    assert [t.name for t in known.cache.jobs["ns/g"].index] == ["p"]


# Shadow groups.


def test_pods_without_a_group_join_the_job_of_their_controller() -> None:
    known = cluster(lone("a", controller="rs"), lone("b", controller="rs"), lone("c"))
    assert sorted(t.name for t in job_of(known, "rs").index) == ["a", "b"]
    assert [t.name for t in job_of(known, "uid-c").index] == ["c"]


def test_the_group_exists_in_memory_only() -> None:
    known = cluster(builders.node("n1"), lone("a", 1, "rs"), lone("big", 99, "rs2"))
    group = job_of(known, "rs").group
    assert group is not None
    assert (group.namespace, group.name, group.min_member) == ("ns", "rs", 1)
    assert group.annotations == {SHADOW_ANNOTATION: "rs"}
    assert job_of(known, "rs").origin is Origin.PODS
    result = known.schedule(1)
    assert not any(isinstance(s, PodGroupStatusChanged) for s in result.statuses)
    assert {event.kind for event in result.events} <= {"Pod"}
    assert len(known.cache.groups) == 0


@pytest.mark.parametrize(
    ("text", "minimum"), [(None, 1), ("3", 3), ("+2", 2), ("0", 0), ("many", 1), ("1.5", 1)]
)
def test_the_annotation_says_how_many_must_start_together(text: str | None, minimum: int) -> None:
    annotations = {} if text is None else {MIN_MEMBER_ANNOTATION: text}
    known = cluster(lone("a", controller="rs", annotations=annotations))
    assert job_of(known, "rs").min_available == minimum


def test_a_controllers_gang_starts_whole_or_not_at_all() -> None:
    gang = [
        lone(f"p{i}", 2, "rs", annotations={MIN_MEMBER_ANNOTATION: "3"}, creation_time_ns=i)
        for i in range(3)
    ]
    assert binds(cluster(builders.node("n1", 4), gang).schedule(1)) == {}
    result = cluster(builders.node("n1", 6), gang).schedule(1)
    assert len(binds(result)) == 3
    first = result.decisions[0]
    assert isinstance(first, Bind)
    assert first.gang is not None
    assert (first.gang.size, first.gang.pod_group_uid) == (3, "")


def test_the_job_has_the_priority_class_of_its_pod_and_the_default_queue() -> None:
    pod = lone("a", controller="rs", spec={"priority_class_name": "high"})
    known = cluster(builders.priority_class("high", 7), pod, of=engine(default_queue="blue"))
    assert job_of(known, "rs").priority == 7
    assert job_of(known, "rs").queue == "blue"


def test_the_oldest_pod_founds_the_group_whatever_order_pods_arrive_in() -> None:
    old = lone("old", 1, "rs", annotations={MIN_MEMBER_ANNOTATION: "2"}, creation_time_ns=1)
    young = lone("young", 1, "rs", creation_time_ns=2)
    for pods in ((old, young), (young, old)):
        known = cluster(*pods)
        assert job_of(known, "rs").min_available == 2
        known.apply([Deleted(Pod, old.uid)])
        assert job_of(known, "rs").min_available == 1


def test_a_shadow_job_ends_with_its_last_pod() -> None:
    known = cluster(lone("a", controller="rs"))
    known.apply([Deleted(Pod, "uid-a")])
    assert "rs" not in known.cache.jobs


def test_a_pod_that_changes_stays_in_its_job() -> None:
    known = cluster(lone("a", controller="rs"))
    job = job_of(known, "rs")
    known.apply([Upserted(dataclasses.replace(lone("a", controller="rs"), labels={"x": "y"}))])
    assert job_of(known, "rs") is job


# Budgets.


def test_a_budget_with_a_controller_is_a_gang_of_its_pods() -> None:
    pods = [lone(f"p{i}", 2, "rs") for i in range(3)]
    known = cluster(builders.node("n1", 4), budget("pdb", "rs", 3), pods)
    job = job_of(known, "rs")
    assert (job.origin, job.min_available, job.queue) == (Origin.BUDGET, 3, "default")
    assert (job.namespace, job.name, job.priority) == ("ns", "pdb", 0)
    result = known.schedule(1)
    assert binds(result) == {}
    assert not any(isinstance(s, PodGroupStatusChanged) for s in result.statuses)
    told = [e for e in result.events if e.kind == "PodDisruptionBudget"]
    assert [(e.name, e.uid, e.reason) for e in told] == [("pdb", "uid-pdb", "Unschedulable")]


def test_budget_and_pods_may_come_and_go_in_any_order() -> None:
    pod, gang = lone("p", controller="rs"), budget("pdb", "rs", 3)
    for objects in ((pod, gang), (gang, pod)):
        known = cluster(*objects)
        assert job_of(known, "rs").min_available == 3
        known.apply([Deleted(PodDisruptionBudget, "uid-pdb")])
        assert job_of(known, "rs").min_available == 1
        known.apply([Deleted(Pod, "uid-p")])
        assert "rs" not in known.cache.jobs


def test_a_budget_without_a_controller_is_no_job() -> None:
    assert cluster(budget("pdb", "", 3)).cache.jobs == {}


def test_a_budget_that_moves_to_another_controller_leaves_the_first() -> None:
    known = cluster(budget("pdb", "one", 2), lone("p", controller="one"))
    known.apply([Upserted(budget("pdb", "two", 2))])
    assert job_of(known, "one").origin is Origin.PODS
    assert job_of(known, "two").min_available == 2


def test_of_two_budgets_of_one_controller_the_newer_counts() -> None:
    old, new = budget("b", "rs", 2, creation_time_ns=1), budget("a", "rs", 3, creation_time_ns=2)
    for objects in ((old, new), (new, old)):
        assert job_of(cluster(*objects), "rs").min_available == 3


def test_pods_with_a_group_do_not_join_the_budget_of_their_controller() -> None:
    pod = builders.pod("p", "g", controller_uid="rs")
    known = cluster(budget("pdb", "rs", 1), builders.pod_group("g"), pod)
    assert len(job_of(known, "rs").index) == 0
    assert len(known.cache.jobs["ns/g"].index) == 1


# Namespaces as queues.


def test_a_namespace_is_a_queue_of_weight_one_and_queues_are_not_looked_at() -> None:
    group = builders.pod_group("g", queue_name="red")
    known = cluster(
        builders.queue("red", weight=9),
        namespace("ns"),
        group,
        of=engine("allocate", (), NAMESPACE_AS_QUEUE, default_queue=""),
    )
    queues = known.cache.session_queues()
    assert [(q.name, q.weight) for q in queues.values()] == [("ns", 1)]
    assert known.cache.jobs["ns/g"].queue == "ns"


def test_pods_of_a_namespace_that_is_not_known_wait() -> None:
    naq = engine("allocate", DEFAULT_TIERS, NAMESPACE_AS_QUEUE, default_queue="")
    known = cluster(builders.node("n1"), lone("p"), of=naq)
    assert binds(known.schedule(1)) == {}
    known.apply([Upserted(namespace("ns"))])
    assert binds(known.schedule(2)) == {"p": "n1"}


def test_a_default_queue_comes_before_the_namespace() -> None:
    naq = engine("allocate", (), NAMESPACE_AS_QUEUE, default_queue="other")
    known = cluster(builders.pod_group("g", queue_name="red"), lone("p"), of=naq)
    assert known.cache.jobs["ns/g"].queue == "other"
    assert job_of(known, "uid-p").queue == "other"


def test_without_the_switch_queues_are_queues() -> None:
    known = cluster(namespace("ns"), builders.pod_group("g", queue_name="red"))
    assert known.cache.jobs["ns/g"].queue == "red"
    assert list(known.cache.session_queues()) == ["default"]
