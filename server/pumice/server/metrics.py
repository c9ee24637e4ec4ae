"""What a core counts and measures, for Prometheus; Volcano's names where it has one."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pumice.core.decisions import SessionResult
from pumice.core.model.resources import Resources
from pumice.core.session.accounts import QueueAccount


def _buckets(low: float, high: float, count: int) -> tuple[float, ...]:
    step = (high / low) ** (1 / (count - 1))
    return tuple(low * step**number for number in range(count))


class Metrics:
    """All series of one core; a registry of its own, so that two cores can live in a process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.session_latency = Histogram(
            "volcano_e2e_scheduling_latency_milliseconds",
            "Time of a whole session.",
            buckets=_buckets(1, 5000, 20),
            registry=self.registry,
        )
        self.unscheduled_jobs = Gauge(
            "volcano_unschedule_job_count",
            "Jobs that the last session left waiting.",
            registry=self.registry,
        )
        self._queues: dict[str, frozenset[str]] = {}
        # CPU and memory, and the account's field that they show.
        self._queue_gauges = {
            (
                self._queue_gauge(f"{word}_milli_cpu", f"{text}, milli CPU."),
                self._queue_gauge(f"{word}_memory_bytes", f"{text}, bytes of memory."),
            ): amounts
            for word, text, amounts in (
                ("allocated", "What a queue's jobs hold", "allocated"),
                ("request", "What a queue's jobs hold or want", "request"),
                ("deserved", "What a queue deserves", "deserved"),
                ("inqueue", "What is promised to a queue's jobs", "inqueue"),
            )
        }
        self.queue_share = self._queue_gauge("share", "What a queue has of what it deserves.")
        self.queue_weight = self._queue_gauge("weight", "A queue's weight.")
        self.sessions = self._counter("sessions", "Sessions that ran.")
        self.skipped = self._counter("sessions_skipped", "Sessions that were not needed.")
        self.binds = self._counter("binds", "Binds decided.")
        self.evictions = self._counter("evictions", "Evictions decided.")
        self.waits = self._gauge("waiting_jobs", "Jobs left waiting.")
        self.faults = self._counter("plugin_faults", "Plugins that raised.")
        self.ops = self._counter("ops", "Ops taken in.")
        self.rejected = self._counter("ops_rejected", "Ops set aside.")
        self.quarantined = self._gauge("quarantined_objects", "Objects set aside.")
        self.snapshots = self._counter("snapshots", "Whole snapshots taken in.")
        self.streams = self._gauge("streams", "Streams being served.")
        self.drift = self._counter("drift", "Kinds found to differ.")
        self.alarm = self._gauge("drift_alarm", "1: healing failed twice, nothing is decided.")
        self.expired = self._counter("expired_decisions", "Decisions without outcome in time.")
        self.lost = self._counter("lost_decisions", "Decisions lost with a stream.")
        self.refused_configurations = self._counter(
            "configurations_refused", "Configurations not accepted."
        )
        self.refused_calls = Counter(
            "pumice_refused_calls",
            "Calls that ended with an error status of the core, by method and status code.",
            ("method", "code"),
            registry=self.registry,
        )
        self.crashes = self._counter("state_lost", "States dropped after an error.")

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(f"pumice_{name}", text, ("cluster",), registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"pumice_{name}", text, ("cluster",), registry=self.registry)

    def queues(self, cluster: str, accounts: Mapping[str, QueueAccount]) -> None:
        """What queues hold, want and may have, under Volcano's names and one label more."""
        for gauges, amounts in self._queue_gauges.items():
            for name, account in accounts.items():
                held: Resources = getattr(account, amounts)
                gauges[0].labels(name, cluster).set(held.milli_cpu)
                gauges[1].labels(name, cluster).set(held.memory)
        for name, account in accounts.items():
            self.queue_share.labels(name, cluster).set(account.share_now())
            self.queue_weight.labels(name, cluster).set(account.queue.weight)
        gone = self._queues.get(cluster, frozenset()) - accounts.keys()
        self._queues[cluster] = frozenset(accounts)
        plain = (gauge for gauges in self._queue_gauges for gauge in gauges)
        for gauge in (*plain, self.queue_share, self.queue_weight):
            for name in gone:
                gauge.remove(name, cluster)

    def _queue_gauge(self, name: str, text: str) -> Gauge:
        labels = ("queue_name", "cluster")
        return Gauge(f"volcano_queue_{name}", text, labels, registry=self.registry)

    def session(self, cluster: str, result: SessionResult, binds: int, duration_ns: int) -> None:
        self.session_latency.observe(duration_ns / 1e6)
        self.unscheduled_jobs.set(len(result.waits))
        self.sessions.labels(cluster).inc()
        self.binds.labels(cluster).inc(binds)
        self.evictions.labels(cluster).inc(len(result.decisions) - binds)
        self.waits.labels(cluster).set(len(result.waits))
        self.faults.labels(cluster).inc(len(result.faults))
