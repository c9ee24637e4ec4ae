"""Reconciles one Job: a pure function from what is observed to a plan."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from pumice.controllers.job.actions import execute_command, execute_policy, has_effect
from pumice.controllers.job.deleting import deletions
from pumice.controllers.job.lifecycle import failing_since_patches, policy_actions
from pumice.controllers.job.observed import Observed
from pumice.controllers.job.problems import policies_without_effect, why_waiting
from pumice.controllers.job.states import Facts, rule_for
from pumice.controllers.job.statuses import (
    current_status,
    is_plain_start,
    only_counters_differ,
    set_phase,
    status_patch,
)
from pumice.controllers.job.syncing import Sync, delete_plugin_objects, job_patch, sync
from pumice.controllers.job.types import FINISHED, Action, JobStatus, Phase
from pumice.controllers.runtime.acts import NOTHING, Act, Patch, Plan

# A phase is written at once. Counters alone are written after they have been outdated for this time. The
# counters of a starting job wait longer, because the write of the phase Running has them too. When many
# jobs start together, each of them starts later, so their counters wait even longer: there are about ten
# such writes per second.
COUNTERS_EVERY_MS: Final = 1000
STARTING_COUNTERS_MS: Final = 5000
_STARTING_COUNTERS_MS_PER_JOB: Final = 100
_LONGEST_COUNTERS_MS: Final = 60_000
# The phase Pending of so many new jobs is written at once. For more new jobs it waits like the counters:
# most of the jobs run by then, and one write has both phases.
NEW_JOBS_AT_ONCE: Final = 20
# Phases in which a job needs no pods.
_KILLING: Final = frozenset(
    {Phase.ABORTING, Phase.ABORTED, Phase.COMPLETING, Phase.TERMINATING, *FINISHED}
)


def reconcile(observed: Observed) -> Plan:
    """Executes a Command or a policy that is due; else creates or deletes objects for the phase."""
    now_ms = observed.now_ms
    if observed.job.metadata.is_terminating:
        return NOTHING
    if observed.commands:
        return execute_command(observed, observed.commands[0])
    if observed.job.status.phase in _KILLING:
        return _kill(observed)
    matches = policy_actions(observed)
    due = next((one for one in matches if one.due_ms <= now_ms), None)
    if due is not None and has_effect(observed, due):
        return execute_policy(observed, due)
    plan = _sync(observed)
    waits = [(one.due_ms - now_ms) / 1000 for one in matches if one.due_ms > now_ms]
    if plan.again_seconds is not None:
        waits.append(plan.again_seconds)
    patches = failing_since_patches(observed, matches)
    return replace(
        plan,
        stages=(patches, *plan.stages) if patches else plan.stages,
        again_seconds=min(waits, default=None),
    )


def _kill(observed: Observed) -> Plan:
    """Deletes unfinished pods and the PodGroup, and then the objects of plugins."""
    if acts := deletions(observed):
        # The counters are written when the pods are terminating.
        return Plan.of(acts)
    job, phase = observed.job, observed.job.status.phase
    status = current_status(job, observed.spec, observed.pods)
    next_phase = rule_for(phase, Action.SYNC).next_phase(Facts(observed.spec, status))
    removals: list[Act] = []
    if (next_phase or phase) in (*FINISHED, Phase.ABORTED):
        removals = delete_plugin_objects(job, observed.spec, status)
    if next_phase is not None:
        set_phase(job, status, next_phase, observed.now_ms)
    return _with_status(observed, [removals], status)


def _sync(observed: Observed) -> Plan:
    """Creates what a job in a phase with pods lacks, and stores its status."""
    job, now_ms = observed.job, observed.now_ms
    if job.status.phase is Phase.RESTARTING and (acts := deletions(observed)):
        return Plan.of(acts)
    status = current_status(job, observed.spec, observed.pods)
    next_phase = rule_for(job.status.phase, Action.SYNC).next_phase(Facts(observed.spec, status))
    synced = Sync()
    # A job that has finished needs no objects.
    if next_phase not in FINISHED:
        if first_patch := _outdated_message(observed) or job_patch(observed):
            return Plan.of([first_patch])
        synced = sync(observed, status)
    is_new = not job.status.state.phase
    if is_new:
        since_ms = now_ms if next_phase is None else now_ms - observed.outdated_ms
        set_phase(job, status, Phase.PENDING, since_ms)
    if next_phase is not None:
        set_phase(job, status, next_phase, now_ms)
    if next_phase not in FINISHED:
        _set_message(observed, status)
    plan = _with_status(observed, synced.stages, status)
    return replace(
        plan,
        again_seconds=0.0 if synced.has_more else plan.again_seconds,
        problem=synced.problem,
        on_failure=_pending_patch(observed) if is_new else (),
    )


def _pending_patch(observed: Observed) -> tuple[Act, ...]:
    """Stores the first phase of a new job whose objects cannot be created."""
    job = observed.job
    status = msgspec.structs.replace(job.status, min_available=observed.spec.min_available)
    set_phase(job, status, Phase.PENDING, observed.now_ms)
    patch = status_patch(job, status)
    return () if patch is None else (patch,)


def _outdated_message(observed: Observed) -> Patch | None:
    """Removes the message of a job that does not wait any more.

    It comes before all other writes, because the API server may refuse one of them.
    """
    state = observed.job.status.state
    if state.reason or not state.message or why_waiting(observed):
        return None
    cleared = msgspec.structs.replace(state, message="")
    status = msgspec.structs.replace(observed.job.status, state=cleared)
    return status_patch(observed.job, status)


def _set_message(observed: Observed, status: JobStatus) -> None:
    """Sets the message why a job waits. A phase that an action led to keeps the action's message."""
    state, message = status.state, why_waiting(observed)
    if not state.reason and state.message != message:
        status.state = msgspec.structs.replace(state, message=message)


def _with_status(observed: Observed, stages: Sequence[Sequence[Act]], status: JobStatus) -> Plan:
    """A plan that stores the status last. Counters alone, and the first phase of many jobs, wait."""
    patch = status_patch(observed.job, status)
    if patch is None:
        return Plan.of(*stages)
    wait_ms = 0
    if only_counters_differ(observed.job, status):
        wait_ms = _counters_wait_ms(observed, status) - observed.outdated_ms
    elif is_plain_start(observed.job, status) and not any(policies_without_effect(observed.spec)):
        wait_ms = _first_phase_wait_ms(observed) - observed.outdated_ms
    if wait_ms > 0:
        return Plan.of(*stages, again_seconds=wait_ms / 1000)
    return Plan.of(*stages, [patch])


def _first_phase_wait_ms(observed: Observed) -> int:
    later = observed.outdated_jobs - NEW_JOBS_AT_ONCE
    return min(_STARTING_COUNTERS_MS_PER_JOB * later, _LONGEST_COUNTERS_MS)


def _counters_wait_ms(observed: Observed, status: JobStatus) -> int:
    has_ended = status.succeeded or status.failed or status.terminating or status.unknown
    if status.phase is not Phase.PENDING or has_ended:
        return COUNTERS_EVERY_MS
    longer_ms = _STARTING_COUNTERS_MS_PER_JOB * observed.outdated_jobs
    return min(STARTING_COUNTERS_MS + longer_ms, _LONGEST_COUNTERS_MS)
