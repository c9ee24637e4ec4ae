"""Reconciles one Job: a pure function from what is seen to what is to be done."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from pumice.controllers.job.counts import count_pods
from pumice.controllers.job.failing import failing_marks
from pumice.controllers.job.idle_policies import idle_policies
from pumice.controllers.job.killing import is_stale_group, pods_to_delete
from pumice.controllers.job.lifecycle import POD_EVICTED, Answer, Eviction, answers
from pumice.controllers.job.states import TARGETED, Facts, Kill, rule_for
from pumice.controllers.job.statuses import (
    is_plain_start,
    only_counters_differ,
    status_patch,
    with_phase,
)
from pumice.controllers.job.syncing import Work, cleanup_acts, job_patch, sync
from pumice.controllers.job.types import (
    FINISHED,
    OUT_OF_SYNC,
    Action,
    Command,
    Job,
    JobSpec,
    JobStatus,
    Phase,
    Pod,
    PodGroup,
)
from pumice.controllers.job.waiting import why_held, why_waiting
from pumice.controllers.orphaned_commands import Orphans, drop_orphans
from pumice.controllers.resources import COMMANDS, JOBS, POD_GROUP, PODS
from pumice.controllers.runtime.acts import (
    NOTHING,
    Act,
    Delete,
    Emit,
    Patch,
    Plan,
    Reference,
)

# Counters alone are written when they have been out of date for so long, a phase at once. While a job
# starts, its counters change until it runs, and that write has them too. When many jobs start at once,
# each of them takes longer, so their counters wait longer: about ten such writes a second are made.
COUNTERS_EVERY_MS: Final = 1000
STARTING_COUNTERS_MS: Final = 5000
_STARTING_COUNTERS_MS_PER_JOB: Final = 100
_LONGEST_COUNTERS_MS: Final = 60_000
# The phase Pending of so many new jobs is written at once. When more jobs are created at once, it waits
# as the counters do: most of the jobs run by then, and one write has both phases.
NEW_JOBS_AT_ONCE: Final = 20
_COMMANDED: Final = tuple(one.value for one in Action if one is not Action.SYNC)
_KILLING: Final = frozenset(
    {Phase.ABORTING, Phase.ABORTED, Phase.COMPLETING, Phase.TERMINATING, *FINISHED}
)


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that is known about a job."""

    job: Job
    # The spec with defaults.
    spec: JobSpec
    pods: tuple[Pod, ...] = ()
    group: PodGroup | None = None
    commands: tuple[Command, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    # None: the queue does not exist.
    is_forwarded: bool | None = False
    # Names of the claims that exist in the namespace, of those that the job needs.
    claims: frozenset[str] = frozenset()
    # Content of the ConfigMaps of the job's plugins, by name.
    config_maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)
    # Whether the PodGroup changed since the last reconcile.
    has_new_conditions: bool = False
    now_ms: int = 0
    # How long the stored counters have been out of date, or how long a job has had no stored phase.
    outdated_ms: int = STARTING_COUNTERS_MS
    # The state of a queue that takes no jobs; "": it takes jobs.
    shut: str = ""
    # How many jobs have stored counters that are out of date; of a job without a stored phase, how many
    # such jobs there are.
    outdated_jobs: int = 0
    # What the gang needs to be admitted; None: it is not computed yet.
    min_resources: Mapping[str, str] | None = None

    @property
    def about(self) -> Reference:
        return Reference.of(JOBS, self.job.metadata)


def reconcile(seen: Seen | Orphans) -> Plan:
    """What to do about a job now."""
    if isinstance(seen, Orphans):
        return drop_orphans(seen)
    if seen.job.metadata.is_terminating:
        return NOTHING
    phase = seen.job.status.phase
    if seen.commands:
        return _execute_command(seen, seen.commands[0])
    if phase in _KILLING:
        return _kill(seen)
    found = answers(
        seen.spec,
        seen.job.status.version,
        seen.pods,
        _current_group(seen),
        seen.evictions,
        seen.now_ms,
    )
    due = next((one for one in found if one.due_ms <= seen.now_ms), None)
    if due is not None and _has_effect(seen, due.action, due):
        reason = str(due.event)
        return Plan(_execute(seen, due.action, reason, due, ()))
    waits = [one.due_ms - seen.now_ms for one in found if one.due_ms > seen.now_ms]
    plan = _with_wait(_sync(seen), min(waits, default=None))
    marks = failing_marks(seen.spec, seen.job.status.version, seen.pods, found, seen.now_ms)
    return replace(plan, stages=(marks, *plan.stages)) if marks else plan


def _current_group(seen: Seen) -> PodGroup | None:
    group = seen.group
    return None if group is None or is_stale_group(seen.job, group) else group


def _with_wait(plan: Plan, wait_ms: int | None) -> Plan:
    if wait_ms is None:
        return plan
    seconds = wait_ms / 1000
    held = plan.again_seconds
    again = seconds if held is None else min(seconds, held)
    return replace(plan, again_seconds=again)


# Actions.


def _has_effect(seen: Seen, action: Action, answer: Answer | None) -> bool:
    rule = rule_for(seen.job.status.phase, action)
    if rule.kill is Kill.TARGET:
        if answer is None:
            return False
        # The pod of an eviction is gone; its restart counts all the same, once.
        is_first = answer.event.event == POD_EVICTED and rule.counts_retry
        return is_first or bool(_targets(seen, action, answer))
    return rule.kill is not Kill.NONE or action is Action.RESUME


def _execute_command(seen: Seen, command: Command) -> Plan:
    """Carries out a Command, and deletes it when the new phase is stored.

    A process that is killed in between finds the Command again, in a phase in which it has no
    further effect.
    """
    action = Action.read(command.action)
    metadata = command.metadata
    removal = Delete(COMMANDS, *metadata.key, uid=metadata.uid)
    text = f"Command {metadata.name}: {command.action}"
    if why := _why_idle(seen, command.action):
        return Plan(((removal, Emit(seen.about, "CommandIssued", f"{text} {why}", warning=True)),))
    said = Emit(seen.about, "CommandIssued", text)
    return Plan(_execute(seen, action, f"Command {metadata.name}", None, [removal, said]))


def _why_idle(seen: Seen, action: str) -> str:
    """Why a Command has no effect; "" when it has one."""
    if action not in _COMMANDED:
        return f"is unknown; allowed: {', '.join(_COMMANDED)}"
    phase = seen.job.status.phase
    rule = rule_for(phase, Action.read(action))
    if rule.kill is Kill.TARGET or action in TARGETED:
        return "needs a pod or a task, which no Command has"
    is_idle = rule.kill is Kill.NONE and rule.next_phase(Facts(seen.spec, seen.job.status)) is None
    return f"has no effect: the job is {phase}" if not rule.actions or is_idle else ""


def _execute(
    seen: Seen, action: Action, reason: str, answer: Answer | None, after: Sequence[Act]
) -> tuple[tuple[Act, ...], ...]:
    """Stores the new phase first; what follows from it can be found again after a crash."""
    rule = rule_for(seen.job.status.phase, action)
    status = _fresh_status(seen)
    if rule.counts_retry:
        status.retry_count += 1
    if rule.kill in (Kill.ALL, Kill.UNFINISHED):
        status.version += 1
    next_phase = Phase.RESTARTING if rule.kill in (Kill.ALL, Kill.TARGET) else None
    if next_phase is None:
        next_phase = rule.next_phase(Facts(seen.spec, status))
    with_phase(seen.job, status, next_phase or seen.job.status.phase, action, reason, seen.now_ms)
    # The pods that are about to be deleted count as terminating, as in Volcano: some tools wait for it.
    if rule.kill is Kill.TARGET:
        leaving = _targets(seen, action, answer) if answer is not None else []
    else:
        leaving = pods_to_delete(
            msgspec.structs.replace(seen.job, status=status), seen.spec, seen.pods
        )
    count_pods(status, seen.pods, {pod.metadata.name for pod in leaving})
    stages: list[tuple[Act, ...]] = []
    patch = status_patch(seen.job, status)
    if patch is not None:
        stages.append((patch,))
    said = Emit(seen.about, "ExecuteAction", f"Start to execute action {action}: {reason}")
    stages.append((*after, said))
    if rule.kill is Kill.TARGET and answer is not None:
        stages += _kill_targets(seen, _targets(seen, action, answer), answer.event.pod)
    return tuple(stages)


def _targets(seen: Seen, action: Action, answer: Answer) -> list[Pod]:
    """The pods that a targeted restart deletes."""
    event = answer.event
    found = [pod for pod in seen.pods if pod.task == event.task]
    match action:
        case Action.RESTART_POD:
            found = [pod for pod in found if pod.metadata.name == event.pod]
        case Action.RESTART_PARTITION:
            found = [pod for pod in found if event.partition and pod.partition == event.partition]
    return [pod for pod in found if not pod.metadata.is_terminating]


def _kill_targets(seen: Seen, pods: Iterable[Pod], cause: str) -> list[tuple[Act, ...]]:
    """Marks pods, so that their deletion is not taken for an eviction, and deletes them.

    The pod that caused it is marked last: as long as it is not marked, its event holds.
    """
    victims = list(pods)
    mark = {"metadata": {"annotations": {OUT_OF_SYNC: "true"}}}
    new = [pod for pod in victims if not pod.is_marked]
    ordered = (
        [pod for pod in new if pod.metadata.name != cause],
        [pod for pod in new if pod.metadata.name == cause],
    )
    marks = [
        tuple(Patch(PODS, *pod.metadata.key, pod.metadata.uid, mark) for pod in some)
        for some in ordered
        if some
    ]
    return [*marks, tuple(_delete_pods(seen, victims))]


def _delete_pods(seen: Seen, pods: Iterable[Pod]) -> list[Act]:
    refused = Emit(seen.about, "FailedDelete", "Error deleting pods")
    return [
        Delete(PODS, *pod.metadata.key, uid=pod.metadata.uid, on_refusal=refused) for pod in pods
    ]


# Phases in which pods end.


def _kill(seen: Seen) -> Plan:
    """Deletes pods that are not finished and what the job has no use for any more."""
    first: list[Act] = _delete_pods(seen, pods_to_delete(seen.job, seen.spec, seen.pods))
    group = seen.group
    if group is not None and not group.metadata.is_terminating:
        first.append(Delete(POD_GROUP, *group.metadata.key, uid=group.metadata.uid))
    status = _fresh_status(seen)
    phase = seen.job.status.phase
    next_phase = rule_for(phase, Action.SYNC).next_phase(Facts(seen.spec, status))
    if first:
        # The counters are written when the pods are terminating.
        return Plan((tuple(first),))
    cleared: list[Act] = []
    if (next_phase or phase) in (*FINISHED, Phase.ABORTED):
        cleared = _cleanup(seen, status)
    if next_phase is not None:
        with_phase(seen.job, status, next_phase, None, "", seen.now_ms)
    return _plan(seen, [tuple(cleared)] if cleared else [], status)


def _cleanup(seen: Seen, status: JobStatus) -> list[Act]:
    """Deletes the objects of plugins, and takes the plugins off the status."""
    held = status.controlled_resources or {}
    if not any(key.startswith("plugin-") for key in held):
        return []
    status.controlled_resources = {
        key: value for key, value in held.items() if not key.startswith("plugin-")
    } or None
    return cleanup_acts(seen.job, seen.spec, held)


# Phases in which pods are wanted.


def _sync(seen: Seen) -> Plan:
    job = seen.job
    status = _fresh_status(seen)
    if job.status.phase is Phase.RESTARTING:
        victims = pods_to_delete(job, seen.spec, seen.pods)
        stale = seen.group is not None and is_stale_group(job, seen.group)
        first: list[Act] = _delete_pods(seen, victims)
        if stale and seen.group is not None and not seen.group.metadata.is_terminating:
            metadata = seen.group.metadata
            first.append(Delete(POD_GROUP, *metadata.key, uid=metadata.uid))
        if first:
            return Plan((tuple(first),))
    next_phase = rule_for(job.status.phase, Action.SYNC).next_phase(Facts(seen.spec, status))
    # A job that ends needs nothing more.
    work = Work()
    if next_phase not in FINISHED:
        first_patch = _outdated_message(seen) or job_patch(seen)
        if first_patch is not None:
            return Plan(((first_patch,),))
        work = sync(seen, status)
    if not job.status.state.phase:
        since_ms = seen.now_ms if next_phase is None else seen.now_ms - seen.outdated_ms
        with_phase(job, status, Phase.PENDING, None, "", since_ms)
    if next_phase is not None:
        with_phase(job, status, next_phase, None, "", seen.now_ms)
    if next_phase not in FINISHED:
        _set_wait_message(seen, status)
    plan = _plan(seen, work.stages, status)
    fallback = () if job.status.state.phase else _pending_patch(seen)
    return Plan(plan.stages, plan.again_seconds, work.problem, fallback)


def _pending_patch(seen: Seen) -> tuple[Act, ...]:
    """The first phase of a new job, if what it needs cannot be made."""
    status = msgspec.structs.replace(seen.job.status, min_available=seen.spec.min_available)
    with_phase(seen.job, status, Phase.PENDING, None, "", seen.now_ms)
    patch = status_patch(seen.job, status)
    return () if patch is None else (patch,)


def _outdated_message(seen: Seen) -> Patch | None:
    """Removes why a job waited, before the writes that follow: one of them may be refused."""
    state = seen.job.status.state
    if state.reason or not state.message or why_waiting(seen) or why_held(seen):
        return None
    cleared = msgspec.structs.replace(state, message="")
    return status_patch(seen.job, msgspec.structs.replace(seen.job.status, state=cleared))


def _set_wait_message(seen: Seen, status: JobStatus) -> None:
    """Puts into the status why a job waits. A phase that an action led to keeps its own message."""
    state = status.state
    wait = why_waiting(seen) or why_held(seen)
    if not state.reason and state.message != wait:
        status.state = msgspec.structs.replace(state, message=wait)


def _fresh_status(seen: Seen) -> JobStatus:
    """A copy of the stored status, with counters of now."""
    status = msgspec.structs.replace(seen.job.status, min_available=seen.spec.min_available)
    count_pods(status, seen.pods)
    return status


def _plan(seen: Seen, stages: Sequence[tuple[Act, ...]], status: JobStatus) -> Plan:
    """The stages, and then the status; counters alone, or the first phase of many jobs, wait."""
    patch = status_patch(seen.job, status)
    if patch is None:
        return Plan(tuple(stages)) if stages else NOTHING
    wait_ms = 0
    if only_counters_differ(seen.job, status):
        wait_ms = _counters_wait_ms(seen, status) - seen.outdated_ms
    elif is_plain_start(seen.job, status) and not any(idle_policies(seen.spec)):
        wait_ms = _first_phase_wait_ms(seen) - seen.outdated_ms
    if wait_ms > 0:
        return Plan(tuple(stages), again_seconds=wait_ms / 1000)
    return Plan((*stages, (patch,)))


def _first_phase_wait_ms(seen: Seen) -> int:
    later = seen.outdated_jobs - NEW_JOBS_AT_ONCE
    return min(_STARTING_COUNTERS_MS_PER_JOB * later, _LONGEST_COUNTERS_MS)


def _counters_wait_ms(seen: Seen, status: JobStatus) -> int:
    has_ended = status.succeeded or status.failed or status.terminating or status.unknown
    if status.phase is not Phase.PENDING or has_ended:
        return COUNTERS_EVERY_MS
    longer_ms = _STARTING_COUNTERS_MS_PER_JOB * seen.outdated_jobs
    return min(STARTING_COUNTERS_MS + longer_ms, _LONGEST_COUNTERS_MS)
