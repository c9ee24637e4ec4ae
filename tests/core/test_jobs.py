"""Jobs: what is counted, what roles need, and how sub-jobs are divided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumice.core.cache.jobs import Job
from pumice.core.deltas import ClusterObject, Upserted
from pumice.core.model.fit import FitErrors
from pumice.core.model.group import NetworkTopology, PodGroupPhase, SubGroupPolicy
from pumice.core.model.pod import Pod, PodPhase
from pumice.core.model.selectors import LabelSelector, Operator, Requirement
from pumice.core.model.status import TaskStatus
from tests.core.builders import node, pod, pod_group, queue
from tests.core.plugins.opened import Opened

S = TaskStatus


def opened(minimum: int, *pods: ClusterObject, **fields: Any) -> Opened:
    group = pod_group("g", minimum, **fields)
    return Opened(node("n1", 100, 400), queue(), group, *pods, plugins=["gang"])


def standing(session: Opened, **statuses: TaskStatus) -> Job:
    """The job with tasks in the statuses that only sessions know."""
    job = session.job("g")
    for name, status in statuses.items():
        job.set_status([session.task(name.replace("_", "-"))], status)
    return job


def pods(count: int, role: str = "", prefix: str = "p", **fields: Any) -> list[Pod]:
    return [pod(f"{prefix}-{i}", "g", role=role, **fields) for i in range(count)]


# Counts.


def every_status() -> Opened:
    return opened(
        1,
        pod("running", "g", on="n1"),
        replace(pod("bound", "g", on="n1"), phase=PodPhase.PENDING),
        replace(pod("leaving", "g", on="n1"), terminating=True),
        replace(pod("cancelled", "g"), terminating=True),
        replace(pod("done", "g", on="n1"), phase=PodPhase.SUCCEEDED),
        replace(pod("failed", "g", on="n1"), phase=PodPhase.FAILED),
        replace(pod("lost", "g", on="n1"), phase=PodPhase.UNKNOWN),
        pod("waits", "g"),
        pod("nothing", "g", 0, 0),
        pod("allocated", "g"),
        pod("binding", "g"),
        pod("pipelined", "g"),
    )


def test_counts_by_status() -> None:
    job = standing(every_status(), allocated=S.ALLOCATED, binding=S.BINDING, pipelined=S.PIPELINED)
    index = job.index
    assert index.ready_count == 5  # bound, binding, running, allocated, done; not failed, leaving
    assert index.waiting_count == 1
    assert index.pending_best_effort == 1
    assert index.valid_count == 4 + 1 + 1 + 2  # those that hold room, done, pipelined, pending
    assert index.scheduled_count == 4  # running, bound, failed, done
    assert index.releasing_scheduled_count == 1  # the cancelled one never had a node
    assert index.allocated.milli_cpu == 4000
    assert index.total_request.milli_cpu == 11000


def test_ready_and_pipelined_count_pending_best_effort_tasks_and_starving_does_not() -> None:
    session = opened(3, *pods(2), pod("nothing", "g", 0, 0))
    job = standing(session, p_0=S.ALLOCATED)
    assert (job.is_ready, job.is_pipelined, job.is_starving) == (False, False, True)
    standing(session, p_1=S.PIPELINED)
    assert (job.is_ready, job.is_pipelined, job.is_starving) == (False, True, True)
    standing(session, p_1=S.ALLOCATED)
    assert (job.is_ready, job.is_pipelined, job.is_starving) == (True, True, True)


@pytest.mark.parametrize(
    ("phase", "pending"),
    [
        (PodGroupPhase.NONE, True),
        (PodGroupPhase.PENDING, True),
        (PodGroupPhase.INQUEUE, False),
        (PodGroupPhase.RUNNING, False),
        (PodGroupPhase.UNKNOWN, False),
        (PodGroupPhase.COMPLETED, False),
    ],
)
def test_a_job_is_pending_until_it_is_let_in(phase: PodGroupPhase, pending: bool) -> None:
    assert opened(1, phase=phase).job("g").is_pending is pending


# Roles: the worked example.


def roles(minimum: int) -> Opened:
    workers = pods(4, "worker", "w")
    return opened(
        minimum,
        pod("ps-0", "g", role="ps"),
        *workers,
        min_task_member=(("ps", 1), ("worker", 2)),
    )


def ready(session: Opened) -> bool:
    return session.session.votes.is_ready(session.job("g"))


def pipelined(session: Opened) -> bool:
    return session.session.votes.is_pipelined(session.job("g"))


def test_the_worked_example_enough_is_promised() -> None:
    session = roles(3)
    standing(session, ps_0=S.ALLOCATED, w_0=S.ALLOCATED, w_1=S.PIPELINED)
    assert not ready(session)
    assert pipelined(session)


def test_the_worked_example_a_role_is_missing() -> None:
    session = roles(3)
    standing(session, w_0=S.ALLOCATED, w_1=S.ALLOCATED, w_2=S.ALLOCATED)
    assert not ready(session)
    assert not pipelined(session)


def test_the_worked_example_a_minimum_below_the_sum_ignores_roles() -> None:
    session = roles(2)
    standing(session, w_0=S.ALLOCATED, w_1=S.ALLOCATED, w_2=S.ALLOCATED)
    assert ready(session)


def test_the_worked_example_a_best_effort_task_completes_the_gang() -> None:
    session = opened(3, *pods(2), pod("nothing", "g", 0, 0))
    standing(session, p_0=S.ALLOCATED, p_1=S.ALLOCATED)
    assert ready(session)


# Whether a job goes on when a task of it found no node.


def goes_on(session: Opened, *failed: str) -> bool:
    job = session.job("g")
    for name in failed:
        job.fit_errors[session.task(name).uid] = FitErrors(1)
    return job.needs_more_tries(job.sub_job_of(session.task(failed[0]).uid))


def test_a_job_that_needs_all_its_tasks_does_not_go_on() -> None:
    assert not goes_on(opened(3, *pods(3)), "p-0")
    assert not goes_on(opened(4, *pods(3)), "p-0")  # nor one that needs more than it has


def test_a_job_that_can_do_without_some_goes_on() -> None:
    assert goes_on(opened(2, *pods(3)), "p-0")


def test_a_failed_role_that_has_its_minimum_does_not_end_the_job() -> None:
    session = roles(3)
    assert not goes_on(session, "w-0")
    standing(session, w_1=S.ALLOCATED, w_2=S.ALLOCATED)
    assert goes_on(session, "w-0")
    assert not goes_on(session, "ps-0")


def test_a_role_without_a_minimum_never_ends_the_job() -> None:
    session = opened(2, *pods(3, "extra"), min_task_member=(("ps", 1),))
    assert goes_on(session, "p-0")


def test_with_role_minima_above_the_jobs_own_enough_tasks_of_other_roles_must_be_left() -> None:
    minima = (("a", 3), ("b", 3))
    some = [*pods(3, "a", "a"), *pods(3, "b", "b")]
    assert goes_on(opened(3, *some, min_task_member=minima), "a-0")
    assert not goes_on(opened(4, *some, min_task_member=minima), "a-0")
    assert not goes_on(opened(3, *some, min_task_member=minima), "a-0", "b-0")


def test_a_job_with_policies_goes_on_until_the_sub_job_needs_all_it_has() -> None:
    policy = SubGroupPolicy("part", match_label_keys=("part",), sub_group_size=2)
    some = [replace(p, labels={"part": "1"}) for p in pods(3)]
    assert goes_on(opened(1, *some, sub_group_policies=(policy,)), "p-0")
    tight = replace(policy, sub_group_size=3)
    assert not goes_on(opened(1, *some, sub_group_policies=(tight,)), "p-0")


# Sub-jobs.


def divided(*policies: SubGroupPolicy, **labels: dict[str, str]) -> Job:
    some = [replace(pod(name, "g"), labels=given) for name, given in labels.items()]
    return opened(2, *some, sub_group_policies=policies).job("g")


def parts(job: Job) -> dict[str, list[str]]:
    return {id_: sorted(t.name for t in sub.index) for id_, sub in sorted(job.sub_jobs.items())}


ROW_IS_A = LabelSelector((Requirement("row", Operator.IN, ("a",)),))


def test_without_policies_the_job_is_its_only_part() -> None:
    job = opened(2, *pods(2), network_topology=NetworkTopology(highest_tier=1)).job("g")
    (only,) = job.sub_jobs.values()
    assert (only.id, only.group_id, only.min_available) == ("ns/g", "ns/g", 2)
    assert only.network_topology == NetworkTopology(highest_tier=1)


def test_a_task_belongs_to_the_first_policy_whose_selector_and_keys_match() -> None:
    first = SubGroupPolicy("a", ROW_IS_A, ("rank", "zone"), sub_group_size=3)
    second = SubGroupPolicy("b", None, ("rank",), network_topology=NetworkTopology(highest_tier=2))
    job = divided(
        first,
        second,
        both={"row": "a", "rank": "1", "zone": "z"},
        unselected={"row": "b", "rank": "1", "zone": "z"},
        keyless={"row": "a", "rank": "1"},
        blank={"row": "a", "rank": "", "zone": "z"},
        other={"row": "a", "rank": "2", "zone": "z"},
    )
    assert parts(job) == {
        "ns/g": ["blank"],
        "ns/g/a-1-z": ["both"],
        "ns/g/a-2-z": ["other"],
        "ns/g/b-1": ["keyless", "unselected"],
    }
    named = job.sub_jobs["ns/g/a-2-z"]
    assert (named.group_id, named.min_available, named.match_index) == ("ns/g/a", 3, 2)
    assert job.sub_jobs["ns/g/b-1"].network_topology == NetworkTopology(highest_tier=2)
    # With policies, what nobody takes needs one task only.
    assert job.sub_jobs["ns/g"].min_available == 1


def test_the_size_of_a_sub_group_is_one_unless_it_says_more() -> None:
    job = divided(SubGroupPolicy("a", match_label_keys=("rank",)), p={"rank": "0"})
    assert job.sub_jobs["ns/g/a-0"].min_available == 1


def test_a_policy_without_keys_takes_nobody_and_can_keep_the_job_invalid() -> None:
    policy = SubGroupPolicy("a", ROW_IS_A, min_sub_groups=1)
    session = opened(1, replace(pod("p", "g"), labels={"row": "a"}), sub_group_policies=(policy,))
    job = session.job("g")
    assert parts(job) == {"ns/g": ["p"]}
    assert session.session.votes.why_not_valid(job) is not None


@pytest.mark.parametrize(
    ("value", "index"), [("7", 7), ("x", 0), ("1_0", 0), ("7b", 0), ("99999999999999999999", 0)]
)
def test_the_index_of_a_sub_job_is_its_first_value_as_a_number(value: str, index: int) -> None:
    job = divided(SubGroupPolicy("a", match_label_keys=("rank",)), p={"rank": value})
    assert job.sub_jobs[f"ns/g/a-{value}"].match_index == index


def test_values_of_more_than_128_characters_are_hashed_into_the_id() -> None:
    policy = SubGroupPolicy("a", match_label_keys=("one", "two", "three"))
    longest = {"one": "x" * 63, "two": "y" * 62, "three": "z"}
    assert list(divided(policy, p=longest).sub_jobs) == [f"ns/g/a-{'x' * 63}-{'y' * 62}-z"]
    (id_,) = divided(policy, p={**longest, "three": "zz"}).sub_jobs
    # FNV-32a of the joined values, in letters and digits that spell no words.
    assert set(id_.removeprefix("ns/g/a-")) <= set("bcdfghjklmnpqrstvwxz2456789")


def test_a_change_of_policies_divides_anew() -> None:
    session = opened(1, replace(pod("p", "g"), labels={"rank": "1", "row": "a"}))
    assert parts(session.job("g")) == {"ns/g": ["p"]}
    policy = SubGroupPolicy("a", match_label_keys=("rank",))
    session.engine.apply([Upserted(pod_group("g", 1, sub_group_policies=(policy,)))])
    assert parts(session.job("g")) == {"ns/g/a-1": ["p"]}
