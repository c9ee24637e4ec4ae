"""Metrics of a core for Prometheus, with Volcano's names where Volcano has the metric.

Every series of a cluster has the label ``cluster``. Metrics of queues and jobs are computed at each
scrape, in ``cluster_figures``. ``docs/reference/metrics.md`` lists all metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import HistogramMetricFamily, Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from pumice.core import kernel
from pumice.core.cache.jobs import Job
from pumice.core.cache.tasks import Task
from pumice.core.decisions import Bind, Evict, SessionResult
from pumice.core.session.timings import CLOSING, OPENING


def exponential_buckets(low: float, high: float, count: int) -> tuple[float, ...]:
    """The buckets of Prometheus' ExponentialBucketsRange."""
    step = (high / low) ** (1 / (count - 1))
    return tuple(low * step**number for number in range(count))


# Volcano's names for the parts of a session outside its actions.
_ON_SESSION = {OPENING: "OnSessionOpen", CLOSING: "OnSessionClose"}
# Number of jobs of one cluster with series of their own. Other jobs are only counted.
MAX_JOB_SERIES = 2_000


class BulkHistogram(Collector):
    """A histogram that observes many values at once: a session may bind ten thousand pods."""

    def __init__(
        self, name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...]
    ) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._buckets = np.array(buckets)
        self._names = [*map(floatToGoString, buckets), "+Inf"]
        self._counts: dict[tuple[str, ...], np.ndarray[Any, np.dtype[np.int64]]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, labels: tuple[str, ...], values: Iterable[float]) -> None:
        given = np.fromiter(values, dtype=np.float64)
        if not len(given):
            return
        places = np.searchsorted(self._buckets, given, side="left")
        counts = np.bincount(places, minlength=len(self._names))
        held = self._counts.get(labels)
        self._counts[labels] = counts if held is None else held + counts
        self._sums[labels] = self._sums.get(labels, 0.0) + float(given.sum())

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for labels, counts in list(self._counts.items()):
            upto = map(float, np.cumsum(counts))
            buckets = list(zip(self._names, upto, strict=True))
            family.add_metric(labels, buckets, self._sums[labels])
        yield family

    def describe(self) -> Iterable[Metric]:
        yield HistogramMetricFamily(self._name, self._text, labels=self._labels)

    def remove_by_labels(self, labels: Mapping[str, str]) -> None:
        wanted = {self._labels.index(name): value for name, value in labels.items()}
        for key in list(self._counts):
            if all(key[place] == value for place, value in wanted.items()):
                del self._counts[key], self._sums[key]


@dataclass(slots=True)
class BindTimes:
    """The time of the last bind of each job."""

    last_ns: dict[str, int] = field(default_factory=dict)

    def bound(self, jobs: Iterable[str], now_ns: int) -> None:
        for job in jobs:
            # Moved to the end, so that the job with the oldest bind is dropped first.
            self.last_ns.pop(job, None)
            self.last_ns[job] = now_ns
        while len(self.last_ns) > MAX_JOB_SERIES:
            del self.last_ns[next(iter(self.last_ns))]


class Metrics:
    """All metrics of one core, in a separate registry, so that one process can have two cores."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._by_cluster: list[Any] = []
        self._add_volcano_metrics()
        self.sessions = self._counter("sessions", "Sessions that ran.")
        self.skipped = self._counter(
            "sessions_skipped", "Sessions that were skipped, because nothing had changed."
        )
        self.last_session = self._gauge(
            "last_session_timestamp_seconds",
            "Time of the last session, including sessions that were skipped.",
        )
        self.binds = self._counter("binds", "Binds decided.")
        self.evictions = self._counter("evictions", "Evictions decided.")
        self.waits = self._gauge("waiting_jobs", "Jobs that the last session left waiting.")
        self._add_plugin_metrics()
        self.ops = self._counter("ops", "Ops applied.")
        self.rejected = self._counter("ops_rejected", "Ops with an invalid object.")
        self.quarantined = self._gauge("quarantined_objects", "Invalid objects that are not used.")
        self.snapshots = self._counter("snapshots", "Complete snapshots received.")
        self.streams = self._gauge("streams", "Adapters connected.")
        self.drift = self._counter(
            "drift", "Kinds that were found to differ between adapter and core."
        )
        self.alarm = self._gauge("drift_alarm", "1: two resyncs failed, and scheduling is paused.")
        self.expired = self._counter("expired_decisions", "Decisions without an outcome in time.")
        self.lost = self._counter("lost_decisions", "Decisions lost with a stream.")
        self.refused_configurations = self._counter(
            "configurations_refused", "Configurations that were refused."
        )
        self.configuration_refused = self._gauge(
            "configuration_refused", "1: the last configuration was refused."
        )
        self.configured = self._gauge(
            "configuration_timestamp_seconds", "Time at which the configuration came into use."
        )
        self.paused = self._gauge(
            "cluster_paused", "1: scheduling is paused, for this reason.", "reason"
        )
        self.broken_queues = self._gauge(
            "broken_queues",
            "Queues without a parent, in a cycle of parents, or with both jobs and child queues.",
        )
        self.crashes = self._counter("state_lost", "States dropped after an error of the core.")
        self.recording_failures = self._counter(
            "recording_failures", "Failed attempts to write a recording."
        )
        self.refused_calls = Counter(
            "pumice_refused_calls",
            "Calls that ended with an error status of the core, by method and status code.",
            ("method", "code"),
            registry=self.registry,
        )
        self.kernel = Gauge(
            "pumice_compiled_kernel",
            "1: the compiled kernel is in use; 0: only NumPy, which is slower.",
            registry=self.registry,
        )
        self.kernel.set(int(kernel.rows is not None))

    def _add_volcano_metrics(self) -> None:
        self.session_latency = self._track(
            Histogram(
                "volcano_e2e_scheduling_latency_milliseconds",
                "Time of a whole session.",
                ("cluster",),
                buckets=exponential_buckets(1, 5000, 20),
                registry=self.registry,
            )
        )
        self.job_latency = self._bulk(
            "e2e_job_scheduling_latency_milliseconds",
            "Time from the creation of a PodGroup to the bind of one of its pods.",
            ("cluster",),
            exponential_buckets(100, 120_000, 30),
        )
        self.task_latency = self._bulk(
            "task_scheduling_latency_milliseconds",
            "Time from the creation of a pod to the decision to bind it (stage Assumed).",
            ("stage", "cluster"),
            exponential_buckets(50, 60_000, 30),
        )
        self.attempts = self._volcano_counter(
            "schedule_attempts",
            "Pods bound (scheduled), and jobs left waiting by a session (unschedulable).",
            "result",
        )
        self.victims = self._volcano_gauge(
            "pod_preemption_victims", "Evictions of the last session with evictions."
        )
        # A gauge, because Volcano's name lacks the suffix that the client library adds to counters.
        self.preemption_attempts = self._volcano_gauge(
            "total_preemption_attempts", "Total number of nodes that were searched for victims."
        )
        self.eviction_transactions = self._volcano_counter(
            "eviction_transactions", "Jobs for which pods were evicted.", "action"
        )
        self.unscheduled_jobs = self._volcano_gauge(
            "unschedule_job_count", "Jobs that the last session left waiting."
        )

    def _add_plugin_metrics(self) -> None:
        """Adds the metrics of actions and plugins."""
        self.faults = self._counter("plugin_faults", "Errors of plugins and actions.", "plugin")
        self.plugin_seconds = self._counter(
            "plugin_seconds",
            "Time of a plugin, by action; of built-in plugins in open and close only.",
            *("plugin", "action"),
        )
        self.plugin_calls = self._counter(
            "plugin_calls", "Calls of a plugin that were measured, by action.", "plugin", "action"
        )
        self.action_latency = self._track(
            Histogram(
                "volcano_action_scheduling_latency_milliseconds",
                "Time of an action in a session.",
                ("action", "cluster"),
                buckets=exponential_buckets(1, 2000, 20),
                registry=self.registry,
            )
        )
        self.plugin_latency = self._track(
            Histogram(
                "volcano_plugin_scheduling_latency_milliseconds",
                "Time of a plugin at the beginning and the end of a session.",
                ("plugin", "OnSession", "cluster"),
                buckets=exponential_buckets(0.1, 100, 15),
                registry=self.registry,
            )
        )

    def _track(self, metric: Any) -> Any:
        self._by_cluster.append(metric)
        return metric

    def _bulk(
        self, name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...]
    ) -> BulkHistogram:
        histogram = BulkHistogram(f"volcano_{name}", text, labels, buckets)
        self.registry.register(histogram)
        self._by_cluster.append(histogram)
        return histogram

    def _volcano_counter(self, name: str, text: str, *labels: str) -> Any:
        labels = (*labels, "cluster")
        return self._track(Counter(f"volcano_{name}", text, labels, registry=self.registry))

    def _volcano_gauge(self, name: str, text: str) -> Any:
        return self._track(Gauge(f"volcano_{name}", text, ("cluster",), registry=self.registry))

    def _counter(self, name: str, text: str, *labels: str) -> Any:
        labels = (*labels, "cluster")
        return self._track(Counter(f"pumice_{name}", text, labels, registry=self.registry))

    def _gauge(self, name: str, text: str, *labels: str) -> Any:
        labels = (*labels, "cluster")
        return self._track(Gauge(f"pumice_{name}", text, labels, registry=self.registry))

    def forget(self, cluster: str) -> None:
        """Removes the series of a cluster."""
        for metric in self._by_cluster:
            metric.remove_by_labels({"cluster": cluster})

    def record_session(
        self,
        cluster: str,
        result: SessionResult,
        duration_ns: int,
        jobs: Mapping[str, Job],
        tasks: Mapping[str, Task],
    ) -> None:
        """Counts a session that ran."""
        binds = [decision for decision in result.decisions if isinstance(decision, Bind)]
        self.session_latency.labels(cluster).observe(duration_ns / 1e6)
        self.unscheduled_jobs.labels(cluster).set(len(result.waits))
        self.sessions.labels(cluster).inc()
        self.last_session.labels(cluster).set(result.now_ns / 1e9)
        self.waits.labels(cluster).set(len(result.waits))
        for fault in result.faults:
            self.faults.labels(fault.author, cluster).inc()
        self._record_timings(cluster, result)
        self.attempts.labels("unschedulable", cluster).inc(len(result.waits))
        if binds:
            self._record_binds(cluster, result.now_ns, binds, jobs, tasks)
        if len(binds) < len(result.decisions):
            self._record_evictions(cluster, result)

    def _record_timings(self, cluster: str, result: SessionResult) -> None:
        for timing in result.timings:
            milliseconds = timing.duration_ns / 1e6
            if timing.plugin:
                labels = (timing.plugin, timing.action, cluster)
                self.plugin_seconds.labels(*labels).inc(timing.duration_ns / 1e9)
                self.plugin_calls.labels(*labels).inc(timing.calls)
                if timing.action in _ON_SESSION:
                    where = (timing.plugin, _ON_SESSION[timing.action], cluster)
                    self.plugin_latency.labels(*where).observe(milliseconds)
            elif timing.action not in _ON_SESSION:
                self.action_latency.labels(timing.action, cluster).observe(milliseconds)

    def _record_binds(
        self,
        cluster: str,
        now_ns: int,
        binds: list[Bind],
        jobs: Mapping[str, Job],
        tasks: Mapping[str, Task],
    ) -> None:
        self.binds.labels(cluster).inc(len(binds))
        self.attempts.labels("scheduled", cluster).inc(len(binds))
        held = (tasks.get(bind.uid) for bind in binds)
        created = (task.pod.creation_time_ns for task in held if task is not None)
        ages = ((now_ns - at_ns) / 1e6 for at_ns in created if at_ns)
        self.task_latency.observe(("Assumed", cluster), ages)
        names = (bind.gang.job for bind in binds if bind.gang is not None)
        groups = (job.group for job in map(jobs.get, names) if job is not None)
        starts = (group.creation_time_ns for group in groups if group is not None)
        waits = ((now_ns - at_ns) / 1e6 for at_ns in starts if at_ns)
        self.job_latency.observe((cluster,), waits)

    def _record_evictions(self, cluster: str, result: SessionResult) -> None:
        evictions = [decision for decision in result.decisions if isinstance(decision, Evict)]
        self.evictions.labels(cluster).inc(len(evictions))
        self.victims.labels(cluster).set(len(evictions))
        tried = result.work.get("nodes_tried_for_victims", 0)
        self.preemption_attempts.labels(cluster).inc(tried)
        for action, _ in {(result.action_of(each), each.for_job) for each in evictions}:
            self.eviction_transactions.labels(action or "core", cluster).inc()
