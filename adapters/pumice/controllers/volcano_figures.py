"""Figures under Volcano's names, read from the caches when they are asked for."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pumice.adapters.kubernetes.session import Fence
from pumice.controllers.job.controller import WATCHED_JOBS
from pumice.controllers.job.types import Phase
from pumice.controllers.jobflow.controller import WATCHED_FLOWS
from pumice.controllers.queue.controller import WATCHED_GROUPS, WATCHED_QUEUES
from pumice.controllers.queue.reconcile import COUNTERS
from pumice.controllers.runtime.loop import ControllerLoop
from pumice.controllers.runtime.watches import Watch

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
Sample: TypeAlias = tuple[str, tuple[str, ...], int]


class VolcanoFigures(Collector):
    """Figures of the controllers that run, on the leader only: sums over replicas count once."""

    def __init__(self, loop: ControllerLoop, leads: Fence = lambda: True) -> None:
        self._loop, self._leads = loop, leads

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily(name, text, labels=labels) for name, text, labels in FAMILIES]

    def collect(self) -> Iterable[Metric]:
        families = {
            name: GaugeMetricFamily(name, text, labels=labels) for name, text, labels in FAMILIES
        }
        samples = (self._of_queues(), self._of_jobs(), self._of_flows()) if self._leads() else ()
        for name, labels, value in chain.from_iterable(samples):
            families[name].add_metric(labels, value)
        return families.values()

    def _has(self, *watches: Watch[Any]) -> bool:
        return all(self._loop.watches(watch) for watch in watches)

    def _of_queues(self) -> Iterator[Sample]:
        if not self._has(WATCHED_QUEUES, WATCHED_GROUPS):
            return
        for queue in self._loop.caches[WATCHED_QUEUES]:
            name = queue.metadata.name
            counts = dict.fromkeys(COUNTERS, 0)
            for group in self._loop.caches[WATCHED_GROUPS].by("queue", name):
                phase = (group.status.phase or "Pending").lower()
                counts[phase] = counts.get(phase, 0) + 1
            for phase in COUNTERS:
                yield f"volcano_queue_pod_group_{phase}_count", (name,), counts[phase]

    def _of_jobs(self) -> Iterator[Sample]:
        if not self._has(WATCHED_JOBS):
            return
        for job in self._loop.caches[WATCHED_JOBS]:
            phase = job.status.phase
            if phase in (Phase.COMPLETED, Phase.FAILED):
                labels = ("/".join(job.metadata.key), job.spec.queue)
                yield f"volcano_job_{phase.value.lower()}_phase_count", labels, 1

    def _of_flows(self) -> Iterator[Sample]:
        if not self._has(WATCHED_FLOWS):
            return
        counts: dict[tuple[str, str], int] = {}
        for flow in self._loop.caches[WATCHED_FLOWS]:
            if flow.phase in ("Succeed", "Failed"):
                key = (flow.phase.lower(), flow.metadata.namespace)
                counts[key] = counts.get(key, 0) + 1
        for (phase, namespace), count in sorted(counts.items()):
            yield f"volcano_jobflow_{phase}_phase_count", (namespace,), count
