"""The status of a Job: counters of pods, phases, conditions, and the patch that stores a new status."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from pumice.controllers.job.types import (
    FINISHED,
    Action,
    Job,
    JobCondition,
    JobSpec,
    JobState,
    JobStatus,
    Phase,
    Pod,
)
from pumice.controllers.resources import JOBS
from pumice.controllers.runtime.acts import Patch
from pumice.controllers.runtime.objects import Manifest
from pumice.controllers.runtime.times import milliseconds, shown, shown_duration

# Phases of pods that have a counter; all others count as unknown.
_POD_PHASES: Final = ("Pending", "Running", "Succeeded", "Failed")
_COUNTERS: Final = (
    "pending",
    "running",
    "succeeded",
    "failed",
    "terminating",
    "unknown",
    "taskStatusCount",
)


def count_pods(
    status: JobStatus, pods: Iterable[Pod], deleted: AbstractSet[str] = frozenset()
) -> None:
    """Sets the counters of a status. Pods that are about to be deleted count as terminating."""
    counts = dict.fromkeys((*_POD_PHASES, "Unknown", "terminating"), 0)
    tasks: dict[str, dict[str, dict[str, int]]] = {}
    for pod in pods:
        metadata = pod.metadata
        if metadata.deletion_timestamp is not None or metadata.name in deleted:
            counts["terminating"] += 1
            continue
        phase = pod.status.phase if pod.status.phase in _POD_PHASES else "Unknown"
        counts[phase] += 1
        task = pod.task
        if task not in tasks:
            tasks[task] = {"phase": {}}
        phases = tasks[task]["phase"]
        phases[phase] = phases.get(phase, 0) + 1
    status.pending, status.running = counts["Pending"], counts["Running"]
    status.succeeded, status.failed = counts["Succeeded"], counts["Failed"]
    status.unknown, status.terminating = counts["Unknown"], counts["terminating"]
    status.task_status_count = tasks or None


def current_status(job: Job, spec: JobSpec, pods: Iterable[Pod]) -> JobStatus:
    """A copy of the stored status, with the counters of the observed pods."""
    status = msgspec.structs.replace(job.status, min_available=spec.min_available)
    count_pods(status, pods)
    return status


def counters_differ(status: JobStatus, pods: Iterable[Pod]) -> bool:
    """Whether the stored counters are outdated."""
    counted = msgspec.structs.replace(status)
    count_pods(counted, pods)
    return counted != status


def set_phase(
    job: Job,
    status: JobStatus,
    phase: Phase,
    now_ms: int,
    action: Action | None = None,
    message: str = "",
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
    """The patch that stores a status; None: it equals the stored one."""
    changes = difference(_plain(job.status), _plain(status))
    if not changes:
        return None
    return Patch.of_status(JOBS, job.metadata, changes, version=job.metadata.resource_version)


def only_counters_differ(job: Job, status: JobStatus) -> bool:
    return set(difference(_plain(job.status), _plain(status))) <= set(_COUNTERS)


def is_plain_start(job: Job, status: JobStatus) -> bool:
    """Whether a new job is Pending, and the status has nothing else that must be stored soon."""
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
    """The merge patch that changes the old object to the new one."""
    changes: Manifest = {name: None for name in old if name not in new}
    for name, value in new.items():
        stored: Any = old.get(name)
        if isinstance(value, dict) and isinstance(stored, dict):
            inner = difference(stored, value)
            if inner:
                changes[name] = inner
        elif stored != value or name not in old:
            changes[name] = value
    return changes
