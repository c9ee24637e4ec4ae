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


# Plain integers: these are tested once per task and placement.
HOLDS_RESOURCES = frozenset(
    (TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.RUNNING, TaskStatus.ALLOCATED)
)
COMPLETED = frozenset((TaskStatus.SUCCEEDED, TaskStatus.FAILED))
EVICTABLE = frozenset((TaskStatus.BOUND, TaskStatus.RUNNING))


_OF_PHASE = {
    PodPhase.UNKNOWN: TaskStatus.UNKNOWN,
    PodPhase.PENDING: TaskStatus.PENDING,
    PodPhase.RUNNING: TaskStatus.RUNNING,
    PodPhase.SUCCEEDED: TaskStatus.SUCCEEDED,
    PodPhase.FAILED: TaskStatus.FAILED,
}
# Names of their own: Python 3.11 takes longer to find a member of an enumeration than to do what
# is done here with it.
_PENDING, _BOUND, _RELEASING = TaskStatus.PENDING, TaskStatus.BOUND, TaskStatus.RELEASING
_LIVES = (TaskStatus.PENDING, TaskStatus.RUNNING)


def status_of(pod: Pod) -> TaskStatus:
    status = _OF_PHASE[pod.phase]
    if pod.terminating:
        return _RELEASING if status in _LIVES else status
    return _BOUND if status is _PENDING and pod.node_name else status
