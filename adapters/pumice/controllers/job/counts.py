"""The counters of a Job's status."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

import msgspec

from pumice.controllers.job.types import JobStatus, Pod

_COUNTERS = ("Pending", "Running", "Succeeded", "Failed")


def count_pods(
    status: JobStatus, pods: Iterable[Pod], leaving: AbstractSet[str] = frozenset()
) -> None:
    """Sets the counters of a status to what the pods are; pods that are leaving are terminating."""
    counts = dict.fromkeys((*_COUNTERS, "Unknown", "terminating"), 0)
    tasks: dict[str, dict[str, dict[str, int]]] = {}
    for pod in pods:
        metadata = pod.metadata
        if metadata.deletion_timestamp is not None or metadata.name in leaving:
            counts["terminating"] += 1
            continue
        phase = pod.status.phase if pod.status.phase in _COUNTERS else "Unknown"
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


def counters_differ(status: JobStatus, pods: Iterable[Pod]) -> bool:
    """Whether the counters of a status are not what the pods are."""
    counted = msgspec.structs.replace(status)
    count_pods(counted, pods)
    return counted != status
