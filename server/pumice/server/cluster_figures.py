"""Metrics of queues and jobs, computed on the owner's thread at each scrape."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pumice.core.cache.jobs import Job
from pumice.core.model.resources import Resources
from pumice.core.model.status import TaskStatus
from pumice.core.session.queues import QueueAccount
from pumice.server.clusters import Cluster
from pumice.server.metrics import MAX_JOB_SERIES
from pumice.server.pause import PauseReason
from pumice.server.served import ServedCluster

log = logging.getLogger("pumice.server")
# During a longer session the values of the last scrape are used.
_WAIT_SECONDS = 1.0

_QUEUE = ("queue_name", "cluster")
_JOB = ("job_name", "queue", "job_namespace", "cluster")
_AMOUNTS = {
    "allocated": "Resources that the jobs of a queue hold",
    "request": "Resources that the jobs of a queue hold or request",
    "deserved": "Resources that a queue deserves",
    "inqueue": "Resources reserved for jobs of a queue in phase Inqueue",
    "capacity": "The capability in the spec of a queue",
    "real_capacity": "Resources that a queue may use at most",
}
# Name, help text and labels of each metric.
FAMILIES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    *(
        (f"volcano_queue_{word}_{suffix}", f"{text}, {unit}.", labels)
        for word, text in _AMOUNTS.items()
        for suffix, unit, labels in (
            ("milli_cpu", "milli CPU", _QUEUE),
            ("memory_bytes", "bytes of memory", _QUEUE),
            ("scalar_resources", "other resources", ("queue_name", "resource", "cluster")),
        )
    ),
    ("volcano_queue_share", "The share of a queue: allocated divided by deserved.", _QUEUE),
    ("volcano_queue_weight", "The weight of a queue.", _QUEUE),
    ("volcano_queue_overused", "1: a queue has its deserved resources or more.", _QUEUE),
    ("volcano_unschedule_task_count", "Pending pods of a waiting job.", ("job_id", "cluster")),
    ("volcano_job_share", "Dominant share of a job.", ("job_ns", "job_id", "cluster")),
    ("volcano_e2e_job_scheduling_duration", "Milliseconds from creation to the last bind.", _JOB),
    ("volcano_e2e_job_scheduling_start_time", "Creation of the PodGroup, Unix seconds.", _JOB),
    ("volcano_e2e_job_scheduling_last_time", "Time of the last bind, Unix seconds.", _JOB),
    (
        "pumice_jobs_without_series",
        "Jobs without series of their own, because there are too many.",
        ("cluster",),
    ),
)
Sample = tuple[str, tuple[str, ...], float]


def figures_of(served: ServedCluster) -> list[Sample]:
    """Reads the values of all metrics. Runs on the owner's thread, between two sessions."""
    engine = served.state.engine
    samples = [sample for each in engine.accounts.values() for sample in _queue(each)]
    cache = engine.cache
    total = cache.session_total()
    waiting = {wait.job for wait in engine.waits}
    placed = [id_ for id_ in served.reporter.bind_times.last_ns if id_ in cache.jobs]
    shown = list(dict.fromkeys((*placed, *sorted(waiting))))
    for id_ in shown[:MAX_JOB_SERIES]:
        job = cache.jobs.get(id_)
        if job is not None and job.group is not None:
            last_ns = served.reporter.bind_times.last_ns.get(id_, 0)
            samples += _job(job, total, last_ns, is_waiting=id_ in waiting)
    samples.append(("pumice_jobs_without_series", (), float(max(0, len(shown) - MAX_JOB_SERIES))))
    return samples


def _queue(account: QueueAccount) -> Iterator[Sample]:
    name = account.name
    held = {
        "allocated": account.allocated,
        "request": account.request,
        "deserved": account.deserved,
        "inqueue": account.inqueue,
        "capacity": Resources.of(account.queue.capability or ()),
        "real_capacity": account.real_capability,
    }
    for word, amounts in held.items():
        yield f"volcano_queue_{word}_milli_cpu", (name,), _finite(amounts.milli_cpu)
        yield f"volcano_queue_{word}_memory_bytes", (name,), _finite(amounts.memory)
        for resource, amount in list(amounts.scalars.items()):
            yield f"volcano_queue_{word}_scalar_resources", (name, resource), _finite(amount)
    yield "volcano_queue_share", (name,), float(account.share_now())
    yield "volcano_queue_weight", (name,), float(account.queue.weight)
    overused = account.deserved.less_equal(account.allocated)
    yield "volcano_queue_overused", (name,), float(bool(overused))


def _finite(amount: float) -> float:
    """Any infinite amount, which means no limit, becomes +Inf."""
    return float(amount) if math.isfinite(amount) else math.inf


def _job(job: Job, total: Resources, last_ns: int, *, is_waiting: bool) -> Iterator[Sample]:
    group = job.group
    assert group is not None
    if is_waiting:
        pending = len(job.index.by_status.get(TaskStatus.PENDING, ()))
        yield "volcano_unschedule_task_count", (group.name,), float(pending)
    share = job.index.allocated.dominant_share(total)
    yield "volcano_job_share", (group.namespace, group.name), float(share)
    if last_ns:
        labels = (group.name, job.queue, group.namespace)
        start_ns = group.creation_time_ns
        yield "volcano_e2e_job_scheduling_duration", labels, (last_ns - start_ns) / 1e6
        yield "volcano_e2e_job_scheduling_start_time", labels, start_ns / 1e9
        yield "volcano_e2e_job_scheduling_last_time", labels, last_ns / 1e9


def _has_no_adapter(cluster: Cluster) -> bool:
    pause = cluster.served.pause
    return pause is not None and pause.reason is PauseReason.NO_ADAPTER


class ClusterCollector(Collector):
    """Collects the values of all clusters from their owners, on the thread of the metrics page."""

    def __init__(self, clusters: Callable[[], list[Cluster]]) -> None:
        self._clusters = clusters
        self._last: dict[str, list[Sample]] = {}

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(name, text, labels=labels) for name, text, labels in FAMILIES]

    def collect(self) -> Iterable[Metric]:
        families = {
            name: GaugeMetricFamily(name, text, labels=labels) for name, text, labels in FAMILIES
        }
        clusters = self._clusters()
        for cluster in clusters:
            # Jobs with the same name in different namespaces share a series, because Volcano's
            # label lacks the namespace.
            seen: set[tuple[str, tuple[str, ...]]] = set()
            if _has_no_adapter(cluster):
                # Another core may serve the cluster now, and report other values.
                continue
            for name, labels, value in self._ask(cluster):
                if (name, labels) not in seen:
                    seen.add((name, labels))
                    families[name].add_metric((*labels, cluster.name), value)
        self._last = {each.name: self._last.get(each.name, []) for each in clusters}
        return families.values()

    def _ask(self, cluster: Cluster) -> list[Sample]:
        answered = threading.Event()

        def answer() -> None:
            try:
                self._last[cluster.name] = figures_of(cluster.served)
            except Exception:
                # An error here must not drop the state of the cluster.
                log.exception("%s: cannot compute metrics", cluster.name)
            answered.set()

        cluster.owner.post(answer)
        answered.wait(_WAIT_SECONDS)
        return self._last.get(cluster.name, [])
