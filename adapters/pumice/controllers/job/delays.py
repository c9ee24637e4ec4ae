"""How long changes may wait, so that one reconcile of a Job handles several changes.

A Job with ten pods changes about forty times until it runs. Most of these changes are results of the
controller's own writes, or pods that start before enough pods have started. For such a change there is
nothing to do except for the counters, which are written later anyway.
"""

from collections.abc import Sequence
from typing import Any, Final

from pumice.controllers.job.dependencies import has_dependencies
from pumice.controllers.job.lifecycle import has_timeouts
from pumice.controllers.job.types import Job, JobSpec, Phase, Pod
from pumice.controllers.podgroup.types import PodGroup
from pumice.controllers.resources import JOBS, POD_GROUP, PODS
from pumice.controllers.runtime.objects import Key
from pumice.controllers.runtime.watches import Change

# Delay of a pod that starts, if enough pods may have started: other pods usually follow.
STARTED_SECONDS: Final = 0.1
# Delay of a change that requires nothing.
IDLE_SECONDS: Final = 2.0
_STARTS: Final = ("Pending", "Running")
_OWN_PHASES: Final = (("", "Pending"), ("", "Running"), _STARTS)
_STARTED: Final = frozenset({"Running", "Succeeded", "Failed"})


class ChangeDelays:
    """The delays of changes, which depend on what was last observed of each Job."""

    def __init__(self) -> None:
        # How many more pods must start until a job runs, for jobs that wait for nothing else.
        self._missing: dict[Key, int] = {}

    def observe(self, key: Key, job: Job, spec: JobSpec, pods: Sequence[Pod]) -> None:
        """Remembers how many pods a job lacks."""
        if (
            job.status.phase is not Phase.PENDING
            or job.metadata.is_terminating
            or has_timeouts(spec)
            or has_dependencies(spec)
        ):
            self.forget(key)
            return
        started = sum(pod.status.phase in _STARTED for pod in pods)
        self._missing[key] = spec.min_available - started

    def forget(self, key: Key) -> None:
        self._missing.pop(key, None)

    def seconds(self, change: Change[Any]) -> float:
        """How long a change may wait. Must be called once for each change of a pod, which it counts."""
        match change.watch.resource.full_name:
            case PODS.full_name:
                return self._of_pod(change)
            case POD_GROUP.full_name:
                is_idle = _is_idle_group(change) and _job_of(change) in self._missing
            case JOBS.full_name:
                is_idle = _is_own_phase(change) and change.latest.metadata.key in self._missing
            case _:
                is_idle = False
        return IDLE_SECONDS if is_idle else 0.0

    def _of_pod(self, change: Change[Pod]) -> float:
        old, new, key = change.old, change.new, _job_of(change)
        if new is None or new.metadata.is_terminating:
            return 0.0
        if old is None:
            is_created = new.status.phase == "Pending" and key in self._missing
            return IDLE_SECONDS if is_created else 0.0
        if (old.status.phase, new.status.phase) != _STARTS:
            return 0.0
        if key is None or key not in self._missing:
            return STARTED_SECONDS
        self._missing[key] -= 1
        return IDLE_SECONDS if self._missing[key] > 0 else STARTED_SECONDS


def _job_of(change: Change[Any]) -> Key | None:
    key: Key | None = change.latest.metadata.controller_key(JOBS)
    return key


def _is_idle_group(change: Change[PodGroup]) -> bool:
    """Whether a PodGroup was created, or got the phase Running or other counters."""
    old, new = change.old, change.new
    if new is None or new.metadata.is_terminating:
        return False
    phase = new.status.phase
    if old is None:
        return phase in ("", "Pending")
    if old.spec != new.spec or old.metadata.annotations != new.metadata.annotations:
        return False
    if phase == old.status.phase:
        return old.status.conditions == new.status.conditions
    return (old.status.phase, phase) == ("Inqueue", "Running")


def _is_own_phase(change: Change[Job]) -> bool:
    """Whether only the status changed, to a phase that the controller writes at the end of a plan."""
    old, new = change.old, change.new
    if old is None or new is None or not new.metadata.generation:
        return False
    return (old.status.state.phase, new.status.state.phase) in _OWN_PHASES and (
        _apart_from_status(old) == _apart_from_status(new)
    )


def _apart_from_status(job: Job) -> tuple[object, ...]:
    metadata = job.metadata
    return (
        metadata.uid,
        metadata.generation,
        metadata.deletion_timestamp,
        metadata.labels,
        metadata.annotations,
    )
