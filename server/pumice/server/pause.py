"""Why a cluster is not scheduled, and the events that tell the people who wait."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pumice.core.cache.jobs import Job
from pumice.core.decisions import Event
from pumice.core.model.status import TaskStatus

EVENT_REASON = "SchedulingPaused"
# Waiting PodGroups that get an event when a pause begins.
MAX_EVENTS = 100


class PauseReason(StrEnum):
    """Why nothing is scheduled; the names are label values of ``pumice_cluster_paused``."""

    NO_ADAPTER = "no_adapter"
    SNAPSHOT_INCOMPLETE = "snapshot_incomplete"
    NO_CONFIGURATION = "no_configuration"
    DRIFT = "drift"
    LIMIT_EXCEEDED = "limit_exceeded"


# Reasons that do not end by themselves: somebody has to act.
FAULTS = frozenset({PauseReason.NO_CONFIGURATION, PauseReason.DRIFT, PauseReason.LIMIT_EXCEEDED})


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing is scheduled, since when and why."""

    reason: PauseReason
    message: str
    since_ns: int
    # The kinds that differ, with DRIFT.
    kinds: tuple[int, ...] = ()


def pause_events(pause: Pause, jobs: Iterable[Job]) -> tuple[Event, ...]:
    """A warning on each PodGroup with pending pods, up to a limit."""
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
