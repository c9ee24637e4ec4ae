"""Deletes finished Jobs with ttlSecondsAfterFinished."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pumice.controllers.job.controller import WATCHED_JOBS
from pumice.controllers.job.times import milliseconds, shown
from pumice.controllers.job.types import FINISHED, Job
from pumice.controllers.options import ControllerOptions
from pumice.controllers.resources import JOBS
from pumice.controllers.runtime.acts import NOTHING, Delete, Patch, Plan
from pumice.controllers.runtime.controller import Caches, Key
from pumice.controllers.runtime.watches import Change, Watch


@dataclass(frozen=True, slots=True)
class Finished:
    """A job with a time to live, and the time."""

    job: Job
    now_ms: int


class GarbageCollector:
    """Deletes Jobs in the foreground, with what they own."""

    name = "gc-controller"
    watches: Sequence[Watch[Any]] = (WATCHED_JOBS,)

    def __init__(self, options: ControllerOptions) -> None:
        self._options = options

    def keys(self, change: Change[Job], caches: Caches) -> Iterable[Key]:
        job = change.new
        return (job.metadata.key,) if job is not None and _has_limit(job) else ()

    def look(self, key: Key, caches: Caches, now_ms: int) -> Finished | None:
        job = caches[WATCHED_JOBS].get(*key)
        return Finished(job, now_ms) if job is not None and _has_limit(job) else None

    def reconcile(self, seen: Finished) -> Plan:
        job = seen.job
        seconds = job.spec.ttl_seconds_after_finished
        if seconds is None or job.metadata.is_terminating:
            return NOTHING
        ended = _ended_ms(job)
        if not ended:
            # Another controller ended the job without the time; the time to live begins now.
            return Plan(((_with_end(job, seen.now_ms),),))
        left_ms = ended + seconds * 1000 - seen.now_ms
        if left_ms > 0:
            return Plan(again_seconds=left_ms / 1000)
        metadata = job.metadata
        return Plan(
            (
                (
                    Delete(
                        JOBS,
                        *metadata.key,
                        uid=metadata.uid,
                        version=metadata.resource_version,
                        propagation="Foreground",
                    ),
                ),
            )
        )


def _ended_ms(job: Job) -> int:
    """When a job ended; 0: its status does not tell."""
    times = [job.status.state.last_transition_time]
    phase = job.status.state.phase
    times += [
        one.last_transition_time for one in job.status.conditions or () if one.status == phase
    ]
    return next((found for text in times if (found := milliseconds(text or ""))), 0)


def _with_end(job: Job, now_ms: int) -> Patch:
    metadata = job.metadata
    body = {"status": {"state": {"lastTransitionTime": shown(now_ms)}}}
    return Patch(
        JOBS, *metadata.key, metadata.uid, body, metadata.resource_version, subresource="status"
    )


def _has_limit(job: Job) -> bool:
    return job.spec.ttl_seconds_after_finished is not None and job.status.phase in FINISHED
