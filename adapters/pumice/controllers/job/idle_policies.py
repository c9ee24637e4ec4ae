"""Policies that can never act, which a user should know of."""

from collections.abc import Iterator
from typing import Final

from pumice.controllers.job.lifecycle import UNKNOWN, delay_ms
from pumice.controllers.job.states import TARGETED
from pumice.controllers.job.types import Action, JobSpec, Policy, Task

_NEVER: Final = "JobUpdated"


def idle_policies(spec: JobSpec) -> Iterator[str]:
    """A sentence for each policy without an effect, with its field."""
    for number, policy in enumerate(spec.policies or ()):
        tasks = spec.tasks or []
        if why := _why_idle(policy, tasks, is_of_task=False):
            yield f"spec.policies[{number}] has no effect: {why}"
    for task in spec.tasks or ():
        for number, policy in enumerate(task.policies or ()):
            if why := _why_idle(policy, [task], is_of_task=True):
                yield f"policies[{number}] of task {task.name} has no effect: {why}"


def _why_idle(policy: Policy, tasks: list[Task], *, is_of_task: bool) -> str:
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
    if events == {_NEVER}:
        return "the event JobUpdated never happens"
    if events <= {UNKNOWN, _NEVER} and is_of_task:
        return "the event Unknown is one of the whole job; put the policy into spec.policies"
    if events <= {UNKNOWN, _NEVER} and action in TARGETED:
        return f"the event Unknown names no task or pod, which {action} needs"
    return ""
