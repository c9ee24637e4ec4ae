"""The status of a Job: phases, conditions, and the patch from the stored one to the new one."""

from typing import Any, Final

import msgspec

from pumice.controllers.job.times import milliseconds, shown, shown_duration
from pumice.controllers.job.types import (
    FINISHED,
    Action,
    Job,
    JobCondition,
    JobState,
    JobStatus,
    Phase,
)
from pumice.controllers.resources import JOBS
from pumice.controllers.runtime.acts import Patch
from pumice.controllers.runtime.objects import Manifest

_COUNTERS: Final = (
    "pending",
    "running",
    "succeeded",
    "failed",
    "terminating",
    "unknown",
    "taskStatusCount",
)


def with_phase(
    job: Job, status: JobStatus, phase: Phase, action: Action | None, message: str, now_ms: int
) -> None:
    """Sets the phase of a status. The reason of a phase is the action that led to it."""
    if phase == job.status.state.phase and action is None:
        return
    now = shown(now_ms)
    reason = str(action) if action is not None else ""
    status.state = JobState(str(phase), reason, message, now)
    kept = [one for one in status.conditions or () if one.status != phase]
    status.conditions = [*kept, JobCondition(str(phase), now)]
    if phase in (*FINISHED, Phase.ABORTED):
        began = milliseconds(job.metadata.creation_timestamp)
        status.running_duration = shown_duration(now_ms - began) if began else None
    else:
        status.running_duration = None


def status_patch(job: Job, status: JobStatus) -> Patch | None:
    """The patch of the status subresource; None when nothing changed."""
    changes = difference(_plain(job.status), _plain(status))
    if not changes:
        return None
    metadata = job.metadata
    return Patch(
        JOBS,
        *metadata.key,
        metadata.uid,
        {"status": changes},
        version=metadata.resource_version,
        subresource="status",
    )


def only_counters_differ(job: Job, status: JobStatus) -> bool:
    return set(difference(_plain(job.status), _plain(status))) <= set(_COUNTERS)


def is_plain_start(job: Job, status: JobStatus) -> bool:
    """Whether a new job is Pending, and nothing else is to be stored that a later sync needs."""
    return (
        not job.status.state.phase
        and status.phase is Phase.PENDING
        and not status.state.message
        and not status.controlled_resources
    )


def _plain(status: JobStatus) -> Manifest:
    plain: Manifest = msgspec.to_builtins(status)
    return plain


def difference(old: Manifest, new: Manifest) -> Manifest:
    """The merge patch that makes the new object of the old one."""
    changes: Manifest = {name: None for name in old if name not in new}
    for name, value in new.items():
        held: Any = old.get(name)
        if isinstance(value, dict) and isinstance(held, dict):
            inner = difference(held, value)
            if inner:
                changes[name] = inner
        elif held != value or name not in old:
            changes[name] = value
    return changes
