"""The state machine of a Job as one table, which the documentation shows too.

A rule says what an action does in some phases: which pods are deleted, whether the action counts as a
retry, and which phase follows. The first condition that holds decides the next phase.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pumice.controllers.job.types import Action, JobSpec, JobStatus, Phase


class Kill(Enum):
    """Which pods an action deletes."""

    NONE = "none"
    UNFINISHED = "all that are not Succeeded or Failed"
    ALL = "all; on the last retry, all that are not Succeeded or Failed"
    TARGET = "those of the task, pod or partition"


@dataclass(frozen=True, slots=True)
class Facts:
    """The spec and the status that conditions depend on. The counters of the status are up to date."""

    spec: JobSpec
    status: JobStatus

    @property
    def alive(self) -> int:
        return self.status.terminating + self.status.pending + self.status.running


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition and its text."""

    text: str
    holds: Callable[[Facts], bool]


def _is_short_of_a_task(facts: Facts) -> bool:
    """Whether all pods are finished, and a task has fewer successes than its minAvailable."""
    minimum = sum(task.min_available or 0 for task in facts.spec.tasks or ())
    if not _is_all_finished(facts) or facts.spec.min_available < minimum:
        return False
    counts = facts.status.task_status_count or {}
    return any(
        counts.get(task.name, {}).get("phase", {}).get("Succeeded", 0) < (task.min_available or 0)
        for task in facts.spec.tasks or ()
    )


def _is_all_finished(facts: Facts) -> bool:
    status, total = facts.status, facts.spec.total
    return total > 0 and status.succeeded + status.failed == total


def _has_min_success(facts: Facts) -> bool:
    minimum = facts.spec.min_success
    return facts.spec.total > 0 and minimum is not None and facts.status.succeeded >= minimum


_ALWAYS: Final = Condition("always", lambda facts: True)
_ENOUGH_STARTED: Final = Condition(
    "running + succeeded + failed ≥ minAvailable",
    lambda facts: (
        facts.status.running + facts.status.succeeded + facts.status.failed
        >= facts.spec.min_available
    ),
)
_MIN_SUCCESS: Final = Condition("succeeded ≥ minSuccess, if it is set", _has_min_success)
_TASK_SHORT: Final = Condition(
    "all pods finished, minAvailable of the job ≥ the sum of its tasks, and a task has fewer"
    " succeeded pods than its minAvailable",
    _is_short_of_a_task,
)
_SHORT_OF_SUCCESS: Final = Condition(
    "all pods finished, and succeeded < minSuccess",
    lambda facts: _is_all_finished(facts) and facts.spec.min_success is not None,
)
_ALL_SUCCEEDED: Final = Condition(
    "all pods finished, and succeeded ≥ minAvailable",
    lambda facts: _is_all_finished(facts) and facts.status.succeeded >= facts.spec.min_available,
)
_ALL_FINISHED: Final = Condition("all pods finished", _is_all_finished)
_TOO_MANY_PENDING: Final = Condition(
    "pending > replicas - minAvailable",
    lambda facts: (
        facts.spec.total > 0 and facts.status.pending > facts.spec.total - facts.spec.min_available
    ),
)
_NO_RETRY_LEFT: Final = Condition(
    "retryCount ≥ maxRetry", lambda facts: facts.status.retry_count >= facts.spec.max_retry
)
_ENOUGH_GONE: Final = Condition(
    "replicas - terminating ≥ minAvailable",
    lambda facts: facts.spec.total - facts.status.terminating >= facts.spec.min_available,
)
_NOTHING_ALIVE: Final = Condition(
    "no pod is pending, running or terminating", lambda facts: facts.alive == 0
)


@dataclass(frozen=True, slots=True)
class Rule:
    """What some actions do in some phases."""

    phases: tuple[Phase, ...]
    # Empty: every action that no other rule of the phase has.
    actions: tuple[Action, ...]
    kill: Kill
    then: tuple[tuple[Condition, Phase], ...] = ()
    counts_retry: bool = False

    def next_phase(self, facts: Facts) -> Phase | None:
        """The next phase; None: the phase stays."""
        return next((phase for condition, phase in self.then if condition.holds(facts)), None)


TARGETED: Final = (Action.RESTART_TASK, Action.RESTART_POD, Action.RESTART_PARTITION)
_ALIVE: Final = (Phase.PENDING, Phase.RUNNING)
_ANY_OTHER: Final = ()

RULES: Final[tuple[Rule, ...]] = (
    Rule(_ALIVE, (Action.RESTART,), Kill.ALL, ((_ALWAYS, Phase.RESTARTING),), counts_retry=True),
    Rule(_ALIVE, TARGETED, Kill.TARGET, ((_ALWAYS, Phase.RESTARTING),), counts_retry=True),
    Rule(
        (*_ALIVE, Phase.RESTARTING),
        (Action.ABORT,),
        Kill.UNFINISHED,
        ((_ALWAYS, Phase.ABORTING),),
    ),
    Rule(
        (*_ALIVE, Phase.RESTARTING),
        (Action.COMPLETE,),
        Kill.UNFINISHED,
        ((_ALWAYS, Phase.COMPLETING),),
    ),
    Rule(
        (*_ALIVE, Phase.RESTARTING),
        (Action.TERMINATE,),
        Kill.UNFINISHED,
        ((_ALWAYS, Phase.TERMINATING),),
    ),
    Rule((Phase.PENDING,), _ANY_OTHER, Kill.NONE, ((_ENOUGH_STARTED, Phase.RUNNING),)),
    Rule(
        (Phase.RUNNING,),
        _ANY_OTHER,
        Kill.NONE,
        (
            (_MIN_SUCCESS, Phase.COMPLETED),
            (_TASK_SHORT, Phase.FAILED),
            (_SHORT_OF_SUCCESS, Phase.FAILED),
            (_ALL_SUCCEEDED, Phase.COMPLETED),
            (_ALL_FINISHED, Phase.FAILED),
            (_TOO_MANY_PENDING, Phase.PENDING),
        ),
    ),
    Rule(
        (Phase.RESTARTING,),
        (Action.RESTART,),
        Kill.ALL,
        ((_NO_RETRY_LEFT, Phase.FAILED), (_ENOUGH_GONE, Phase.PENDING)),
    ),
    Rule(
        (Phase.RESTARTING,),
        TARGETED,
        Kill.TARGET,
        ((_NO_RETRY_LEFT, Phase.FAILED), (_ENOUGH_GONE, Phase.PENDING)),
    ),
    Rule(
        (Phase.RESTARTING,),
        _ANY_OTHER,
        Kill.NONE,
        ((_NO_RETRY_LEFT, Phase.FAILED), (_ENOUGH_GONE, Phase.PENDING)),
    ),
    Rule(
        (Phase.ABORTING, Phase.ABORTED),
        (Action.RESUME,),
        Kill.UNFINISHED,
        ((_ALWAYS, Phase.RESTARTING),),
    ),
    Rule((Phase.ABORTING,), _ANY_OTHER, Kill.UNFINISHED, ((_NOTHING_ALIVE, Phase.ABORTED),)),
    Rule((Phase.COMPLETING,), _ANY_OTHER, Kill.UNFINISHED, ((_NOTHING_ALIVE, Phase.COMPLETED),)),
    Rule((Phase.TERMINATING,), _ANY_OTHER, Kill.UNFINISHED, ((_NOTHING_ALIVE, Phase.TERMINATED),)),
    Rule(
        (Phase.ABORTED, Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED),
        _ANY_OTHER,
        Kill.UNFINISHED,
    ),
)


def rule_for(phase: Phase, action: Action) -> Rule:
    """The rule of an action in a phase; there is exactly one."""
    named = [rule for rule in RULES if phase in rule.phases and action in rule.actions]
    return named[0] if named else _DEFAULTS[phase]


_DEFAULTS: Final = {phase: rule for rule in RULES if not rule.actions for phase in rule.phases}
