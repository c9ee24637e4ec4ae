"""Metrics with Volcano's names: counts from the caches, and latencies of Jobs."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pumice.adapters.kubernetes.session import Fence
from pumice.adapters.runtime.metrics import Metrics
from pumice.controllers.job.controller import WATCHED_JOBS
from pumice.controllers.job.types import Job, Phase
from pumice.controllers.jobflow.controller import WATCHED_FLOWS
from pumice.controllers.queue.controller import WATCHED_GROUPS, WATCHED_QUEUES
from pumice.controllers.queue.reconcile import COUNTERS
from pumice.controllers.resources import JOBS
from pumice.controllers.runtime.loop import ControllerLoop
from pumice.controllers.runtime.objects import Manifest
from pumice.controllers.runtime.times import milliseconds
from pumice.controllers.runtime.watches import Change

_JOB: Final = ("job_name", "queue_name")
_QUEUE: Final = ("queue_name",)
_FLOW: Final = ("jobflow_namespace",)
# Name, help text, and labels.
FAMILIES: Final[Sequence[tuple[str, str, tuple[str, ...]]]] = (
    *(
        (
            f"volcano_queue_pod_group_{phase}_count",
            f"PodGroups of a queue that are {phase}.",
            _QUEUE,
        )
        for phase in COUNTERS
    ),
    ("volcano_job_completed_phase_count", "1: the Job is Completed.", _JOB),
    ("volcano_job_failed_phase_count", "1: the Job is Failed.", _JOB),
    ("volcano_jobflow_succeed_phase_count", "JobFlows of a namespace that are Succeed.", _FLOW),
    ("volcano_jobflow_failed_phase_count", "JobFlows of a namespace that are Failed.", _FLOW),
)
POD_CREATION: Final = "volcano_controller_job_to_pod_creation_latency_milliseconds"
# The bounds of Volcano's histogram, from 50 ms to 60 s in equal ratios.
_BUCKETS: Final = tuple(round(50.0 * 1200.0 ** (number / 29), 3) for number in range(30))
Sample: TypeAlias = tuple[str, tuple[str, ...], int]


class VolcanoMetrics(Collector):
    """Metrics of the running controllers. Only the leader has them, so that sums over replicas are right."""

    def __init__(self, loop: ControllerLoop, leads: Fence = lambda: True) -> None:
        self._loop, self._leads = loop, leads

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(name, text, labels=labels) for name, text, labels in FAMILIES]

    def collect(self) -> Iterable[Metric]:
        families = {
            name: GaugeMetricFamily(name, text, labels=labels) for name, text, labels in FAMILIES
        }
        samples = (self._queues(), self._jobs(), self._flows()) if self._leads() else ()
        for name, labels, value in chain.from_iterable(samples):
            families[name].add_metric(labels, value)
        return families.values()

    def _queues(self) -> Iterator[Sample]:
        # Only the Queue controller declares PodGroups with this index.
        if not self._loop.watches(WATCHED_GROUPS):
            return
        for queue in self._loop.caches[WATCHED_QUEUES]:
            name = queue.metadata.name
            counts = dict.fromkeys(COUNTERS, 0)
            for group in self._loop.caches[WATCHED_GROUPS].by("queue", name):
                phase = (group.status.phase or "Pending").lower()
                counts[phase] = counts.get(phase, 0) + 1
            for phase in COUNTERS:
                yield f"volcano_queue_pod_group_{phase}_count", (name,), counts[phase]

    def _jobs(self) -> Iterator[Sample]:
        if not self._loop.watches(WATCHED_JOBS):
            return
        for job in self._loop.caches[WATCHED_JOBS]:
            phase = job.status.phase
            if phase in (Phase.COMPLETED, Phase.FAILED):
                labels = ("/".join(job.metadata.key), job.spec.queue)
                yield f"volcano_job_{phase.value.lower()}_phase_count", labels, 1

    def _flows(self) -> Iterator[Sample]:
        if not self._loop.watches(WATCHED_FLOWS):
            return
        counts: dict[tuple[str, str], int] = {}
        for flow in self._loop.caches[WATCHED_FLOWS]:
            if flow.phase in ("Succeed", "Failed"):
                key = (flow.phase.lower(), flow.metadata.namespace)
                counts[key] = counts.get(key, 0) + 1
        for (phase, namespace), count in sorted(counts.items()):
            yield f"volcano_jobflow_{phase}_phase_count", (namespace,), count


class JobLatencies:
    """Measures the times that the API server stores, which are whole seconds."""

    def __init__(self, loop: ControllerLoop, metrics: Metrics, registry: CollectorRegistry) -> None:
        self._caches, self._metrics = loop.caches, metrics
        self._pods = Histogram(
            POD_CREATION,
            "Time from the creation of a Job to the creation of each of its pods.",
            registry=registry,
            buckets=_BUCKETS,
        )
        if loop.watches(WATCHED_JOBS):
            loop.on_created(self.on_created)
            loop.caches[WATCHED_JOBS].listeners.append(self.on_job_change)

    def on_created(self, body: Manifest, metadata: Manifest) -> None:
        """Measures a created pod of a Job."""
        if body["kind"] != "Pod":
            return
        for owner in body["metadata"].get("ownerReferences") or ():
            if (owner["apiVersion"], owner["kind"]) == (JOBS.api_version, JOBS.name):
                job = self._caches[WATCHED_JOBS].get(metadata["namespace"], owner["name"])
                created = milliseconds(metadata.get("creationTimestamp", ""))
                if job is not None and created:
                    since = milliseconds(job.metadata.creation_timestamp)
                    self._pods.observe(max(0, created - since))

    def on_job_change(self, change: Change[Job]) -> None:
        """Measures a Job that runs for the first time."""
        old, new = change.old, change.new
        if old is None or new is None or new.status.version or new.status.retry_count:
            return
        if old.status.phase is Phase.PENDING and new.status.phase is Phase.RUNNING:
            since = milliseconds(new.metadata.creation_timestamp)
            runs_at = milliseconds(new.status.state.last_transition_time or "")
            if since and runs_at:
                seconds = max(0, runs_at - since) / 1000
                self._metrics.observe("job_start_duration_seconds", seconds)
