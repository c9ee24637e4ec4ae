"""The phase of a PodGroup when a session ends."""

from __future__ import annotations

from pumice.core.cache.jobs import Job
from pumice.core.model.group import PodGroupPhase
from pumice.core.model.status import TaskStatus

# Names of their own: Python 3.11 is slow to find members of enumerations.
_RELEASING, _RUNNING = TaskStatus.RELEASING, TaskStatus.RUNNING
_SUCCEEDED, _FAILED = TaskStatus.SUCCEEDED, TaskStatus.FAILED
_INQUEUE = PodGroupPhase.INQUEUE
WAITING_PHASES = (PodGroupPhase.UNKNOWN, PodGroupPhase.PENDING, _INQUEUE)


def phase_of(job: Job, *, unschedulable: bool) -> PodGroupPhase:
    index = job.index
    if unschedulable and index.count(_RUNNING):
        return PodGroupPhase.UNKNOWN
    minimum = job.group.min_member if job.group else 0
    scheduled = index.scheduled_count
    if index.with_status(_RELEASING):
        scheduled += index.releasing_scheduled_count
    if scheduled >= minimum:
        finished = index.count(_FAILED, _SUCCEEDED)
        return PodGroupPhase.COMPLETED if scheduled == finished else PodGroupPhase.RUNNING
    if job.phase is _INQUEUE:
        return _INQUEUE
    return PodGroupPhase.PENDING
