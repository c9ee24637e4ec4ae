"""Why a Job waits, beyond what the scheduler says of its PodGroup."""

from typing import TYPE_CHECKING, Final

from pumice.controllers.job.dependencies import first_pods, never_released
from pumice.controllers.job.types import Phase

if TYPE_CHECKING:
    from pumice.controllers.job.reconcile import Seen

MOST_PODS: Final = 100_000


def why_waiting(seen: "Seen") -> str:
    """Why nothing is made of a job; "" when all is well."""
    if not seen.spec.tasks:
        return "spec.tasks is empty; a job needs at least one task"
    names = [task.name for task in seen.spec.tasks]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        return f"spec.tasks: the name {twice!r} is there twice; each task needs a name of its own"
    if seen.spec.total > MOST_PODS:
        return f"the tasks have {seen.spec.total} replicas; allowed: {MOST_PODS}"
    if seen.is_forwarded is None:
        return f"queue {seen.spec.queue!r} does not exist; the job waits for it"
    if seen.shut and seen.group is None:
        return _shut(seen)
    if stuck := never_released(seen.spec):
        return f"dependsOn of tasks {', '.join(stuck)}: each waits for itself or a missing task"
    return ""


def why_held(seen: "Seen") -> str:
    """Why a job whose objects are made does not start; "" when nothing is known here."""
    group = seen.group
    if seen.job.status.phase not in (Phase.PENDING, Phase.RESTARTING):
        return ""
    least, total = seen.spec.min_available, seen.spec.total
    if least > total:
        return f"spec.minAvailable is {least}, and the tasks have {total} replicas together"
    if group is None:
        return ""
    if group.status.phase in ("", "Pending"):
        return _shut(seen) if seen.shut else ""
    first = first_pods(seen.spec)
    is_told = any(one.type == "Unschedulable" for one in group.status.conditions or ())
    if first >= least or not is_told:
        return ""
    return (
        f"minAvailable is {least}, but {first} pods are created before any of them runs, because of"
        f" dependsOn; the gang starts with a minAvailable of at most {first}"
    )


def _shut(seen: "Seen") -> str:
    return f"queue {seen.spec.queue!r} is {seen.shut}; the job waits until the queue is open"
