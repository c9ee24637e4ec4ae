"""Reconciles a queue: its parent, its state, and the counters of its PodGroups.

A queue is open until a Command closes it or its parent is closed. A closed queue is Closing while it has
PodGroups, then Closed. A queue that its parent closed has an annotation, and opens with the parent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pumice.controllers.bus import Command
from pumice.controllers.queue.hierarchy import Problem
from pumice.controllers.queue.types import (
    CLOSE_QUEUE,
    CLOSED_BY_PARENT,
    OPEN_QUEUE,
    ROOT,
    VALID_HIERARCHY,
    Condition,
    Queue,
    State,
)
from pumice.controllers.resources import QUEUE
from pumice.controllers.runtime.acts import NOTHING, Act, Emit, Patch, Plan, Reference
from pumice.controllers.runtime.objects import Manifest
from pumice.controllers.runtime.times import shown

COUNTERS: Final = ("pending", "running", "unknown", "inqueue", "completed")


@dataclass(frozen=True, slots=True)
class Observed:
    """A queue, its parent, its Commands in the order of their creation, and its PodGroups."""

    queue: Queue
    parent: Queue | None = None
    # Whether there is a Command for the parent.
    parent_has_commands: bool = False
    commands: tuple[Command, ...] = ()
    # PodGroups by phase, in lower case.
    counts: Mapping[str, int] = field(default_factory=dict)
    # Seconds until outdated counters may be written.
    counters_seconds: float = 0.0
    # What is wrong with the position of the queue in the hierarchy.
    problem: Problem | None = None
    now_ms: int = 0
    # Whether the problem is not written again, although no condition has it.
    is_reported: bool = False

    @property
    def is_parent_closed(self) -> bool:
        return self.parent is not None and self.parent.is_closed

    @property
    def action(self) -> str:
        """The action of the newest Command, which replaces older Commands; "": there is none."""
        return self.commands[-1].action if self.commands else ""


def reconcile(observed: Observed) -> Plan:
    """Writes the new state first, and then deletes the Commands that asked for it."""
    queue = observed.queue
    if queue.metadata.is_terminating or _waits_for_parent(observed):
        return NOTHING
    state, events = _next_state(observed)
    patch = _object_patch(observed, state)
    status = _status_patch(observed, state)
    condition = _changed_condition(observed)
    if condition is not None:
        others = [one for one in queue.status.conditions or () if one.type != VALID_HIERARCHY]
        status["conditions"] = [msgspec.to_builtins(one) for one in (*others, condition)]
        is_problem = observed.problem is not None
        events.append(_event(queue, condition.reason, condition.message, warning=is_problem))
    removals: list[Act] = [command.removal() for command in observed.commands]
    return Plan.of(
        [Patch.of(QUEUE, queue.metadata, patch)] if patch else (),
        [Patch.of_status(QUEUE, queue.metadata, status)] if status else (),
        # The newest Command is deleted last: a remaining older one would take effect again.
        removals[:-1],
        [*removals[-1:], *events],
        again_seconds=observed.counters_seconds or None,
    )


def _waits_for_parent(observed: Observed) -> bool:
    """Whether a Command may be about to open the parent. The queue is enqueued when the parent changes."""
    return (
        observed.action == OPEN_QUEUE and observed.is_parent_closed and observed.parent_has_commands
    )


def _next_state(observed: Observed) -> tuple[State, list[Emit]]:
    queue, action = observed.queue, observed.action
    closed = State.CLOSING if observed.counts else State.CLOSED
    if action == CLOSE_QUEUE:
        if queue.is_root:
            return State.OPEN, [_event(queue, CLOSE_QUEUE, "queue root cannot be closed")]
        return closed, [_event(queue, CLOSE_QUEUE, f"queue is {closed}", warning=False)]
    if action == OPEN_QUEUE:
        if observed.is_parent_closed:
            text = f"the parent {queue.parent} is closed; open it first"
            return closed, [_event(queue, OPEN_QUEUE, text)]
        return State.OPEN, [_event(queue, OPEN_QUEUE, "queue is open", warning=False)]
    events = []
    if action:
        text = f"action {action!r} of a Command; allowed: {OPEN_QUEUE}, {CLOSE_QUEUE}"
        events.append(_event(queue, "UnknownCommand", text))
    if observed.is_parent_closed:
        return closed, events
    if queue.is_closed:
        return (State.OPEN if queue.is_closed_by_parent else closed), events
    return (State.UNKNOWN if queue.status.state == State.UNKNOWN else State.OPEN), events


def _object_patch(observed: Observed, state: State) -> Manifest:
    """The parent, if it is missing, and the annotation whether the parent closed the queue."""
    queue = observed.queue
    patch: Manifest = {}
    if not queue.is_root and not queue.spec.parent:
        patch["spec"] = {"parent": ROOT}
    annotation = ""
    if state in (State.OPEN, State.UNKNOWN):
        annotation = "false" if queue.is_closed_by_parent else ""
    elif (
        observed.is_parent_closed
        and not queue.is_closed
        and observed.action != CLOSE_QUEUE
        and not queue.is_closed_by_parent
    ):
        annotation = "true"
    if annotation:
        patch["metadata"] = {"annotations": {CLOSED_BY_PARENT: annotation}}
    return patch


def _status_patch(observed: Observed, state: State) -> Manifest:
    """A new state at once, with the counters; counters alone when they may be written."""
    counters = outdated_counters(observed.queue, observed.counts)
    if observed.queue.status.state != state:
        return {"state": state.value, **counters}
    return {} if observed.counters_seconds > 0 else counters


def outdated_counters(queue: Queue, counts: Mapping[str, int]) -> Manifest:
    """The counters that differ from the stored ones."""
    current = {name: counts.get(name, 0) for name in COUNTERS}
    return {name: count for name, count in current.items() if getattr(queue.status, name) != count}


def _changed_condition(observed: Observed) -> Condition | None:
    """The condition, if it changes. A queue that never had a problem has no condition."""
    conditions = observed.queue.status.conditions or ()
    stored = next((one for one in conditions if one.type == VALID_HIERARCHY), None)
    if observed.problem is None:
        if stored is None or stored.status == "True":
            return None
        reason, text, status = "Valid", "the position of the queue is valid", "True"
    else:
        reason, text, status = observed.problem.reason, observed.problem.text, "False"
        if stored is not None and (stored.reason, stored.message) == (reason, text):
            return None
        if stored is None and observed.is_reported:
            return None
    at = stored.last_transition_time if stored is not None and stored.status == status else None
    return Condition(VALID_HIERARCHY, status, reason, text, at or shown(observed.now_ms))


def _event(queue: Queue, reason: str, text: str, *, warning: bool = True) -> Emit:
    return Emit(Reference.of(QUEUE, queue.metadata), reason, text, warning=warning)
