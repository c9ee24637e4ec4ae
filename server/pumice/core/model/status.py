"""The states of a task, and the sets of them that the reference counts by."""

from __future__ import annotations

from enum import IntFlag

from pumice.core.model.pod import Pod, PodPhase


class TaskStatus(IntFlag):
    """Where a task stands; Allocated and Pipelined exist only inside a session."""

    PENDING = 1
    ALLOCATED = 2
    PIPELINED = 4
    BINDING = 8
    BOUND = 16
    RUNNING = 32
    RELEASING = 64
    SUCCEEDED = 128
    FAILED = 256
    UNKNOWN = 512

    @property
    def word(self) -> str:
        return (self.name or "").capitalize()


# Plain integers: these are tested once per task and placement.
HOLDS_RESOURCES = frozenset(
    (TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.RUNNING, TaskStatus.ALLOCATED)
)
COMPLETED = frozenset((TaskStatus.SUCCEEDED, TaskStatus.FAILED))
EVICTABLE = frozenset((TaskStatus.BOUND, TaskStatus.RUNNING))


def status_of(pod: Pod) -> TaskStatus:
    match pod.phase:
        case PodPhase.RUNNING:
            return TaskStatus.RELEASING if pod.terminating else TaskStatus.RUNNING
        case PodPhase.PENDING:
            if pod.terminating:
                return TaskStatus.RELEASING
            return TaskStatus.BOUND if pod.node_name else TaskStatus.PENDING
        case PodPhase.SUCCEEDED:
            return TaskStatus.SUCCEEDED
        case PodPhase.FAILED:
            return TaskStatus.FAILED
        case _:
            return TaskStatus.UNKNOWN
