"""Executes actions that Commands and lifecycle policies ask for.

The new phase is stored first. If the process ends then, the next one continues from the stored phase.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from pumice.controllers.bus import Command
from pumice.controllers.job.deleting import pod_deletions, pods_to_delete
from pumice.controllers.job.lifecycle import POD_EVICTED, PolicyAction
from pumice.controllers.job.observed import Observed
from pumice.controllers.job.states import TARGETED, Facts, Kill, rule_for
from pumice.controllers.job.statuses import count_pods, current_status, set_phase, status_patch
from pumice.controllers.job.types import OUT_OF_SYNC, Action, Phase, Pod
from pumice.controllers.resources import PODS
from pumice.controllers.runtime.acts import Act, Patch, Plan

_COMMANDED: Final = tuple(one.value for one in Action if one is not Action.SYNC)


def execute_command(observed: Observed, command: Command) -> Plan:
    """Executes a Command, and deletes it after the new phase is stored.

    A process that ends in between leaves the Command. It has no further effect in the new phase.
    """
    name, removal = command.metadata.name, command.removal()
    text = f"Command {name}: {command.action}"
    if why := _why_without_effect(observed, command.action):
        return Plan.of([removal, observed.event("CommandIssued", f"{text} {why}")])
    issued = observed.event("CommandIssued", text, warning=False)
    action = Action.read(command.action)
    return _execute(observed, action, f"Command {name}", None, [removal, issued])


def _why_without_effect(observed: Observed, action: str) -> str:
    """Why a Command has no effect; "": it has one."""
    if action not in _COMMANDED:
        return f"is unknown; allowed: {', '.join(_COMMANDED)}"
    phase = observed.job.status.phase
    rule = rule_for(phase, Action.read(action))
    if rule.kill is Kill.TARGET or action in TARGETED:
        return "needs a pod or a task, which no Command has"
    stays = rule.next_phase(Facts(observed.spec, observed.job.status)) is None
    is_idle = not rule.actions or (rule.kill is Kill.NONE and stays)
    return f"has no effect: the job is {phase}" if is_idle else ""


def has_effect(observed: Observed, matched: PolicyAction) -> bool:
    """Whether the action of a policy changes anything in the current phase."""
    rule = rule_for(observed.job.status.phase, matched.action)
    if rule.kill is Kill.TARGET:
        # An evicted pod does not exist any more, but its restart counts as a retry, once.
        is_retry = matched.event.name == POD_EVICTED and rule.counts_retry
        return is_retry or bool(_targets(observed, matched))
    return rule.kill is not Kill.NONE or matched.action is Action.RESUME


def execute_policy(observed: Observed, matched: PolicyAction) -> Plan:
    return _execute(observed, matched.action, str(matched.event), matched, ())


def _execute(
    observed: Observed,
    action: Action,
    reason: str,
    matched: PolicyAction | None,
    afterwards: Sequence[Act],
) -> Plan:
    job = observed.job
    rule = rule_for(job.status.phase, action)
    status = current_status(job, observed.spec, observed.pods)
    if rule.counts_retry:
        status.retry_count += 1
    if rule.kill in (Kill.ALL, Kill.UNFINISHED):
        status.version += 1
    if rule.kill in (Kill.ALL, Kill.TARGET):
        phase = Phase.RESTARTING
    else:
        phase = rule.next_phase(Facts(observed.spec, status)) or job.status.phase
    set_phase(job, status, phase, observed.now_ms, action, reason)
    targets = (
        _targets(observed, matched) if rule.kill is Kill.TARGET and matched is not None else []
    )
    victims = targets
    if rule.kill is not Kill.TARGET:
        restarted = msgspec.structs.replace(job, status=status)
        victims = pods_to_delete(restarted, observed.spec, observed.pods)
    # As in Volcano, pods that are about to be deleted count as terminating. Some tools wait for it.
    count_pods(status, observed.pods, {pod.metadata.name for pod in victims})
    patch = status_patch(job, status)
    text = f"Start to execute action {action}: {reason}"
    executed = observed.event("ExecuteAction", text, warning=False)
    return Plan.of(
        [patch] if patch is not None else (),
        [*afterwards, executed],
        *(_delete_targets(observed, targets, matched.event.pod) if matched is not None else ()),
    )


def _targets(observed: Observed, matched: PolicyAction) -> list[Pod]:
    """The pods that a restart of a task, pod or partition deletes."""
    event = matched.event
    found = [pod for pod in observed.pods if pod.task == event.task]
    match matched.action:
        case Action.RESTART_POD:
            found = [pod for pod in found if pod.metadata.name == event.pod]
        case Action.RESTART_PARTITION:
            found = [pod for pod in found if event.partition and pod.partition == event.partition]
    return [pod for pod in found if not pod.metadata.is_terminating]


def _delete_targets(
    observed: Observed, pods: Sequence[Pod], cause: str
) -> tuple[Sequence[Act], ...]:
    """Marks pods, so that their deletion does not count as an eviction, and deletes them.

    The pod that caused the action is marked last: its event exists until it is marked.
    """
    mark = {"metadata": {"annotations": {OUT_OF_SYNC: "true"}}}
    unmarked = [pod.metadata for pod in pods if not pod.is_marked]
    return (
        [Patch.of(PODS, one, mark) for one in unmarked if one.name != cause],
        [Patch.of(PODS, one, mark) for one in unmarked if one.name == cause],
        pod_deletions(observed, pods),
    )
