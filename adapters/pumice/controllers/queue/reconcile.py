"""What a queue needs: a parent, a state, and counters of its PodGroups.

A queue is open, until a Command closes it or its parent is closed. It is Closing while it has
PodGroups, then Closed. A queue that its parent closed carries an annotation, and opens with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pumice.controllers.job.times import shown
from pumice.controllers.job.types import Command
from pumice.controllers.queue.hierarchy import Problem
from pumice.controllers.queue.types import (
    CLOSE_QUEUE,
    CLOSED_BY_PARENT,
    OPEN_QUEUE,
    ROOT,
    VALID,
    Condition,
    Queue,
    State,
)
from pumice.controllers.resources import COMMANDS, QUEUE
from pumice.controllers.runtime.acts import NOTHING, Act, Delete, Emit, Patch, Plan, Reference
from pumice.controllers.runtime.objects import Manifest

COUNTERS: Final = ("pending", "running", "unknown", "inqueue", "completed")


@dataclass(frozen=True, slots=True)
class Seen:
    """A queue, its parent, the Commands for it in the order of their creation, and its PodGroups."""

    queue: Queue
    parent: Queue | None = None
    # Whether a Command for the parent waits.
    parent_has_commands: bool = False
    commands: tuple[Command, ...] = ()
    # PodGroups by phase, in lower case.
    counts: Mapping[str, int] = field(default_factory=dict)
    # Seconds until counters may be written again.
    counters_seconds: float = 0.0
    # What is wrong with the place of the queue in the tree.
    problem: Problem | None = None
    now_ms: int = 0
    # Whether the problem need not be written again, although it is not stored.
    is_told: bool = False


def reconcile(seen: Seen) -> Plan:
    """Writes the new state first, and then deletes the Commands that asked for it."""
    queue = seen.queue
    if queue.metadata.is_terminating:
        return NOTHING
    if _waits_for_parent(seen):
        # The key comes again when the parent changes.
        return NOTHING
    state, events = _next_state(seen)
    first: list[Act] = []
    patch = _object_patch(seen, state)
    if patch:
        first.append(_patch(queue, patch))
    status = _status_patch(seen, state)
    condition = _condition(seen)
    if condition is not None:
        others = [one for one in queue.status.conditions or () if one.type != VALID]
        status["conditions"] = [msgspec.to_builtins(one) for one in (*others, condition)]
        events.append(
            _event(queue, condition.reason, condition.message, warning=bool(seen.problem))
        )
    second: list[Act] = [_patch(queue, {"status": status}, "status")] if status else []
    # The newest Command goes last: an older one that is left over would take effect again.
    older = [_removal(command) for command in seen.commands[:-1]]
    last: list[Act] = [*map(_removal, seen.commands[-1:]), *events]
    stages = tuple(tuple(stage) for stage in (first, second, older, last) if stage)
    return Plan(stages, again_seconds=_again(seen))


def _waits_for_parent(seen: Seen) -> bool:
    """A parent that is closed may be about to open."""
    return (
        _asked(seen) == OPEN_QUEUE
        and seen.parent is not None
        and seen.parent.status.is_shut
        and seen.parent_has_commands
    )


def _asked(seen: Seen) -> str:
    """The action of the newest Command, which takes the place of older ones."""
    return seen.commands[-1].action if seen.commands else ""


def _next_state(seen: Seen) -> tuple[State, list[Emit]]:
    queue, asked = seen.queue, _asked(seen)
    shut = State.CLOSING if seen.counts else State.CLOSED
    is_below_shut = seen.parent is not None and seen.parent.status.is_shut
    if asked == CLOSE_QUEUE:
        if queue.is_root:
            return State.OPEN, [_event(queue, CLOSE_QUEUE, "queue root cannot be closed")]
        return shut, [_event(queue, CLOSE_QUEUE, f"queue is {shut}", warning=False)]
    if asked == OPEN_QUEUE:
        if is_below_shut:
            text = f"the parent {queue.parent} is closed; open it first"
            return shut, [_event(queue, OPEN_QUEUE, text)]
        return State.OPEN, [_event(queue, OPEN_QUEUE, "queue is open", warning=False)]
    events = []
    if asked:
        text = f"action {asked!r} of a Command; allowed: {OPEN_QUEUE}, {CLOSE_QUEUE}"
        events.append(_event(queue, "UnknownCommand", text))
    if is_below_shut:
        return shut, events
    if queue.status.is_shut:
        return (State.OPEN if queue.is_closed_by_parent else shut), events
    return (State.UNKNOWN if queue.status.state == State.UNKNOWN else State.OPEN), events


def _object_patch(seen: Seen, state: State) -> Manifest:
    """The parent that is missing, and the annotation that says who closed the queue."""
    queue = seen.queue
    patch: Manifest = {}
    if not queue.is_root and not queue.spec.parent:
        patch["spec"] = {"parent": ROOT}
    is_open = state in (State.OPEN, State.UNKNOWN)
    is_below_shut = seen.parent is not None and seen.parent.status.is_shut
    annotation = ""
    if is_open and queue.is_closed_by_parent:
        annotation = "false"
    elif (
        not is_open
        and is_below_shut
        and not queue.status.is_shut
        and _asked(seen) != CLOSE_QUEUE
        and not queue.is_closed_by_parent
    ):
        annotation = "true"
    if annotation:
        patch["metadata"] = {"annotations": {CLOSED_BY_PARENT: annotation}}
    return patch


def _status_patch(seen: Seen, state: State) -> Manifest:
    """The state at once; counters with it, or when they may be written."""
    status = seen.queue.status
    changed: Manifest = {
        name: seen.counts.get(name, 0)
        for name in COUNTERS
        if getattr(status, name) != seen.counts.get(name, 0)
    }
    if status.state != state:
        return {"state": state.value, **changed}
    return {} if seen.counters_seconds > 0 else changed


def _condition(seen: Seen) -> Condition | None:
    """The condition, if it changes. A queue without problems has none before it had one."""
    conditions = seen.queue.status.conditions or ()
    held = next((one for one in conditions if one.type == VALID), None)
    if seen.problem is None:
        if held is None or held.status == "True":
            return None
        reason, text, status = "Valid", "the place of the queue is valid", "True"
    else:
        reason, text, status = seen.problem.reason, seen.problem.text, "False"
        if held is not None and (held.reason, held.message) == (reason, text):
            return None
        if held is None and seen.is_told:
            return None
    at = held.last_transition_time if held is not None and held.status == status else None
    return Condition(VALID, status, reason, text, at or shown(seen.now_ms))


def _again(seen: Seen) -> float | None:
    differs = any(getattr(seen.queue.status, name) != seen.counts.get(name, 0) for name in COUNTERS)
    return seen.counters_seconds if differs and seen.counters_seconds > 0 else None


def _patch(queue: Queue, body: Manifest, subresource: str = "") -> Patch:
    metadata = queue.metadata
    return Patch(QUEUE, "", metadata.name, metadata.uid, body, subresource=subresource)


def _removal(command: Command) -> Delete:
    metadata = command.metadata
    return Delete(COMMANDS, metadata.namespace, metadata.name, metadata.uid)


def _event(queue: Queue, reason: str, text: str, *, warning: bool = True) -> Emit:
    return Emit(Reference.of(QUEUE, queue.metadata), reason, text, warning=warning)
