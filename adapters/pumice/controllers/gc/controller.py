"""Deletes finished Jobs when their ttlSecondsAfterFinished has passed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pumice.controllers.job.controller import WATCHED_JOBS
from pumice.controllers.job.types import FINISHED, Job
from pumice.controllers.resources import JOBS
from pumice.controllers.runtime.acts import NOTHING, Delete, Patch, Plan
from pumice.controllers.runtime.controller import Caches, Controller
from pumice.controllers.runtime.objects import Key
from pumice.controllers.runtime.times import milliseconds, shown
from pumice.controllers.runtime.watches import Change, Watch


@dataclass(frozen=True, slots=True)
class Observed:
    """A finished Job, and the seconds after which it is deleted."""

    job: Job
    ttl_seconds: int
    now_ms: int


class GarbageCollector(Controller[Observed]):
    """Deletes Jobs with foreground propagation: their dependents are deleted first."""

    name = "gc-controller"
    watches: Sequence[Watch[Any]] = (WATCHED_JOBS,)

    def keys(self, change: Change[Job], caches: Caches) -> Iterable[Key]:
        # Also after the deletion, because the key may wait for years.
        job = change.latest
        return (job.metadata.key,) if _ttl_seconds(job) is not None else ()

    def observe(self, key: Key, caches: Caches, now_ms: int) -> Observed | None:
        job = caches[WATCHED_JOBS].get(*key)
        seconds = _ttl_seconds(job) if job is not None else None
        return None if job is None or seconds is None else Observed(job, seconds, now_ms)

    def reconcile(self, observed: Observed) -> Plan:
        metadata = observed.job.metadata
        version = metadata.resource_version
        if metadata.is_terminating:
            return NOTHING
        finished_ms = _finished_ms(observed.job)
        if not finished_ms:
            # Another controller finished the Job without a time; the time to live begins now.
            status = {"state": {"lastTransitionTime": shown(observed.now_ms)}}
            return Plan.of([Patch.of_status(JOBS, metadata, status, version=version)])
        left_ms = finished_ms + observed.ttl_seconds * 1000 - observed.now_ms
        if left_ms > 0:
            return Plan(again_seconds=left_ms / 1000)
        deletion = Delete(
            JOBS, *metadata.key, metadata.uid, version=version, propagation="Foreground"
        )
        return Plan.of([deletion])


def _ttl_seconds(job: Job) -> int | None:
    """The time to live of a finished Job; None: the Job is not finished, or stays."""
    return job.spec.ttl_seconds_after_finished if job.status.phase in FINISHED else None


def _finished_ms(job: Job) -> int:
    """When a Job finished; 0: its status does not have the time."""
    state = job.status.state
    times = [state.last_transition_time]
    times += [
        one.last_transition_time for one in job.status.conditions or () if one.status == state.phase
    ]
    return next((found for text in times if (found := milliseconds(text or ""))), 0)
