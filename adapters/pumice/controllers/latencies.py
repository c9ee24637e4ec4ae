"""How long Jobs take until their pods exist and until they run."""

from typing import Final

from prometheus_client import CollectorRegistry, Histogram

from pumice.adapters.runtime.metrics import Metrics
from pumice.controllers.job.controller import WATCHED_JOBS
from pumice.controllers.job.times import milliseconds
from pumice.controllers.job.types import API_VERSION, KIND, Job, Phase
from pumice.controllers.runtime.loop import ControllerLoop
from pumice.controllers.runtime.objects import Manifest
from pumice.controllers.runtime.watches import Change

POD_CREATION: Final = "volcano_controller_job_to_pod_creation_latency_milliseconds"
# From 50 ms to 60 s in equal ratios: the bounds of Volcano's histogram, for the same dashboards.
_BUCKETS: Final = tuple(round(50.0 * 1200.0 ** (number / 29), 3) for number in range(30))


class JobLatencies:
    """Measures with the API server's times, which are whole seconds."""

    def __init__(self, loop: ControllerLoop, metrics: Metrics, registry: CollectorRegistry) -> None:
        self._caches, self._metrics = loop.caches, metrics
        self._pods = Histogram(
            POD_CREATION,
            "Time from the creation of a Job to the creation of each of its pods.",
            registry=registry,
            buckets=_BUCKETS,
        )
        if loop.watches(WATCHED_JOBS):
            loop.on_created(self.see_created)
            loop.caches[WATCHED_JOBS].listeners.append(self.see_job)

    def see_created(self, body: Manifest, metadata: Manifest) -> None:
        """Observes a pod of a Job."""
        if body["kind"] != "Pod":
            return
        for owner in body["metadata"].get("ownerReferences") or ():
            if (owner["apiVersion"], owner["kind"]) == (API_VERSION, KIND):
                job = self._caches[WATCHED_JOBS].get(metadata["namespace"], owner["name"])
                created = milliseconds(str(metadata.get("creationTimestamp") or ""))
                if job is not None and created:
                    since = milliseconds(job.metadata.creation_timestamp)
                    self._pods.observe(max(0, created - since))

    def see_job(self, change: Change[Job]) -> None:
        """Observes a Job that runs for the first time."""
        old, new = change.old, change.new
        if old is None or new is None or new.status.version or new.status.retry_count:
            return
        if old.status.phase is Phase.PENDING and new.status.phase is Phase.RUNNING:
            since = milliseconds(new.metadata.creation_timestamp)
            runs_at = milliseconds(new.status.state.last_transition_time or "")
            if since and runs_at:
                seconds = max(0, runs_at - since) / 1000
                self._metrics.observe("job_start_duration_seconds", seconds)
