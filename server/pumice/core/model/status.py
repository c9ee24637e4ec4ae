"""The statuses of a task, and the sets of statuses that Volcano counts."""

from __future__ import annotations

from enum import IntFlag

from pumice.core.model.pod import Pod, PodPhase


class TaskStatus(IntFlag):
    """The status of a task; Allocated and Pipelined exist only inside a session."""

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


# Module-level names for code that runs for every task, because Python 3.11 is slow to look up
# members of enumerations.
PENDING, ALLOCATED, PIPELINED, BINDING, BOUND, RUNNING, RELEASING, SUCCEEDED, FAILED, UNKNOWN = (
    TaskStatus
)
HOLDS_RESOURCES = frozenset((BOUND, BINDING, RUNNING, ALLOCATED))
COMPLETED = frozenset((SUCCEEDED, FAILED))
EVICTABLE = frozenset((BOUND, RUNNING))
_OF_PHASE = {
    PodPhase.UNKNOWN: UNKNOWN,
    PodPhase.PENDING: PENDING,
    PodPhase.RUNNING: RUNNING,
    PodPhase.SUCCEEDED: SUCCEEDED,
    PodPhase.FAILED: FAILED,
}
_LIVES = (PENDING, RUNNING)


def status_of(pod: Pod) -> TaskStatus:
    status = _OF_PHASE[pod.phase]
    if pod.terminating:
        return RELEASING if status in _LIVES else status
    return BOUND if status is PENDING and pod.node_name else status
