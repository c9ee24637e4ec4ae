"""The engine's sums counted again from nothing, slowly and obviously."""

from __future__ import annotations

from collections import Counter

from pumice.core.cache.cluster import ClusterCache
from pumice.core.cache.entries import NodeEntry
from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.cache.totals import Contribution, contribution_of
from pumice.core.model.resources import Resources
from pumice.core.model.status import COMPLETED, HOLDS_RESOURCES, TaskStatus

Amounts = dict[str, int | float]


def of(task: Task) -> Amounts:
    return dict(task.pod.spec.requests)


def total(tasks: list[Task]) -> Amounts:
    counted: Counter[str] = Counter()
    for task in tasks:
        counted.update(of(task))
    return {name: amount for name, amount in counted.items() if amount}


def of_arrays(cache: ClusterCache, array: str, row: int) -> Amounts:
    column = getattr(cache.table, array)[:, row]
    pairs = zip(cache.table.columns, column.tolist(), strict=True)
    return {name: amount for name, amount in pairs if amount}


def without(left: Amounts, *right: Amounts) -> Amounts:
    names = {*left, *(name for amounts in right for name in amounts)}
    counted = {n: left.get(n, 0) - sum(amounts.get(n, 0) for amounts in right) for n in names}
    return {name: amount for name, amount in counted.items() if amount}


def check(cache: ClusterCache) -> None:
    """Between sessions every number the cache keeps is what a recount finds."""
    cache.table.settle()
    assert cache.table.names == sorted(node.name for node in cache.nodes)
    for row, entry in enumerate(cache.table.rows):
        _check_node(cache, row, entry)
    for job in cache.jobs.values():
        _check_job(cache, job)
    _check_totals(cache)


def _check_node(cache: ClusterCache, row: int, entry: NodeEntry) -> None:
    on_it = [
        task
        for task in cache.tasks.values()
        if task.node_name == entry.name and task.status not in COMPLETED
    ]
    assert {task.uid for task in on_it} == set(entry.tasks)
    leaving = [task for task in on_it if task.status is TaskStatus.RELEASING]
    assert entry.node is not None
    offered: Amounts = {name: amount for name, amount in entry.node.allocatable if amount}
    used, releasing = total(on_it), total(leaving)
    assert of_arrays(cache, "allocatable", row) == offered
    assert of_arrays(cache, "used", row) == used
    assert of_arrays(cache, "releasing", row) == releasing
    assert of_arrays(cache, "idle", row) == without(offered, used)
    staying = total([task for task in on_it if task not in leaving])
    assert of_arrays(cache, "future", row) == without(offered, staying)
    assert of_arrays(cache, "kube_requested", row) == used
    assert cache.table.kube_pods[row] == len(on_it)


def _check_job(cache: ClusterCache, job: Job) -> None:
    tasks = [task for task in cache.tasks.values() if task.job_id == job.id]
    assert {task.uid for task in job.index} == {task.uid for task in tasks}
    for status in TaskStatus:
        counted = {task.uid for task in tasks if task.status is status}
        assert set(job.index.with_status(status)) == counted
    held = [task for task in tasks if task.status in HOLDS_RESOURCES]
    assert amounts_of(job.index.allocated) == total(held)
    assert amounts_of(job.index.total_request) == total(tasks)


def _check_totals(cache: ClusterCache) -> None:
    """What is kept for jobs that did not change since, and the sums of what is kept."""
    sums: dict[str, Contribution] = {}
    for id_, (version, queue, part) in cache.jobs.totals._seen.items():
        sums.setdefault(queue, Contribution.of_queue()).add(part)
        job = cache.jobs.get(id_)
        if job is not None and job.version == version and job.queue == queue:
            assert _by_name(part) == _by_name(contribution_of(job))
    assert cache.jobs.totals.queues() == sorted(sums)
    for queue, counted in sums.items():
        kept = cache.jobs.totals.of(queue)
        assert kept is not None
        assert _by_name(kept) == _by_name(counted)


def _by_name(part: Contribution) -> dict[str, Amounts]:
    names = ("allocated", "request", "inqueue", "elastic", "admitted")
    return {name: amounts_of(getattr(part, name)) for name in names}


def amounts_of(resources: Resources) -> Amounts:
    return {name: amount for name, amount in resources.items() if amount}
