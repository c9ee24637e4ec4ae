"""News of a pod that holds what it held changes its task in place, with the same result."""

from dataclasses import replace

import pytest

from pumice.core.cache.cluster import ClusterCache
from pumice.core.cache.pods import PodQuestion
from pumice.core.cache.tasks import Task
from pumice.core.model.group import PodGroup, SubGroupPolicy
from pumice.core.model.node import Node
from pumice.core.model.pod import Pod, PodPhase, PodSpec
from pumice.core.model.selectors import LabelSelector, Operator, Requirement
from pumice.core.model.status import TaskStatus

AMOUNTS = (("cpu", 1000), ("memory", 1000), ("pods", 10))
SPEC = PodSpec(requests=(("cpu", 100), ("memory", 10), ("pods", 1)), scheduler_name="volcano")
POD = Pod("u", "ns", "p", SPEC, group_name="g", node_name="n", labels={"app": "a"})
WEB = LabelSelector((Requirement("app", Operator.IN, ("web",)),))


def cache_with(*pods: Pod, group: PodGroup | None = None) -> ClusterCache:
    cache = ClusterCache()
    for item in (Node("n-uid", "n", allocatable=AMOUNTS), group or PodGroup("g-uid", "ns", "g")):
        cache.upsert(item)
    for pod in pods:
        cache.upsert(pod)
    cache.settle()
    cache.pods.settle()
    return cache


def seen(cache: ClusterCache) -> list[object]:
    table, task, job = cache.table, cache.tasks["u"], cache.jobs["ns/g"]
    statuses = {status: sorted(held) for status, held in job.index.by_status.items() if held}
    sums = [job.index.allocated.get(name) for name, _ in AMOUNTS]
    sums += [job.index.total_request.get(name) for name, _ in AMOUNTS]
    counts = (job.index.ready_count, sums)
    places = [task.status, task.node_name, task.pod, task.counted_status]
    return [table.amounts.tolist(), statuses, counts, places, list(job.sub_jobs)]


@pytest.mark.parametrize(
    "change",
    [
        {"phase": PodPhase.RUNNING},
        {"phase": PodPhase.RUNNING, "labels": {"app": "web"}},
        {"phase": PodPhase.SUCCEEDED},
        {"terminating": True},
        {"node_name": ""},
        {"start_time_ns": 7},
        {"preemptable": False},
        {"spec": replace(SPEC, requests=(("cpu", 200), ("pods", 1)))},
    ],
)
def test_a_pod_that_changes_ends_where_one_that_came_so_is(change: dict[str, object]) -> None:
    cache, new = cache_with(POD), replace(POD, **change)  # type: ignore[arg-type]
    cache.upsert(new)
    cache.settle()
    assert seen(cache) == seen(cache_with(new))


def test_a_pod_that_starts_stays_the_task_it_was() -> None:
    cache = cache_with(POD)
    task = cache.tasks["u"]
    cache.upsert(replace(POD, phase=PodPhase.RUNNING))
    assert cache.tasks["u"] is task
    assert task.status is TaskStatus.RUNNING
    assert cache.table.rows[0].tasks["u"].counted_status is TaskStatus.RUNNING


def test_a_row_whose_pod_started_counts_as_changed() -> None:
    cache = cache_with(POD)
    before = cache.table.changes
    cache.upsert(replace(POD, phase=PodPhase.RUNNING))
    assert cache.table.touched_since(before).tolist() == [0]


def test_other_labels_are_counted_where_they_are_asked_for() -> None:
    cache = cache_with(POD)

    def sees(_: Task) -> bool:
        return True

    tally = cache.pods.tally(PodQuestion(frozenset(("ns",)), WEB, alive=False), sees)
    assert tally.total == 0
    cache.upsert(replace(POD, labels={"app": "web"}))
    assert (tally.total, tally.counts.tolist()) == (1, [1])
    cache.upsert(POD)
    assert (tally.total, tally.counts.tolist()) == (0, [0])


def test_other_labels_can_make_it_part_of_another_sub_job() -> None:
    policy = SubGroupPolicy("by-app", match_label_keys=("app",))
    group = PodGroup("g-uid", "ns", "g", sub_group_policies=(policy,))
    cache = cache_with(POD, group=group)
    cache.upsert(replace(POD, labels={"app": "web"}))
    assert list(cache.jobs["ns/g"].sub_jobs) == ["ns/g/by-app-web"]
