"""Why scheduling of a cluster is paused, and the events about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pumice.core.cache.jobs import Job
from pumice.core.decisions import Event
from pumice.core.model.status import TaskStatus
from pumice.server.wire import kind_word

EVENT_REASON = "SchedulingPaused"
# Number of waiting PodGroups that get an event when a pause begins.
MAX_EVENTS = 100


class PauseReason(StrEnum):
    """The reason of a pause. The values are label values of ``pumice_cluster_paused``."""

    NO_ADAPTER = "no_adapter"
    SNAPSHOT_INCOMPLETE = "snapshot_incomplete"
    NO_CONFIGURATION = "no_configuration"
    DRIFT = "drift"
    LIMIT_EXCEEDED = "limit_exceeded"


# Reasons that an operator must resolve.
FAULTS = frozenset({PauseReason.NO_CONFIGURATION, PauseReason.DRIFT, PauseReason.LIMIT_EXCEEDED})


@dataclass(frozen=True, slots=True)
class Pause:
    """A time during which a cluster is not scheduled."""

    reason: PauseReason
    message: str
    since_ns: int
    # The kinds that differ, for DRIFT.
    kinds: tuple[int, ...] = ()


def is_same(old: Pause | None, new: Pause | None) -> bool:
    """Whether both pauses are equal, apart from the time at which they began."""
    if old is None or new is None:
        return old is new
    return replace(new, since_ns=old.since_ns) == old


def required_pause(
    *,
    now_ns: int,
    exceeded: str = "",
    connected: bool = False,
    complete: bool = False,
    configured: bool = False,
    drifting: Sequence[int] = (),
) -> Pause | None:
    """The pause that the current state requires; None: the cluster is scheduled."""
    if exceeded:
        return Pause(PauseReason.LIMIT_EXCEEDED, exceeded, now_ns)
    if not connected:
        message = "no adapter is connected: nothing is scheduled"
        return Pause(PauseReason.NO_ADAPTER, message, now_ns)
    if not complete:
        message = "the snapshot is not complete: nothing is scheduled yet"
        return Pause(PauseReason.SNAPSHOT_INCOMPLETE, message, now_ns)
    if not configured:
        message = "no valid configuration: nothing is scheduled"
        return Pause(PauseReason.NO_CONFIGURATION, message, now_ns)
    if drifting:
        words = ", ".join(kind_word(kind) for kind in drifting)
        message = f"adapter and core hold different objects ({words}): nothing is scheduled"
        return Pause(PauseReason.DRIFT, message, now_ns, tuple(drifting))
    return None


def pause_events(pause: Pause, jobs: Iterable[Job]) -> tuple[Event, ...]:
    """A warning event for each PodGroup with pending pods, up to a limit."""
    if pause.reason not in FAULTS:
        return ()
    events: list[Event] = []
    for job in jobs:
        group = job.group
        if group is not None and job.index.by_status.get(TaskStatus.PENDING):
            where = ("PodGroup", group.namespace, group.name, group.uid)
            events.append(Event(*where, True, EVENT_REASON, pause.message))
            if len(events) == MAX_EVENTS:
                break
    return tuple(events)
