"""Problems of a Job that its users should know, beyond the scheduler's reasons in the PodGroup."""

from collections.abc import Iterator
from typing import Final

from pumice.controllers.job.dependencies import first_pods, never_released
from pumice.controllers.job.lifecycle import UNKNOWN, delay_ms
from pumice.controllers.job.observed import Observed
from pumice.controllers.job.states import TARGETED
from pumice.controllers.job.types import Action, JobSpec, Phase, Policy, Task

MOST_PODS: Final = 100_000
# Volcano defines this event, and never raises it.
_JOB_UPDATED: Final = "JobUpdated"


def why_not_created(observed: Observed) -> str:
    """Why the controller creates no objects of a job; "": nothing prevents it."""
    spec = observed.spec
    if not spec.tasks:
        return "spec.tasks is empty; a job needs at least one task"
    names = [task.name for task in spec.tasks]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        return f"spec.tasks: the name {twice!r} occurs twice; each task needs its own name"
    if spec.total > MOST_PODS:
        return f"the tasks have {spec.total} replicas; allowed: {MOST_PODS}"
    if observed.is_forwarded is None:
        return f"queue {spec.queue!r} does not exist; the job waits for it"
    if observed.closed_state and observed.group is None:
        return _queue_is_closed(observed)
    if stuck := never_released(spec):
        return f"dependsOn of tasks {', '.join(stuck)}: each waits for itself or a missing task"
    return ""


def why_not_started(observed: Observed) -> str:
    """Why a job with a PodGroup does not start; "": the controller knows no reason."""
    if observed.job.status.phase not in (Phase.PENDING, Phase.RESTARTING):
        return ""
    minimum, total = observed.spec.min_available, observed.spec.total
    if minimum > total:
        return f"spec.minAvailable is {minimum}, and the tasks have {total} replicas together"
    group = observed.group
    if group is None:
        return ""
    if group.status.phase in ("", "Pending"):
        return _queue_is_closed(observed) if observed.closed_state else ""
    first = first_pods(observed.spec)
    is_unschedulable = any(one.type == "Unschedulable" for one in group.status.conditions or ())
    if first >= minimum or not is_unschedulable:
        return ""
    return (
        f"minAvailable is {minimum}, but {first} pods are created before any of them runs, because"
        f" of dependsOn; the gang starts with a minAvailable of at most {first}"
    )


def why_waiting(observed: Observed) -> str:
    """The message in the status of a job that waits; "": the job does not wait."""
    return why_not_created(observed) or why_not_started(observed)


def _queue_is_closed(observed: Observed) -> str:
    queue, state = observed.spec.queue, observed.closed_state
    return f"queue {queue!r} is {state}; the job waits until the queue is open"


# Policies.


def policies_without_effect(spec: JobSpec) -> Iterator[str]:
    """A sentence for each policy that can never act, with its field."""
    for number, policy in enumerate(spec.policies or ()):
        if why := _why_without_effect(policy, spec.tasks or [], is_of_task=False):
            yield f"spec.policies[{number}] has no effect: {why}"
    for task in spec.tasks or ():
        for number, policy in enumerate(task.policies or ()):
            if why := _why_without_effect(policy, [task], is_of_task=True):
                yield f"policies[{number}] of task {task.name} has no effect: {why}"


def _why_without_effect(policy: Policy, tasks: list[Task], *, is_of_task: bool) -> str:
    events = {*(policy.events or ()), policy.event} - {""}
    action = Action.read(policy.action)
    if delay_ms(policy) is None:
        return f"timeout is {policy.timeout!r}; allowed: a duration such as 1m30s"
    if action is Action.RESUME:
        return "ResumeJob acts on suspended jobs only, and those raise no events"
    if action is Action.RESTART_PARTITION and not any(task.partition_policy for task in tasks):
        return "RestartPartition needs a task with a partitionPolicy"
    if policy.exit_code is not None or not events:
        return ""
    if events == {_JOB_UPDATED}:
        return "the event JobUpdated never happens"
    if events <= {UNKNOWN, _JOB_UPDATED} and is_of_task:
        return "the event Unknown is one of the whole job; put the policy into spec.policies"
    if events <= {UNKNOWN, _JOB_UPDATED} and action in TARGETED:
        return f"the event Unknown names no task or pod, which {action} needs"
    return ""
